// Any bytes as an array: every instruction set against a plain loop, in C order and with strides.
// The first bytes say the format, how the data are aligned, the shape, and how often each half of
// the data is repeated: kernels go by blocks of up to 4 KiB and expect more of what they saw, which
// short inputs would never reach. Few inputs are long: a long one takes the time of fifty short.
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "scan/scan.h"

namespace {

using namespace pm::scan;

struct Plain {
  std::uint64_t nans = 0, infinities = 0, zeros = 0, subnormals = 0, finite = 0;
  std::int64_t first = -1;
  double largest = 0;
  double least = std::numeric_limits<double>::infinity();
};

[[noreturn]] void differ() { std::abort(); }

bool is_float(Format format) { return format <= Format::e4m3fnuz; }

// One value, by the definition of its format: bits without the sign, and whether it is finite.
void add(Plain& plain, Format format, const std::byte* at, std::int64_t index) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, at, item_bytes(format));
  const unsigned width = static_cast<unsigned>(item_bytes(format)) * 8;
  const std::uint64_t sign = std::uint64_t{1} << (width - 1);
  const std::uint64_t low = bits & (sign - 1);
  bool nan = false, infinite = false;
  std::uint64_t magnitude_bits = low;
  switch (format) {
    case Format::f64:
      infinite = low == 0x7ff0000000000000, nan = low > 0x7ff0000000000000;
      break;
    case Format::f32:
      infinite = low == 0x7f800000, nan = low > 0x7f800000;
      break;
    case Format::f16:
      infinite = low == 0x7c00, nan = low > 0x7c00;
      break;
    case Format::bf16:
      infinite = low == 0x7f80, nan = low > 0x7f80;
      break;
    case Format::e5m2:
      infinite = low == 0x7c, nan = low > 0x7c;
      break;
    case Format::e4m3fn:
      nan = low == 0x7f;
      break;
    case Format::e5m2fnuz:
    case Format::e4m3fnuz:
      nan = bits == 0x80;
      break;
    case Format::boolean:
      magnitude_bits = bits != 0;
      break;
    case Format::i8:
    case Format::i16:
    case Format::i32:
    case Format::i64:
      magnitude_bits = (bits & sign) != 0 ? (sign << 1) - bits : bits;
      if (width == 64 && (bits & sign) != 0) magnitude_bits = ~bits + 1;
      break;
    default:
      magnitude_bits = bits;
  }
  if (nan || infinite) {
    ++(nan ? plain.nans : plain.infinities);
    if (plain.first < 0) plain.first = index;
    return;
  }
  if (is_float(format)) plain.subnormals += low != 0 && low >> shape_of(format).fraction == 0;
  const double value = magnitude(format, magnitude_bits);
  ++plain.finite;
  plain.zeros += value == 0;
  plain.largest = std::max(plain.largest, value);
  if (value != 0) plain.least = std::min(plain.least, value);
}

void compare(const Array& array, const Plain& plain) {
  const Result result = scan(array, 1);
  if (result.nans != plain.nans || result.infinities != plain.infinities) differ();
  if (result.zeros != plain.zeros || result.first_nonfinite != plain.first) differ();
  if (plain.finite != 0 && result.abs_max_finite != plain.largest) differ();
  const bool nonzero = plain.finite > plain.zeros;
  if (nonzero && result.abs_min_nonzero != plain.least) differ();
  if (result.subnormals != plain.subnormals) differ();
}

// `half` as often as `asked` says, up to 32 KiB of it.
void repeat(std::vector<std::byte>& room, std::span<const std::uint8_t> half, std::uint8_t asked) {
  constexpr std::size_t most = 32 << 10;
  const std::size_t times = asked < 0xF0 ? asked % 8 + 1U : 256;
  for (std::size_t done = 0; done < times; ++done) {
    const auto* const begin = reinterpret_cast<const std::byte*>(half.data());
    room.insert(room.end(), begin, begin + half.size());
    if ((done + 2) * half.size() > most) return;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 8) return 0;
  const auto format = static_cast<Format>(data[0] % static_cast<unsigned>(Format::e8m0fnu));
  const std::size_t item = item_bytes(format);
  const std::size_t shift = data[1] % 64;
  // Two dimensions with any strides that stay inside.
  const std::int64_t rows = data[2] % 40, columns = data[3] + 1;
  const std::int64_t row_stride = data[4] % 70, column_stride = data[5] % 5;
  std::vector<std::byte> room(shift);
  const std::span<const std::uint8_t> body(data + 8, size - 8);
  repeat(room, body.first(body.size() / 2), data[6]);
  repeat(room, body.subspan(body.size() / 2), data[7]);
  room.shrink_to_fit();  // what lies behind the values is nobody's, as ASan says
  std::byte* const values = room.data() + shift;
  const auto count = static_cast<std::int64_t>((room.size() - shift) / item);

  Plain flat;
  for (std::int64_t i = 0; i < count; ++i) {
    add(flat, format, values + static_cast<std::size_t>(i) * item, i);
  }
  const std::int64_t shape[] = {rows, columns};
  const std::int64_t strides[] = {row_stride, column_stride};
  const bool inside = rows > 0 && (rows - 1) * row_stride + (columns - 1) * column_stride < count;
  Plain walked;
  for (std::int64_t i = 0; inside && i < rows; ++i) {
    for (std::int64_t k = 0; k < columns; ++k) {
      const std::int64_t at = i * row_stride + k * column_stride;
      add(walked, format, values + static_cast<std::size_t>(at) * item, i * columns + k);
    }
  }
  for (const std::string_view level : levels()) {
    use_level(level);
    const std::int64_t length[] = {count};
    Array array{.data = values, .format = format, .shape = length, .strides = {}};
    array.elements = static_cast<std::uint64_t>(count);
    compare(array, flat);
    if (!inside) continue;
    array.shape = shape;
    array.strides = strides;
    array.elements = static_cast<std::uint64_t>(rows * columns);
    compare(array, walked);
  }
  return 0;
}
