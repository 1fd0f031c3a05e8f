// Where the values of a tensor lie, as a kernel sees it: rows of neighbours, and which element of
// the tensor a place in memory is.
#pragma once

#include "cuda/words.h"

namespace pm::cuda {

constexpr u32 kMostDimensions = 8;

// For tensors that are no rows of neighbours in the order of their elements. A position counts
// values in the order of the memory, the lowest address first.
struct Shape {
  std::int64_t step;  // of neighbours in a row, in bytes
  u64 length;         // values of a row
  u64 rows;
  u32 outer;  // dimensions of the rows, the outermost first
  u64 outer_size[kMostDimensions];
  std::int64_t outer_stride[kMostDimensions];  // in bytes

  // A position in mixed radix, the outermost digit first, gives the index in C order.
  u32 digits;
  u64 digit_size[kMostDimensions];
  std::int64_t digit_weight[kMostDimensions];
  std::int64_t index_base;  // of the lowest address: dimensions of negative stride end there

  PM_BOTH std::int64_t row_offset(u64 row) const {
    std::int64_t offset = 0;
    PM_LOOP
    for (u32 i = outer; i-- > 0;) {
      offset += static_cast<std::int64_t>(row % outer_size[i]) * outer_stride[i];
      row /= outer_size[i];
    }
    return offset;
  }

  PM_BOTH u64 index_of(u64 position) const {
    std::int64_t index = index_base;
    PM_LOOP
    for (u32 i = digits; i-- > 0;) {
      index += static_cast<std::int64_t>(position % digit_size[i]) * digit_weight[i];
      position /= digit_size[i];
    }
    return static_cast<u64>(index);
  }
};

}  // namespace pm::cuda
