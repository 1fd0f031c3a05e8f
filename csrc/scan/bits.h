// What the bits of the float formats mean: the one definition that the kernels for processors and
// those for GPUs are made of.
//
// Constants only: see kernel.h for why no function may stand here.
#pragma once

#include <cstdint>

namespace pm::scan {

// Bits without the sign, the first that is not finite, the first that is NaN, and the least that is
// normal.
template <class T, T Magnitude, T Infinity, T Nan, T Normal>
struct FloatBits {
  using U = T;
  static constexpr U kMagnitude = Magnitude;
  static constexpr U kInfinity = Infinity;
  static constexpr U kNan = Nan;
  static constexpr U kNormal = Normal;
};

// IEEE 754-2019; bfloat16 is the upper half of binary32; OCP OFP8 rev 1.0.
using F64Bits =
    FloatBits<std::uint64_t, (~0ULL >> 1), 0x7ff0000000000000, 0x7ff0000000000001, (1ULL << 52)>;
using F32Bits = FloatBits<std::uint32_t, 0x7fffffff, 0x7f800000, 0x7f800001, 1U << 23>;
using F16Bits = FloatBits<std::uint16_t, 0x7fff, 0x7c00, 0x7c01, 1 << 10>;
using Bf16Bits = FloatBits<std::uint16_t, 0x7fff, 0x7f80, 0x7f81, 1 << 7>;
using E5m2Bits = FloatBits<std::uint8_t, 0x7f, 0x7c, 0x7d, 1 << 2>;
using E4m3fnBits = FloatBits<std::uint8_t, 0x7f, 0x7f, 0x7f, 1 << 3>;  // no infinity, one NaN

// "fnuz" (arXiv:2206.02915): what would be minus zero is the one NaN. The kernels move it above all
// others, to 0xff.
using E5m2fnuzBits = FloatBits<std::uint8_t, 0x7f, 0xff, 0xff, 1 << 2>;
using E4m3fnuzBits = FloatBits<std::uint8_t, 0x7f, 0xff, 0xff, 1 << 3>;
constexpr std::uint8_t kFnuzNan = 0x80;

// OCP Microscaling rev 1.0: powers of two without sign and zero, and two values of 4 bits a byte.
constexpr std::uint8_t kE8m0Nan = 0xff;
constexpr std::uint8_t kE2m1Magnitude = 7;
constexpr std::uint8_t kE2m1Normal = 2;

}  // namespace pm::scan
