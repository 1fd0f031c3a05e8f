// The search for the interpreter: where its state is, and how that is laid out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/error.h"
#include "cpython/layout.h"
#include "elfcore/modules.h"

namespace pm::cpython {

struct Runtime {
  std::uint64_t address = 0;  // _PyRuntime
  Version version;
  bool exact_version = false;  // false: only major and minor are known
  Layout layout;
  std::string library;
};

// Through the symbol, else through the section `.PyRuntime`, else through what the writable data
// of a module named python looks like (the file is gone, or another build is there now). What is
// found is checked: an interpreter whose thread points back at it, and sys.hexversion.
std::optional<Runtime> find_runtime(const elfcore::Memory& memory, Problems& problems);

}  // namespace pm::cpython
