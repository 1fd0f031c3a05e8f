// How an array is passed on a GPU: as pieces, or value by value.
#pragma once

#include <optional>

#include "cuda/record.h"
#include "scan/scan.h"

namespace pm::cuda {

// All that a launch needs to know of one tensor; none of it is read here.
struct Plan {
  Entry entry{};   // first_piece and slot are the launch's
  u32 pieces = 0;  // 0: value by value, by the shape
  Shape shape{};
  u64 values = 0;    // that are read
  u64 elements = 0;  // items of the array
  u64 repeats = 1;
  bool complex = false;
};

// Nothing if there are more dimensions than a Shape holds, or values that are not aligned.
std::optional<Plan> plan_of(const scan::Array& array);

// What a plan's tally means.
scan::Result result_of(const Plan& plan, const Tally& tally);

}  // namespace pm::cuda
