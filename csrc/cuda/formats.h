// How the kernels read each format: the magnitudes of values, packed as suits the GPU, and where
// among them the finite ones end. The numbers are those of scan/bits.h.
#pragma once

#include "cuda/words.h"
#include "scan/bits.h"
#include "scan/kernel.h"

namespace pm::cuda {

using scan::Format;

// Among magnitudes: what is above `last_finite` is infinite up to `last_infinity`, then NaN.
template <class T>
struct LimitsIn {
  T mask;  // the bits of a magnitude, where the format only leaves out a sign
  T last_finite;
  T last_infinity;
  T normal;  // the least that is not subnormal

  template <class To>
  PM_BOTH constexpr LimitsIn<To> in() const {
    return {static_cast<To>(mask), static_cast<To>(last_finite), static_cast<To>(last_infinity),
            static_cast<To>(normal)};
  }
};
using Limits = LimitsIn<u64>;

template <class Bits>
PM_BOTH constexpr Limits limits_by() {
  return {Bits::kMagnitude, u64{Bits::kInfinity} - 1, u64{Bits::kNan} - 1, Bits::kNormal};
}
PM_BOTH constexpr Limits limits_of_integers(u32 bits) {
  const u64 all = bits == 64 ? ~u64{0} : (u64{1} << bits) - 1;
  return {all, all, all, 1};
}

PM_BOTH Limits limits_of(Format format) {
  switch (format) {
    case Format::f64:
      return limits_by<scan::F64Bits>();
    case Format::f32:
      return limits_by<scan::F32Bits>();
    case Format::f16:
      return limits_by<scan::F16Bits>();
    case Format::bf16:
      return limits_by<scan::Bf16Bits>();
    case Format::e5m2:
      return limits_by<scan::E5m2Bits>();
    case Format::e4m3fn:
      return limits_by<scan::E4m3fnBits>();
    case Format::e5m2fnuz:
      return limits_by<scan::E5m2fnuzBits>();
    case Format::e4m3fnuz:
      return limits_by<scan::E4m3fnuzBits>();
    case Format::e8m0fnu:  // codes as they are; tally_of() in record.h moves them
      return {0xff, scan::kE8m0Nan - 1, scan::kE8m0Nan - 1, 1};
    case Format::e2m1x2:
      return {0xff, scan::kE2m1Magnitude, scan::kE2m1Magnitude, scan::kE2m1Normal};
    case Format::i64:
    case Format::u64:
      return limits_of_integers(64);
    case Format::i32:
    case Format::u32:
      return limits_of_integers(32);
    case Format::i16:
    case Format::u16:
      return limits_of_integers(16);
    default:
      return limits_of_integers(8);
  }
}

PM_BOTH u32 bytes_of(Format format) {
  switch (format) {
    case Format::f64:
    case Format::i64:
    case Format::u64:
      return 8;
    case Format::f32:
    case Format::i32:
    case Format::u32:
      return 4;
    case Format::f16:
    case Format::bf16:
    case Format::i16:
    case Format::u16:
      return 2;
    default:
      return 1;
  }
}

// Each kind says how many bits a value and a lane have, which type holds a magnitude, gives the
// magnitude of one value, and calls a function with the packs of a vector.

// Floats with a sign bit, and integers without one.
template <int Bits>
struct Masked {
  static constexpr int kBits = Bits;
  using L = Lanes<Bits>;
  using U = typename L::Pack;
  static PM_BOTH U magnitude(U bits, const LimitsIn<U>& limits) { return bits & limits.mask; }
  template <class F>
  static PM_BOTH void each(const Vector& vector, const LimitsIn<U>& limits, F take) {
    if constexpr (Bits == 64) {
      take((vector.word[0] | u64{vector.word[1]} << 32) & limits.mask);
      take((vector.word[2] | u64{vector.word[3]} << 32) & limits.mask);
    } else {
      const u32 mask = limits.mask * (Bits == 16 ? Lanes<16>::kEach : 1);
      PM_UNROLL
      for (int i = 0; i < 4; ++i) take(vector.word[i] & mask);
    }
  }
};

template <int Bits>
struct Signed {
  static constexpr int kBits = Bits;
  using L = Lanes<Bits>;
  using U = typename L::Pack;
  static PM_BOTH U magnitude(U bits, const LimitsIn<U>& limits) {
    return (bits >> (Bits - 1)) != 0 ? (U{0} - bits) & limits.mask : bits;
  }
  template <class F>
  static PM_BOTH void each(const Vector& vector, const LimitsIn<U>&, F take) {
    if constexpr (Bits == 64) {
      take(absolute(vector.word[0] | u64{vector.word[1]} << 32));
      take(absolute(vector.word[2] | u64{vector.word[3]} << 32));
    } else {
      PM_UNROLL
      for (int i = 0; i < 4; ++i) take(absolute(vector.word[i]));
    }
  }

