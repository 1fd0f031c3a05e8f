#include "scan/place.h"

namespace pm::scan {

std::optional<std::uint64_t> extent(const Array& array) noexcept {
  if (array.elements == 0) return 0;
  std::uint64_t last = 0;
  std::int64_t dense = 1;
  for (std::size_t i = array.shape.size(); i-- > 0;) {
    const std::int64_t stride = array.strides.empty() ? dense : array.strides[i];
    if (stride < 0) return std::nullopt;
    std::uint64_t part = 0;
    if (__builtin_mul_overflow(static_cast<std::uint64_t>(array.shape[i] - 1),
                               static_cast<std::uint64_t>(stride), &part) ||
        __builtin_add_overflow(last, part, &last)) {
      return std::nullopt;
    }
    dense *= array.shape[i];  // no overflow: none is 0, and their product was counted
  }
  const std::uint64_t item = item_bytes(array.format) * (array.complex ? 2 : 1);
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(last + 1, item, &bytes) || bytes >> 62) return std::nullopt;
  return bytes;
}

bool place_in(Bytes file, std::uint64_t offset, Array& array) noexcept {
  const auto bytes = extent(array);
  if (!bytes || offset > file.size() || *bytes > file.size() - offset) return false;
  array.data = file.data() + offset;
  return true;
}

}  // namespace pm::scan
