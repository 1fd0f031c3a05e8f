// The environment as it was when the process died.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "elfcore/modules.h"

namespace pm::elfcore {

// libc's `environ`: what setenv() and Python's os.environ changed shows there, and only there.
// Nothing where it cannot be found or read; `problems` says why.
std::optional<std::vector<std::string>> read_environment(const Memory& memory, Problems& problems);

}  // namespace pm::elfcore
