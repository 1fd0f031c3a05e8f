// Any bytes as tensors: the functions of the CUDA kernels, run by this processor, against the scan
// for processors. The first bytes say the formats, how the data are aligned, and the shape.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "cuda/emulation.h"

namespace {

using namespace pm;

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

void compare(const scan::Result& found, const scan::Result& expected) {
  const bool counts = found.elements == expected.elements && found.nans == expected.nans &&
                      found.infinities == expected.infinities && found.zeros == expected.zeros &&
                      found.subnormals == expected.subnormals &&
                      found.first_nonfinite == expected.first_nonfinite;
  const bool extremes = same(found.abs_min, expected.abs_min) &&
                        same(found.abs_max, expected.abs_max) &&
                        same(found.abs_min_nonzero, expected.abs_min_nonzero) &&
                        same(found.abs_max_finite, expected.abs_max_finite);
  if (!counts || !extremes) std::abort();
}

// What the kernel writes for a ScanRing says the same.
void compare_row(const cuda::Plan& plan, const cuda::Tally& tally, const scan::Result& expected) {
  const scan::Format format = cuda::format_of(plan.entry);
  const scan::Shape shape = scan::shape_of(format);
  cuda::Launch launch{};
  launch.elements = plan.elements;
  launch.repeats = plan.repeats;
  launch.complex = plan.complex;
  launch.fraction = static_cast<signed char>(shape.fraction);
  launch.bias = shape.bias;
  double row[cuda::kRowNumbers];
  cuda::write_row(launch, format, tally, row);
  if (row[0] != static_cast<double>(expected.elements)) std::abort();
  if (row[1] != static_cast<double>(expected.nans)) std::abort();
  if (row[2] != static_cast<double>(expected.infinities)) std::abort();
  if (row[3] != static_cast<double>(expected.zeros)) std::abort();
  if (row[4] != static_cast<double>(expected.subnormals)) std::abort();
  if (expected.first_nonfinite >= 0 && row[5] != static_cast<double>(expected.first_nonfinite)) {
    std::abort();
  }
  const double largest = std::isinf(row[7]) ? std::nan("") : row[7];
  if (!same(largest, expected.abs_max_finite)) std::abort();
  if (std::isfinite(row[6]) != std::isfinite(expected.abs_min_nonzero)) std::abort();
  if (std::isfinite(row[6]) && row[6] != expected.abs_min_nonzero) std::abort();
}

void check(const scan::Array& array) {
  const std::optional<cuda::Plan> plan = cuda::plan_of(array);
  const scan::Result expected = scan::scan(array, 1);
  if (!plan) std::abort();  // all here are aligned and have few dimensions
  if (plan->elements == 0) return;
  for (const cuda::u32 blocks : {1U, 3U}) {
    cuda::Tally tally;
    if (plan->pieces != 0) {
      const std::vector<cuda::Tally> found = cuda::emulate_table({&*plan, 1}, blocks);
      if (found.size() != 1) std::abort();
      tally = found[0];
    } else {
      tally = cuda::emulate_shaped(*plan, 7 * blocks);
    }
    compare(cuda::result_of(*plan, tally), expected);
    compare_row(*plan, tally, expected);
  }
}

scan::Array counted(scan::Array array) {
  array.elements = scan::element_count(array.shape).value_or(0);
  return array;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 12) return 0;
  const auto format = static_cast<scan::Format>(data[0] % scan::kFormats);
  const std::size_t item = scan::item_bytes(format);
  const std::size_t shift = data[1] % 64 / item * item;
  const bool complex = format <= scan::Format::f16 && (data[2] & 1) != 0;
  // The bytes again and again: tensors of many pieces from small inputs; of few inputs, for one of
  // those takes the time of a hundred others.
  const std::size_t given = std::min<std::size_t>(size - 12, 8192);
  const std::size_t times = data[3] < 0xF0 ? data[3] % 8 + 1U : 256;
  const std::size_t bytes = std::min<std::size_t>(given * times, 192 << 10);
  std::vector<std::byte> room(shift + bytes + 128);
  const std::size_t off = (64 - reinterpret_cast<std::uintptr_t>(room.data()) % 64) % 64;
  std::byte* const values = room.data() + off + shift;
  for (std::size_t i = 0; i < bytes; i += given) {
    std::memcpy(values + i, data + 12, std::min(given, bytes - i));
  }
  const auto count = static_cast<std::int64_t>(bytes / item / (complex ? 2 : 1));
  const std::int64_t flat[] = {count};
  const scan::Array whole =
      counted({.data = values, .format = format, .complex = complex, .shape = flat, .strides = {}});
  check(whole);

  // Three dimensions with any strides that stay inside, forwards and backwards.
  std::int64_t shape[] = {data[4] % 9 + 1, data[5] % 40 + 1, data[6] + (data[7] % 64) * 256 + 1};
  std::int64_t strides[] = {(data[8] % 7) * (data[9] + 256 * (data[10] % 64)),
                            data[9] + 256 * (data[10] % 64), data[11] % 4};
  if (data[2] & 2) std::swap(strides[0], strides[2]), std::swap(shape[0], shape[2]);
  std::int64_t last = 0, begin = 0;
  for (int i = 0; i < 3; ++i) last += (shape[i] - 1) * strides[i];
  if (last >= count) return 0;
  for (int i = 0; i < 3; ++i) {
    if ((data[2] & (4 << i)) == 0) continue;
    begin += (shape[i] - 1) * strides[i];
    strides[i] = -strides[i];
  }
  const std::int64_t step = static_cast<std::int64_t>(item) * (complex ? 2 : 1);
  const scan::Array walked = counted({.data = values + begin * step,
                                      .format = format,
                                      .complex = complex,
                                      .shape = shape,
                                      .strides = strides});
  check(walked);

  // Several tensors in one launch.
  std::vector<cuda::Plan> plans;
  std::vector<scan::Result> expected;
  for (std::int64_t part = 1; part <= 3 && count >= part; ++part) {
    const std::int64_t some[] = {count / part};
    const scan::Array array = counted(
        {.data = values, .format = format, .complex = complex, .shape = some, .strides = {}});
    plans.push_back(*cuda::plan_of(array));
    expected.push_back(scan::scan(array, 1));
  }
  if (plans.empty()) return 0;
  const std::vector<cuda::Tally> found = cuda::emulate_table(plans, 4);
  if (found.size() != plans.size()) std::abort();
  for (std::size_t i = 0; i < plans.size(); ++i) {
    compare(cuda::result_of(plans[i], found[i]), expected[i]);
  }
  return 0;
}
