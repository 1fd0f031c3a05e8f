// Bytes in memory as a file of a log.
#pragma once

#include <algorithm>
#include <cstring>

#include "strace/log.h"

namespace fuzz {

inline pm::strace::LogFile log_of(const std::uint8_t* data, std::size_t size, std::uint32_t pid) {
  pm::strace::LogFile made;
  made.pid = pid;
  made.pull = [data, size](char* out, std::size_t most) mutable {
    const std::size_t count = std::min(most, size);
    std::memcpy(out, data, count);
    data += count;
    size -= count;
    return count;
  };
  return made;
}

}  // namespace fuzz
