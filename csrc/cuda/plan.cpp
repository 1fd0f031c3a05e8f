#include "cuda/plan.h"

#include <algorithm>
#include <vector>

#include "scan/layout.h"

namespace pm::cuda {
namespace {

constexpr u64 kLongRow = 4096;  // bytes; shorter ones leave most threads of a block idle

struct Digit {
  std::int64_t size;
  std::int64_t stride;
  std::int64_t weight;  // in C order
};

// The dimensions that are in memory, as Layout orders them, and what a step in each means.
std::vector<Digit> digits_of(const std::vector<scan::Dimension>& dimensions, Shape& shape) {
  std::vector<Digit> digits;
  std::int64_t weight = 1;
  shape.index_base = 0;
  for (std::size_t i = dimensions.size(); i-- > 0;) {
    const auto [size, stride] = dimensions[i];
    if (size != 1 && stride > 0) digits.push_back({size, stride, weight});
    if (size != 1 && stride < 0) {
      digits.push_back({size, -stride, -weight});
      shape.index_base += (size - 1) * weight;
    }
    weight *= size;
  }
  std::reverse(digits.begin(), digits.end());
  std::stable_sort(digits.begin(), digits.end(),
                   [](const Digit& a, const Digit& b) { return a.stride > b.stride; });
  return digits;
}

// Whether positions are indices.
bool is_in_order(const std::vector<Digit>& digits) {
  std::int64_t weight = 1;
  for (std::size_t i = digits.size(); i-- > 0;) {
    if (digits[i].weight != weight) return false;
    weight *= digits[i].size;
  }
  return true;
}

u32 pieces_of_row(u64 bytes) {
  const u64 piece = u64{kPieceVectors} * kVectorBytes;
  return static_cast<u32>((bytes + piece - 1) / piece + 1);
}

}  // namespace

std::optional<Plan> plan_of(const scan::Array& array) {
  Plan plan;
  const u64 items = array.elements;
  const std::size_t item = scan::item_bytes(array.format);
  plan.elements = items;
  plan.complex = array.complex;
  plan.entry.number = static_cast<u32>(array.format);
  if (items == 0) return plan;
  if (reinterpret_cast<std::uintptr_t>(array.data) % item != 0) return std::nullopt;
  const std::vector<scan::Dimension> dimensions = scan::dimensions_of(array);
  const scan::Layout layout = scan::layout_of(array.data, item, dimensions);
  plan.repeats = layout.repeats;
  plan.values = items * (array.complex ? 2 : 1) / layout.repeats;
  plan.entry.data = reinterpret_cast<const unsigned char*>(layout.data);
  if (layout.in_order) {
    plan.entry.values = plan.values;
    plan.entry.pieces_each = kOneRow;
    plan.pieces = range_of(plan.entry.data, plan.values, static_cast<u32>(item), 0).pieces();
    return plan;
  }
  const std::vector<Digit> digits = digits_of(dimensions, plan.shape);
  if (digits.size() > kMostDimensions) return std::nullopt;
  const auto length = static_cast<u64>(layout.length);
  const bool ordered = layout.repeats == 1 && is_in_order(digits);
  if (ordered && layout.step == 1 && layout.outer.size() <= 1 && length * item >= kLongRow) {
    const u64 each = pieces_of_row(length * item);
    if (each * layout.rows < kOneRow) {
      plan.entry.values = length;
      plan.entry.row_stride =
          layout.outer.empty() ? 0 : layout.outer[0].stride * static_cast<std::int64_t>(item);
      plan.entry.pieces_each = static_cast<u32>(each);
      plan.pieces = static_cast<u32>(each * layout.rows);
      return plan;
    }
  }
  Shape& shape = plan.shape;
  shape.step = layout.step * static_cast<std::int64_t>(item);
  shape.length = length;
  shape.rows = layout.rows;
  for (const scan::Dimension& dimension : layout.outer) {
    shape.outer_size[shape.outer] = static_cast<u64>(dimension.size);
    shape.outer_stride[shape.outer++] = dimension.stride * static_cast<std::int64_t>(item);
  }
  for (const Digit& digit : digits) {
    shape.digit_size[shape.digits] = static_cast<u64>(digit.size);
    shape.digit_weight[shape.digits++] = digit.weight;
  }
  return plan;
}

scan::Result result_of(const Plan& plan, const Tally& tally) {
  const Format format = format_of(plan.entry);
  const Tally counted = tally_as_counted(format, plan.values, tally);
  scan::Result result = scan::result_of(counted, format, plan.values, plan.repeats);
  result.elements = plan.elements * scan::values_each(format);
  result.first_nonfinite = counted.first == scan::kNowhere
                               ? -1
                               : static_cast<std::int64_t>(counted.first >> (plan.complex ? 1 : 0));
  return result;
}

}  // namespace pm::cuda
