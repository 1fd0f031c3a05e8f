// Sixteen bytes at a time, without special instructions: each processor that we run on has such
// vectors, so that nothing is dispatched.
#pragma once

#include <cstdint>
#include <cstring>

namespace pm {

typedef unsigned char Bytes __attribute__((vector_size(16)));

inline Bytes load(const char* from) noexcept {
  Bytes bytes;
  std::memcpy(&bytes, from, sizeof bytes);
  return bytes;
}

inline bool any(Bytes bytes) noexcept {
  std::uint64_t halves[2];
  std::memcpy(halves, &bytes, sizeof bytes);
  return (halves[0] | halves[1]) != 0;
}

}  // namespace pm
