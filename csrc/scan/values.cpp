// Formats of numbers: names, sizes, and what bits stand for.
//
// IEEE 754-2019 for 16 to 64 bits; bfloat16 is the upper half of binary32; OCP OFP8 rev 1.0 for
// e4m3fn and e5m2, Graphcore's and AMD's variants (fnuz, bias one higher, no minus zero) as in
// arXiv:2206.02915; OCP Microscaling rev 1.0 for e8m0 and e2m1.
#include <array>
#include <bit>

#include "scan/scan.h"

namespace pm::scan {
namespace {

struct Row {
  std::string_view name;
  std::uint8_t bytes;
  std::uint8_t fraction;
  std::int16_t bias;
};

constexpr std::array<Row, kFormats> kRows{{
    {"float64", 8, 52, 1023},
    {"float32", 4, 23, 127},
    {"float16", 2, 10, 15},
    {"bfloat16", 2, 7, 127},
    {"float8_e5m2", 1, 2, 15},
    {"float8_e4m3fn", 1, 3, 7},
    {"float8_e5m2fnuz", 1, 2, 16},
    {"float8_e4m3fnuz", 1, 3, 8},
    {"int8", 1, 0, 0},
    {"int16", 2, 0, 0},
    {"int32", 4, 0, 0},
    {"int64", 8, 0, 0},
    {"uint8", 1, 0, 0},
    {"uint16", 2, 0, 0},
    {"uint32", 4, 0, 0},
    {"uint64", 8, 0, 0},
    {"bool", 1, 0, 0},
    {"float8_e8m0fnu", 1, 0, 127},
    {"float4_e2m1fn_x2", 1, 1, 1},
}};

const Row& row_of(Format format) { return kRows[static_cast<std::size_t>(format)]; }

// 2 to a power that is a normal number: those of all formats here are.
double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

}  // namespace

std::size_t item_bytes(Format format) noexcept { return row_of(format).bytes; }
std::string_view format_name(Format format) noexcept { return row_of(format).name; }

Shape shape_of(Format format) noexcept { return {row_of(format).fraction, row_of(format).bias}; }

std::optional<Format> format_named(std::string_view name) noexcept {
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    if (kRows[i].name == name) return static_cast<Format>(i);
  }
  return std::nullopt;
}

double magnitude(Format format, std::uint64_t bits) noexcept {
  const Row& shape = row_of(format);
  if (format == Format::f64) return std::bit_cast<double>(bits);
  if (format >= Format::i8 && format <= Format::boolean) return static_cast<double>(bits);
  if (format == Format::e8m0fnu) return power_of_two(static_cast<int>(bits) - 1 - shape.bias);
  const std::uint64_t fraction = bits & ((std::uint64_t{1} << shape.fraction) - 1);
  const int exponent = static_cast<int>(bits >> shape.fraction);
  const std::uint64_t hidden = exponent == 0 ? 0 : std::uint64_t{1} << shape.fraction;
  const int scale = (exponent == 0 ? 1 : exponent) - shape.bias - shape.fraction;
  return static_cast<double>(hidden | fraction) * power_of_two(scale);
}

std::optional<std::uint64_t> element_count(std::span<const std::int64_t> shape) noexcept {
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

}  // namespace pm::scan
