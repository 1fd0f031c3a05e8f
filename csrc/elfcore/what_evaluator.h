// What an exception's own what() returns, by following its code.
#pragma once

#include <cstdint>
#include <optional>

#include "elfcore/modules.h"

namespace pm::elfcore {

// The pointer that the method returns for `self`, found by following its instructions over the
// memory of the core; nothing where it does more than loads, additions and calls: whoever writes to
// memory, loops or decides by data is not followed. x86-64 only.
std::optional<std::uint64_t> follow_method(const Memory& memory, std::uint64_t method,
                                           std::uint64_t self);

}  // namespace pm::elfcore