 private:
  static PM_BOTH u64 absolute(u64 value) { return (value >> 63) != 0 ? u64{0} - value : value; }
  static PM_BOTH u32 absolute(u32 value) {
    if constexpr (Bits == 32) return (value >> 31) != 0 ? 0U - value : value;
#if defined(__CUDA_ARCH__)
    return __vabs2(value);
#else
    const u32 high = value >> 16, low = value & 0xffff;
    return ((high & 0x8000) != 0 ? 0x10000 - high : high) << 16 |
           ((low & 0x8000) != 0 ? 0x10000 - low : low);
#endif
  }
};

// Bytes, widened to lanes of 16 bits. `Of` maps a pack of two bytes to magnitudes.
template <class Of>
struct Bytes {
  static constexpr int kBits = 8;
  using L = Lanes<16>;
  using U = u32;
  static PM_BOTH u32 magnitude(u32 bits, const LimitsIn<u32>&) { return Of::of(bits); }
  template <class F>
  static PM_BOTH void each(const Vector& vector, const LimitsIn<u32>&, F take) {
    PM_UNROLL
    for (int i = 0; i < 4; ++i) {
      take(Of::of(vector.word[i] & 0x00ff00ff));
      take(Of::of((vector.word[i] >> 8) & 0x00ff00ff));
    }
  }
};
struct Plain {
  static PM_BOTH u32 of(u32 pair) { return pair; }
};
struct SignedByte {
  static PM_BOTH u32 of(u32 pair) {
    const u32 negative = (pair >> 7) & Lanes<16>::kEach;  // 0x100 less the byte: at most 0x80
    return (pair ^ negative * 0xff) + negative;
  }
};
struct Truth {  // PyTorch's bool: any byte but 0 is true
  static PM_BOTH u32 of(u32 pair) { return Lanes<16>::one_if_set(pair); }
};
struct Fnuz {
  static PM_BOTH u32 of(u32 pair) {
    const u32 low = pair & 0x007f007f;
    const u32 set = ((low + 0x007f007f) >> 7) & Lanes<16>::kEach;
    const u32 nan = ((pair >> 7) & Lanes<16>::kEach) & ~set;  // the sign and nothing else
    return low | nan * scan::E5m2fnuzBits::kNan;
  }
};

// e2m1x2: two values a byte, no NaN.
struct Nibbles {
  static constexpr int kBits = 4;
  using L = Lanes<16>;
  using U = u32;
  static PM_BOTH u32 magnitude(u32 bits, const LimitsIn<u32>&) {
    return bits & scan::kE2m1Magnitude;
  }
  template <class F>
  static PM_BOTH void each(const Vector& vector, const LimitsIn<u32>&, F take) {
    PM_UNROLL
    for (int i = 0; i < 4; ++i) {
      PM_UNROLL
      for (int shift = 0; shift < 16; shift += 4) {
        take((vector.word[i] >> shift) & scan::kE2m1Magnitude * Lanes<16>::kEach);
      }
    }
  }
};

// e5m2 and e4m3fn. Most tensors of these hold subnormals and zeros, so that all is counted always,
// four values at once; chunk.h does it.
struct Sevens {
  static constexpr int kBits = 8;
  using U = u32;
  static PM_BOTH u32 magnitude(u32 bits, const LimitsIn<u32>&) { return bits & 0x7f; }
};

// Calls `visit` with the kind of a format.
template <class F>
PM_BOTH void with_kind(Format format, F visit) {
  switch (format) {
    case Format::f64:
    case Format::u64:
      return visit(Masked<64>{});
    case Format::f32:
    case Format::u32:
      return visit(Masked<32>{});
    case Format::f16:
    case Format::bf16:
    case Format::u16:
      return visit(Masked<16>{});
    case Format::e5m2:
    case Format::e4m3fn:
      return visit(Sevens{});
    case Format::e5m2fnuz:
    case Format::e4m3fnuz:
      return visit(Bytes<Fnuz>{});
    case Format::i8:
      return visit(Bytes<SignedByte>{});
    case Format::i16:
      return visit(Signed<16>{});
    case Format::i32:
      return visit(Signed<32>{});
    case Format::i64:
      return visit(Signed<64>{});
    case Format::u8:
    case Format::e8m0fnu:
      return visit(Bytes<Plain>{});
    case Format::boolean:
      return visit(Bytes<Truth>{});
    case Format::e2m1x2:
      return visit(Nibbles{});
  }
}

}  // namespace pm::cuda
