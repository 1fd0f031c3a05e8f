// Which Python the process ran.
#pragma once

#include <optional>
#include <string>

#include "elfcore/modules.h"

namespace pm::elfcore {

// "3.11.7" from `Py_Version` (Python 3.11 and later), else "3.8" from the names of what was
// mapped; nothing in a process without Python.
std::optional<std::string> find_python_version(const Memory& memory);

}  // namespace pm::elfcore
