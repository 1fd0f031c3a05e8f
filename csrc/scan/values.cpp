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
  std::uint8_t fraction;
  std::int16_t bias;
};

constexpr std::array<Row, kFormats> kRows{{
    {"float64", 52, 1023},
    {"float32", 23, 127},
    {"float16", 10, 15},
    {"bfloat16", 7, 127},
    {"float8_e5m2", 2, 15},
    {"float8_e4m3fn", 3, 7},
    {"float8_e5m2fnuz", 2, 16},
    {"float8_e4m3fnuz", 3, 8},
    {"int8", 0, 0},
    {"int16", 0, 0},
    {"int32", 0, 0},
    {"int64", 0, 0},
    {"uint8", 0, 0},
    {"uint16", 0, 0},
    {"uint32", 0, 0},
    {"uint64", 0, 0},
    {"bool", 0, 0},
    {"float8_e8m0fnu", 0, 127},
    {"float4_e2m1fn_x2", 1, 1},
}};

const Row& row_of(Format format) { return kRows[static_cast<std::size_t>(format)]; }

// 2 to a power that is a normal number: those of all formats here are.
double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

}  // namespace

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
  if (bits >> shape.fraction != 0) {  // normal: the same fraction, another bias
    return std::bit_cast<double>((bits << (52 - shape.fraction)) +
                                 (static_cast<std::uint64_t>(1023 - shape.bias) << 52));
  }
  return static_cast<double>(bits) * power_of_two(1 - shape.bias - shape.fraction);
}

}  // namespace pm::scan
