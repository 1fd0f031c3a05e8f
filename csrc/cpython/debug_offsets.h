// `_Py_DebugOffsets`: the offsets that an interpreter (3.13 and later) publishes itself, at the
// start of `_PyRuntime`. Include/internal/pycore_debug_offsets.h of CPython.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cpython/layout.h"
#include "elfcore/modules.h"

namespace pm::cpython {

inline constexpr std::string_view kDebugCookie = "xdebugpy";
// The last minor version whose `struct _Py_DebugOffsets` is known.
inline constexpr unsigned kNewest = 15;

struct DebugOffsets {
  Version version;
  Layout layout;
  std::string refused;  // why `layout` cannot be used; empty: it can
};

// What stands at the address; nothing when it does not start with the cookie.
std::optional<DebugOffsets> read_debug_offsets(const elfcore::Memory& memory,
                                               std::uint64_t address);

}  // namespace pm::cpython
