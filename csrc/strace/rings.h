// io_uring(7) in the lines of a log: what it was used for, as far as they tell by themselves.
#pragma once

#include <cstdint>
#include <string_view>

namespace pm::strace {

// How many requests io_uring_enter() passes on, if it waits for as many; else -1.
std::int64_t entered_for_all(std::string_view arguments) noexcept;

enum class RingUse : std::uint8_t {
  unknown,
  none,     // it makes no ring and passes nothing on
  made,     // a ring of libuv for epoll_ctl() alone
  entered,  // passed on and waited for, as libuv does with such a ring
};

// What the last line of [begin, end) does to rings; `line` is where it starts, and whole lines
// stand before it. kPadding bytes behind `end` must be readable.
RingUse ring_use(const char* begin, const char* line, const char* end) noexcept;

}  // namespace pm::strace
