// Arrays in files, whose headers may say anything.
#pragma once

#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "scan/scan.h"

namespace pm::scan {

// Bytes from an array's first value to the end of its last, by its format, shape and strides;
// nothing if a stride is negative or the sum passes 2^62. `elements` must be element_count(shape).
std::optional<std::uint64_t> extent(const Array& array) noexcept;

// Points an array at its values from byte `offset` of a file on; false, and nothing is changed, if
// any of them would not lie in it.
bool place_in(Bytes file, std::uint64_t offset, Array& array) noexcept;

}  // namespace pm::scan
