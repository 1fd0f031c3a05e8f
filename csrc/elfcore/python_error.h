// Python errors that travel through C++ as exceptions: pybind11's and PyTorch's own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "elfcore/modules.h"

namespace pm::elfcore {

// What such an exception says of the Python error inside; nothing for other types. `type` is the
// mangled name, empty where the library that has it is not at hand. The text exists once what() was
// called (std::terminate's handler does); before that there is only the name of the Python type.
std::optional<std::string> python_error_message(const Memory& memory, std::string_view type,
                                                std::uint64_t object);

}  // namespace pm::elfcore
