// A pass over an array as it lies in memory, cut into pieces that threads can share.
#pragma once

#include <algorithm>

#include "scan/layout.h"

namespace pm::scan {

constexpr std::size_t kPieceBytes = std::size_t{256} << 10;

// What one of several threads takes at once: little enough that all are done at about the same
// time.
constexpr std::uint64_t piece_bytes(std::uint64_t bytes, unsigned threads) noexcept {
  const std::uint64_t least = std::uint64_t{64} << 10, most = std::uint64_t{2} << 20;
  return std::clamp(bytes / (std::uint64_t{8} * threads) & ~std::uint64_t{4095}, least, most);
}

// More than this is not expected in a cache: those of the last level that one core reaches hold 32
// MiB on many machines, and others have their share of it.
constexpr std::uint64_t kCachedBytes = std::uint64_t{24} << 20;
constexpr Where where_is(std::uint64_t bytes) noexcept {
  return bytes <= kCachedBytes ? Where::caches : Where::memory;
}

// The kernel of the instruction set in use; each format has one.
Kernel kernel_of(Format format) noexcept;

// Adds up all values of a layout. `first` in the tally is a position in the order of the memory.
Tally pass_over(const Layout& layout, Format format, unsigned threads, Where where);

}  // namespace pm::scan
