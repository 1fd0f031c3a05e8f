// How an array lies in memory: as few and as long runs of neighbours as its strides allow.
#pragma once

#include <cstdint>
#include <vector>

#include "scan/scan.h"

namespace pm::scan {

// One dimension: its size, and the distance of neighbours in values.
struct Dimension {
  std::int64_t size = 0;
  std::int64_t stride = 0;
};

// The values of an array, each once: rows of `length` values that lie `step` apart. The order is
// that of the memory, which is not that of the elements.
struct Layout {
  const std::byte* data = nullptr;  // of the lowest value
  std::size_t item = 1;             // bytes of a value
  std::int64_t length = 1;
  std::int64_t step = 1;
  std::vector<Dimension> outer;  // of the rows, the outermost first
  std::uint64_t rows = 1;
  std::uint64_t repeats = 1;  // how many elements share a value, by strides of 0
  bool in_order = false;      // one row, in the order of the elements

  // The first value of a row.
  const std::byte* row(std::uint64_t number) const noexcept;
};

// Of an array, components of complex numbers among them as the last.
std::vector<Dimension> dimensions_of(const Array& array);

// `shape` must not be empty of elements; dimensions as in the array, components of complex numbers
// among them as the last.
Layout layout_of(const void* data, std::size_t item, std::vector<Dimension> dimensions);

}  // namespace pm::scan
