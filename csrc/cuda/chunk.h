// What one thread does to the 64 bytes that it holds in registers.
//
// Three operations a pack find the extremes, two more count what is zero: that is done always, so
// that the output of a ReLU costs what other tensors do. Subnormals are counted from the same
// registers where the least shows that there are some. NaNs and infinities show in the largest;
// who calls looks at the 64 bytes again, value by value.
#pragma once

#include "cuda/formats.h"
#include "cuda/layout.h"

namespace pm::cuda {

using scan::Tally;

constexpr u32 kLoads = 4;  // vectors that a thread has in flight

// What a thread has found in one tensor. 32 bits are enough for counts: a thread sees less than
// 2^32 values of a tensor that fits in any machine, since a grid has thousands of threads.
template <class K>
struct Own {
  using L = typename K::L;
  using Pack = typename L::Pack;
  Pack largest = 0;       // of chunks without NaNs and infinities
  Pack least = ~Pack{0};  // less one: zeros wrap around, and are above all others
  u32 zeros = 0;
  u32 subnormals = 0;

  // Takes 64 bytes of which `valid` values count; the others are zero. False if NaNs or infinities
  // are among them: then the largest is not taken.
  PM_BOTH bool take(const Vector (&vectors)[kLoads], u32 valid,
                    const LimitsIn<typename K::U>& limits) {
    Pack high = 0, low = ~Pack{0}, set = 0;
    PM_UNROLL
    for (u32 i = 0; i < kLoads; ++i) {
      K::each(vectors[i], limits, [&](Pack values) {
        high = L::max(high, values);
        low = L::min_less_one(values, low);
        set += L::one_if_set(values);
      });
    }
    const u32 nonzero = L::sum(set);
    zeros += valid - nonzero;
    least = L::min(least, low);
    if (L::lowest(low) < limits.normal - 1) {
      Pack normal = 0;
      PM_UNROLL
      for (u32 i = 0; i < kLoads; ++i) {
        K::each(vectors[i], limits,
                [&](Pack values) { normal += L::one_if_at_least(values, limits.normal); });
      }
      subnormals += nonzero - L::sum(normal);
    }
    if (L::highest(high) > limits.last_finite) return false;
    largest = L::max(largest, high);
    return true;
  }

  PM_BOTH u64 highest() const { return L::highest(largest); }
  PM_BOTH u64 lowest_less_one() const { return L::lowest(least); }
};

// Formats of 7 bits and a sign, four values at once and without any minimum or maximum: whether a
// byte passes what was found before shows in its top bit after one addition. Chunks with a new
// extreme, which are few, are passed again; the warp shares what is found.
template <>
struct Own<Sevens> {
  u32 largest = 0;
  u32 least = 0x80;  // of those that are not zero; 0x80 if there is none
  u32 zeros = 0;
  u32 subnormals = 0;

  PM_BOTH bool take(const Vector (&vectors)[kLoads], u32 valid, const LimitsIn<u32>& limits) {
    const u32 over = (0x7f - largest) * kEachByte;
    const u32 under = (0x80 - least) * kEachByte;
    const u32 below = (0x80 - limits.normal) * kEachByte;
    u32 odd = 0, nonzero = 0, normal = 0;
    PM_UNROLL
    for (u32 i = 0; i < kLoads; ++i) {
      PM_UNROLL
      for (u32 k = 0; k < 4; ++k) {
        const u32 values = vectors[i].word[k] & kLowSeven;
        const u32 set = values + kLowSeven;
        odd |= (values + over) | (set ^ (values + under));
        nonzero = add_bytes(set & kTopOfEach, nonzero);
        normal = add_bytes((values + below) & kTopOfEach, normal);
      }
    }
    zeros += valid - (nonzero >> 7);
    subnormals += (nonzero - normal) >> 7;
    bool finite = true;
    if (any_of_warp((odd & kTopOfEach) != 0)) {
      u32 high = 0, low = ~0U;
      PM_UNROLL
      for (u32 i = 0; i < kLoads; ++i) {
        Bytes<Plain>::each(vectors[i], limits, [&](u32 pair) {
          pair &= kLowSeven;
          high = Lanes<16>::max(high, pair);
          low = Lanes<16>::min_less_one(pair, low);
        });
      }
      const u32 highest = static_cast<u32>(Lanes<16>::highest(high));
      const u32 lowest = static_cast<u32>(Lanes<16>::lowest(low)) + 1;  // 0x10000: none
      finite = highest <= limits.last_finite;
      if (finite) largest = larger(largest, highest);
      if (lowest <= limits.last_finite) least = lesser(least, lowest);
      largest = largest_of_warp(largest);
      least = ~largest_of_warp(~least);
    }
    return finite;
  }

  PM_BOTH u64 highest() const { return largest; }
  PM_BOTH u64 lowest_less_one() const { return least == 0x80 ? ~u64{0} : least - 1; }
};

PM_BOTH Tally nothing() { return {0, ~u64{0}, 0, 0, 0, 0, scan::kNowhere}; }

template <class K>
PM_BOTH Tally tally_of(const Own<K>& own, const Limits& limits) {
  Tally tally = nothing();
  tally.largest = own.highest();
  // What is left of lanes that saw nothing, or nothing finite.
  if (own.lowest_less_one() < limits.last_finite) tally.least_less_one = own.lowest_less_one();
  tally.zeros = own.zeros;
  tally.subnormals = own.subnormals;
  return tally;
}

PM_BOTH void merge(const Tally& from, Tally& into) {
  into.largest = larger(into.largest, from.largest);
  into.least_less_one = lesser(into.least_less_one, from.least_less_one);
  into.zeros += from.zeros;
  into.subnormals += from.subnormals;
  into.nans += from.nans;
  into.infinities += from.infinities;
  into.first = lesser(into.first, from.first);
}

#if defined(__CUDA_ARCH__)
using Wide = unsigned long long;  // what atomicAdd() has for 64 bits
PM_BOTH Wide* wide(u64* at) { return reinterpret_cast<Wide*>(at); }
#endif

// Adds to a tally that other threads add to as well: in shared or in global memory.
template <class To>
PM_BOTH void merge_shared(const Tally& from, To* into) {
#if defined(__CUDA_ARCH__)
  if (from.largest != 0) atomicMax(wide(&into->largest), Wide{from.largest});
  if (from.least_less_one != ~u64{0}) {
    atomicMin(wide(&into->least_less_one), Wide{from.least_less_one});
  }
  if (from.zeros != 0) atomicAdd(wide(&into->zeros), Wide{from.zeros});
  if (from.subnormals != 0) atomicAdd(wide(&into->subnormals), Wide{from.subnormals});
  if (from.nans != 0) atomicAdd(wide(&into->nans), Wide{from.nans});
  if (from.infinities != 0) atomicAdd(wide(&into->infinities), Wide{from.infinities});
  if (from.first != ~u64{0}) atomicMin(wide(&into->first), Wide{from.first});
#else
  merge(from, *into);
#endif
}

}  // namespace pm::cuda
