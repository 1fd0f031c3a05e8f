// What glibc said before it aborted the process.
#pragma once

#include <optional>
#include <string>

#include "elfcore/modules.h"

namespace pm::elfcore {

// glibc's `__abort_msg`: set by failed assertions, malloc's checks and _FORTIFY_SOURCE, not by
// std::terminate() or Py_FatalError(). Other C libraries have none.
std::optional<std::string> read_abort_message(const Memory& memory);

// Whether a thread may have called abort(). Of a container's first process its signal is ignored,
// and abort() comes to its last resort, hlt.
bool may_have_aborted(const Memory& memory, const ThreadState* thread);

}  // namespace pm::elfcore
