// The words of an exception of a run-time that moves its objects: out of its heap, and out of what
// functions that have returned left on the stack.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "elfcore/modules.h"

namespace pm::unwind {

constexpr std::size_t kLongest = 16384;        // bytes of a message
constexpr std::uint64_t kSearched = 64 << 10;  // bytes of a stack

// Words that somebody was meant to read: no control characters but line ends and tabs, whole
// sequences of UTF-8.
bool is_text(std::string_view text);

// Of the thread with this stack pointer.
std::optional<std::string> dotnet_exception(const elfcore::Memory& memory, std::uint64_t sp);
std::optional<std::string> v8_exception(const elfcore::Memory& memory, std::uint64_t sp);

}  // namespace pm::unwind
