// What a thrown C++ object says: what() without running it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "elfcore/type_info.h"

namespace pm::elfcore {

// The message of the object at `object`, whose classes (itself first) are given; nothing where the
// layout is not known for sure. A what() of the class's own is followed instruction by instruction
// where it does no more than return a member or a constant.
std::optional<std::string> read_what(const Memory& memory, const TypeReader& types,
                                     std::uint64_t type, std::uint64_t object,
                                     const std::vector<BaseClass>& classes);

}  // namespace pm::elfcore
