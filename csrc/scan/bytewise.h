// The formats that are too odd for the kernels: a histogram of their bytes, then each code once.
#pragma once

#include "scan/kernel.h"

namespace pm::scan {

// For e8m0fnu (no sign, no zero, one NaN) and e2m1x2 (two values a byte, low half first; positions
// are those of the bytes, and none is NaN).
Kernel bytewise_kernel(Format format) noexcept;

}  // namespace pm::scan
