// The border between the kernels, one translation unit for each instruction set, and the rest.
//
// Plain structs and functions only: an inline function of the standard library that a kernel's unit
// instantiates could be the copy that the linker keeps, and then run on a processor without
// AVX-512.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pm::scan {

// What the values of an array are, as bits. Complex numbers are arrays of their components.
enum class Format : std::uint8_t {
  f64,
  f32,
  f16,
  bf16,
  e5m2,
  e4m3fn,
  e5m2fnuz,
  e4m3fnuz,
  i8,
  i16,
  i32,
  i64,
  u8,
  u16,
  u32,
  u64,
  boolean,
  e8m0fnu,
  e2m1x2,  // two values a byte
};
constexpr std::size_t kFormats = 19;

constexpr std::size_t kNowhere = ~std::size_t{0};

// What was counted so far. `largest` and `least` are bits without the sign; for integers the
// magnitude. Of floats only the finite values count there.
struct Tally {
  std::uint64_t largest;
  std::uint64_t least_less_one;  // of the values that are not zero, all ones if there is none
  std::uint64_t zeros;
  std::uint64_t subnormals;
  std::uint64_t nans;
  std::uint64_t infinities;
  std::size_t first;  // position of the first NaN or infinity, counted from `origin`; or kNowhere
};

constexpr Tally kNothing{0, ~std::uint64_t{0}, 0, 0, 0, 0, kNowhere};

// Where the values come from, most likely: how far ahead a kernel had best ask for them.
enum class Where : std::uint8_t { caches, memory };

// Adds `count` values at `data` to the tally; the first of them is at position `origin`. The data
// need not be aligned.
using Kernel = void (*)(const void* data, std::size_t count, std::size_t origin, Where where,
                        Tally& tally);

// Reads `bytes` bytes with the widest loads and gives back something that depends on all of them:
// what a pass over memory costs at least, for bench/.
using Reader = std::uint64_t (*)(const void* data, std::size_t bytes);

// For one instruction set: a kernel for each format below e8m0fnu; the other two have none.
struct Kernels {
  Kernel at[kFormats];
  Reader read;
};

}  // namespace pm::scan
