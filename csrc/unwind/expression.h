// DWARF expressions as unwind tables use them (DWARF 5, section 2.5).
#pragma once

#include <cstdint>
#include <optional>

#include "elfcore/modules.h"
#include "unwind/context.h"

namespace pm::unwind {

// The value that an expression leaves on top of its stack. `initial` lies on it at the start: the
// CFA for the rules of registers, nothing for that of the CFA itself. Nothing when the expression
// is malformed, reads memory that is not there, or does not end within a bounded number of steps.
std::optional<std::uint64_t> evaluate(Bytes expression, const Context& context,
                                      const elfcore::Memory& memory,
                                      std::optional<std::uint64_t> initial);

}  // namespace pm::unwind
