#include "scan/bytewise.h"

#include <algorithm>
#include <cstring>

#include "scan/bits.h"

namespace pm::scan {
namespace {

struct Histogram {
  std::uint64_t of[256] = {};

  Histogram(const std::uint8_t* bytes, std::size_t count) {
    // Four tables: equal neighbours would wait for each other's count.
    std::uint64_t apart[3][256] = {};
    std::size_t i = 0;
    for (; i + 4 <= count; i += 4) {
      ++of[bytes[i]];
      ++apart[0][bytes[i + 1]];
      ++apart[1][bytes[i + 2]];
      ++apart[2][bytes[i + 3]];
    }
    for (; i < count; ++i) ++of[bytes[i]];
    for (const auto& table : apart) {
      for (std::size_t code = 0; code < 256; ++code) of[code] += table[code];
    }
  }
};

void take(Tally& tally, std::uint64_t magnitude) {
  tally.largest = std::max(tally.largest, magnitude);
  if (magnitude != 0) tally.least_less_one = std::min(tally.least_less_one, magnitude - 1);
}

// Codes are powers of two from 2^-127; 0xff is NaN. Code 0 is a value, and stands for no zero:
// the least is counted from 0, so that "less one" may be all ones only if there is nothing.
void scan_e8m0(const void* data, std::size_t count, std::size_t origin, Where, Tally& tally) {
  const auto* bytes = static_cast<const std::uint8_t*>(data);
  const Histogram histogram(bytes, count);
  for (std::uint64_t code = 0; code < kE8m0Nan; ++code) {
    if (histogram.of[code] != 0) take(tally, code + 1);
  }
  tally.nans += histogram.of[kE8m0Nan];
  if (histogram.of[kE8m0Nan] != 0 && tally.first == kNowhere) {
    const void* found = std::memchr(bytes, kE8m0Nan, count);
    tally.first =
        origin + static_cast<std::size_t>(static_cast<const std::uint8_t*>(found) - bytes);
  }
}

void scan_e2m1x2(const void* data, std::size_t count, std::size_t, Where, Tally& tally) {
  const Histogram histogram(static_cast<const std::uint8_t*>(data), count);
  for (unsigned byte = 0; byte < 256; ++byte) {
    if (histogram.of[byte] == 0) continue;
    for (const unsigned code : {byte & kE2m1Magnitude, (byte >> 4) & kE2m1Magnitude}) {
      take(tally, code);
      tally.zeros += code == 0 ? histogram.of[byte] : 0;
      tally.subnormals += code == 1 ? histogram.of[byte] : 0;  // 0.5
    }
  }
}

}  // namespace

Kernel bytewise_kernel(Format format) noexcept {
  return format == Format::e8m0fnu ? scan_e8m0 : scan_e2m1x2;
}

}  // namespace pm::scan
