// Words of packed values: what a thread of a GPU does to 16 or 32 bits at once, and the same by
// plain C++, so that the logic of the kernels runs and is tested where no GPU is.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__CUDACC__)
#define PM_BOTH __host__ __device__ __forceinline__
#define PM_BOTH_CALLED __host__ __device__ __noinline__
#else
#define PM_BOTH inline
#define PM_BOTH_CALLED inline
#endif
#if defined(__CUDA_ARCH__)
#define PM_UNROLL _Pragma("unroll")
#define PM_LOOP _Pragma("unroll 1")
#else
#define PM_UNROLL
#define PM_LOOP
#endif

namespace pm::cuda {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

// What one load brings.
struct alignas(16) Vector {
  u32 word[4];
};
constexpr u32 kVectorBytes = 16;

template <class T>
PM_BOTH T larger(T a, T b) {
  return a > b ? a : b;
}
template <class T>
PM_BOTH T lesser(T a, T b) {
  return a < b ? a : b;
}

// Over the threads of a warp, all of which call it. Elsewhere a thread is alone.
PM_BOTH bool any_of_warp(bool mine) {
#if defined(__CUDA_ARCH__)
  return __any_sync(0xffffffffU, mine);
#else
  return mine;
#endif
}
PM_BOTH u32 largest_of_warp(u32 mine) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  return __reduce_max_sync(0xffffffffU, mine);
#elif defined(__CUDA_ARCH__)
  PM_UNROLL
  for (int by = 16; by != 0; by /= 2) {
    mine = larger(mine, __shfl_xor_sync(0xffffffffU, mine, by));
  }
  return mine;
#else
  return mine;
#endif
}

// Values of `Bits` bits side by side in a `Pack`.
template <int Bits>
struct Lanes;

template <>
struct Lanes<64> {
  using Pack = u64;
  static constexpr u32 kLanes = 1;
  static PM_BOTH Pack max(Pack a, Pack b) { return larger(a, b); }
  static PM_BOTH Pack min(Pack a, Pack b) { return lesser(a, b); }
  static PM_BOTH Pack min_less_one(Pack value, Pack least) { return lesser(value - 1, least); }
  static PM_BOTH Pack one_if_set(Pack value) { return value != 0; }
  static PM_BOTH Pack one_if_at_least(Pack value, u64 limit) { return value >= limit; }
  static PM_BOTH u32 sum(Pack lanes) { return static_cast<u32>(lanes); }
  static PM_BOTH u64 highest(Pack lanes) { return lanes; }
  static PM_BOTH u64 lowest(Pack lanes) { return lanes; }
};

template <>
struct Lanes<32> {
  using Pack = u32;
  static constexpr u32 kLanes = 1;
  static PM_BOTH Pack max(Pack a, Pack b) { return larger(a, b); }
  static PM_BOTH Pack min(Pack a, Pack b) { return lesser(a, b); }
  static PM_BOTH Pack min_less_one(Pack value, Pack least) { return lesser(value - 1, least); }
  static PM_BOTH Pack one_if_set(Pack value) { return lesser(value, 1U); }
  static PM_BOTH Pack one_if_at_least(Pack value, u64 limit) {
    return value >= static_cast<u32>(limit) ? 1 : 0;
  }
  static PM_BOTH u32 sum(Pack lanes) { return lanes; }
  static PM_BOTH u64 highest(Pack lanes) { return lanes; }
  static PM_BOTH u64 lowest(Pack lanes) { return lanes; }
};

template <>
struct Lanes<16> {
  using Pack = u32;
  static constexpr u32 kLanes = 2;
  static constexpr u32 kEach = 0x00010001;  // 1 in each lane
  static constexpr u32 kTop = 0x80008000;

  // On sm_90 and later one instruction each; before, the compiler's sequence for it.
#if defined(__CUDA_ARCH__)
  static PM_BOTH Pack max(Pack a, Pack b) { return __vmaxu2(a, b); }
  static PM_BOTH Pack min(Pack a, Pack b) { return __vminu2(a, b); }
  static PM_BOTH Pack min_less_one(Pack value, Pack least) {
    return __viaddmin_u16x2(value, 0xffffffffU, least);
  }
#else
  static PM_BOTH Pack max(Pack a, Pack b) {
    return larger(a >> 16, b >> 16) << 16 | larger(a & 0xffff, b & 0xffff);
  }
  static PM_BOTH Pack min(Pack a, Pack b) {
    return lesser(a >> 16, b >> 16) << 16 | lesser(a & 0xffff, b & 0xffff);
  }
  static PM_BOTH Pack min_less_one(Pack value, Pack least) {
    return min(((value >> 16) - 1) << 16 | (((value & 0xffff) - 1) & 0xffff), least);
  }
#endif
  static PM_BOTH Pack one_if_set(Pack value) { return min(value, kEach); }
  // For lanes and limits below 0x8000.
  static PM_BOTH Pack one_if_at_least(Pack value, u64 limit) {
    return (((value | kTop) - static_cast<u32>(limit) * kEach) >> 15) & kEach;
  }
  static PM_BOTH u32 sum(Pack lanes) { return (lanes >> 16) + (lanes & 0xffff); }
  static PM_BOTH u64 highest(Pack lanes) { return larger(lanes >> 16, lanes & 0xffff); }
  static PM_BOTH u64 lowest(Pack lanes) { return lesser(lanes >> 16, lanes & 0xffff); }
};

// Four bytes in a word.
constexpr u32 kEachByte = 0x01010101;
constexpr u32 kLowSeven = 0x7f7f7f7f;
constexpr u32 kTopOfEach = 0x80808080;

PM_BOTH u32 add_bytes(u32 bytes, u32 sum) {
#if defined(__CUDA_ARCH__)
  return __dp4a(bytes, kEachByte, sum);
#else
  for (int i = 0; i < 32; i += 8) sum += (bytes >> i) & 0xff;
  return sum;
#endif
}

}  // namespace pm::cuda
