// One pass over an array of numbers: extremes of the magnitudes, and counts of what is not normal.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "scan/kernel.h"

namespace pm::scan {

// An array in memory. `strides` counts values; empty means C order. Where `complex` is set, shape
// and strides count complex numbers, and `format` is that of their components.
struct Array {
  const void* data = nullptr;
  Format format = Format::f32;
  bool complex = false;
  std::span<const std::int64_t> shape;
  std::span<const std::int64_t> strides;
  std::uint64_t elements = 0;  // element_count(shape)
};

// Magnitudes are exact but for 64-bit integers above 2^53. Those of complex numbers are their
// components' (|re| and |im| apart), and so are all counts but `elements`.
struct Result {
  std::uint64_t elements = 0;
  std::uint64_t nans = 0;
  std::uint64_t infinities = 0;
  std::uint64_t zeros = 0;
  std::uint64_t subnormals = 0;
  std::int64_t first_nonfinite = -1;  // in C order of the elements
  double abs_min = 0;                 // of all but NaN; NaN if nothing is left, as below
  double abs_max = 0;
  double abs_min_nonzero = 0;
  double abs_max_finite = 0;
};

// Bytes of a value of this format; e2m1x2 has two values in one. In the order of Format.
inline constexpr std::array<std::uint8_t, kFormats> kItemBytes{8, 4, 2, 2, 1, 1, 1, 1, 1, 2,
                                                               4, 8, 1, 2, 4, 8, 1, 1, 1};
inline std::size_t item_bytes(Format format) noexcept {
  return kItemBytes[static_cast<std::size_t>(format)];
}
std::string_view format_name(Format format) noexcept;
std::optional<Format> format_named(std::string_view name) noexcept;

// Bits of the fraction and bias of the exponent; of no use for integers.
struct Shape {
  int fraction;
  int bias;
};
Shape shape_of(Format format) noexcept;

// The number that bits without their sign stand for; e8m0fnu's code is one less than `bits`.
double magnitude(Format format, std::uint64_t bits) noexcept;

// 2 for formats that have two elements in an item.
inline std::uint64_t values_each(Format format) noexcept {
  return format == Format::e2m1x2 ? 2 : 1;
}

// What the numbers of a pass mean. It has seen `values` items, each of which stands for `repeats`.
// `elements` and `first_nonfinite` are the caller's.
Result result_of(const Tally& tally, Format format, std::uint64_t values, std::uint64_t repeats);

// The number of elements, or nothing if it is negative or passes 2^63. Here, as an optional that a
// function returns goes through memory in parts: a stall of 8 ns for each small tensor.
inline std::optional<std::uint64_t> element_count(std::span<const std::int64_t> shape) noexcept {
  std::uint64_t count = 1;
  bool empty = false;
  for (const std::int64_t size : shape) {
    if (size < 0) return std::nullopt;
    if (size == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(count, static_cast<std::uint64_t>(size), &count)) {
      return std::nullopt;
    }
  }
  if (empty) return 0;
  return count >> 63 ? std::nullopt : std::optional(count);
}

// Reads every value once, on up to `threads` threads (0: as many as threads_wanted() says). All
// memory that shape and strides reach must be readable.
Result scan(const Array& array, unsigned threads = 0);

// The same for many arrays at once: small ones are shared out, large ones are cut.
void scan_all(std::span<const Array> arrays, std::span<Result> results, unsigned threads = 0);

// Reads memory once and does nothing else, on as many threads as a scan of it would take.
void read_memory(const void* data, std::uint64_t bytes);

// Bytes that a scan of this array reads, at least.
inline std::uint64_t bytes_of(const Array& array) noexcept {
  return array.elements * item_bytes(array.format) * (array.complex ? 2 : 1);
}

// The instruction sets that this build and this processor both have, the best first.
std::vector<std::string_view> levels();
// The one that is used: $POSTMORTEM_SIMD, else the best.
std::string_view level();
// Uses another one; false if it is not among levels().
bool use_level(std::string_view name);

// $POSTMORTEM_THREADS, else $OMP_NUM_THREADS, else the processors that this process may use.
unsigned threads_wanted();
void set_threads(unsigned count);

}  // namespace pm::scan
