#include "scan/layout.h"

#include <algorithm>
#include <cstdlib>

namespace pm::scan {

const std::byte* Layout::row(std::uint64_t number) const noexcept {
  std::int64_t offset = 0;
  for (std::size_t i = outer.size(); i-- > 0;) {
    const auto size = static_cast<std::uint64_t>(outer[i].size);
    offset += static_cast<std::int64_t>(number % size) * outer[i].stride;
    number /= size;
  }
  return data + offset * static_cast<std::int64_t>(item);
}

namespace {

// A product that may wrap: that of an array without elements, or the stride of a dimension of size
// 1, may be anything and is not used.
std::int64_t times(std::int64_t one, std::int64_t other) noexcept {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(one) *
                                   static_cast<std::uint64_t>(other));
}

// Whether the dimensions are those of an array in C order without gaps.
bool is_in_order(const std::vector<Dimension>& dimensions) {
  std::int64_t expected = 1;
  for (std::size_t i = dimensions.size(); i-- > 0;) {
    if (dimensions[i].size == 1) continue;
    if (dimensions[i].stride != expected) return false;
    expected = times(expected, dimensions[i].size);
  }
  return true;
}

}  // namespace

std::vector<Dimension> dimensions_of(const Array& array) {
  std::vector<Dimension> dimensions(array.shape.size());
  std::int64_t dense = 1;
  for (std::size_t i = dimensions.size(); i-- > 0;) {
    dimensions[i] = {array.shape[i], array.strides.empty() ? dense : array.strides[i]};
    dense = times(dense, array.shape[i]);
  }
  if (array.complex) {
    for (Dimension& dimension : dimensions) dimension.stride = times(dimension.stride, 2);
    dimensions.push_back({2, 1});
  }
  return dimensions;
}

Layout layout_of(const void* data, std::size_t item, std::vector<Dimension> dimensions) {
  Layout layout;
  layout.data = static_cast<const std::byte*>(data);
  layout.item = item;
  layout.in_order = is_in_order(dimensions);
  std::vector<Dimension> kept;
  for (Dimension dimension : dimensions) {
    if (dimension.size == 1) continue;
    if (dimension.stride == 0) {
      layout.repeats *= static_cast<std::uint64_t>(dimension.size);
      continue;
    }
    if (dimension.stride < 0) {  // walked from its other end
      layout.data += (dimension.size - 1) * dimension.stride * static_cast<std::int64_t>(item);
      dimension.stride = -dimension.stride;
    }
    kept.push_back(dimension);
  }
  std::stable_sort(kept.begin(), kept.end(),
                   [](const Dimension& a, const Dimension& b) { return a.stride > b.stride; });
  std::vector<Dimension> merged;
  for (const Dimension& dimension : kept) {
    std::int64_t span = 0;
    const bool wide = __builtin_mul_overflow(dimension.size, dimension.stride, &span);
    if (!wide && !merged.empty() && merged.back().stride == span) {
      merged.back() = {merged.back().size * dimension.size, dimension.stride};
    } else {
      merged.push_back(dimension);
    }
  }
  if (!merged.empty()) {
    layout.length = merged.back().size;
    layout.step = merged.back().stride;
    merged.pop_back();
  }
  for (const Dimension& dimension : merged) {
    layout.rows *= static_cast<std::uint64_t>(dimension.size);
  }
  layout.outer = std::move(merged);
  return layout;
}

}  // namespace pm::scan
