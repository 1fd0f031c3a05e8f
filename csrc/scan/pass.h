// A pass over an array as it lies in memory, cut into pieces that threads can share.
#pragma once

#include "scan/layout.h"

namespace pm::scan {

constexpr std::size_t kPieceBytes = std::size_t{256} << 10;  // what one thread takes at once

// The kernel of the instruction set in use; each format has one.
Kernel kernel_of(Format format) noexcept;

// Adds up all values of a layout. `first` in the tally is a position in the order of the memory.
Tally pass_over(const Layout& layout, Format format, unsigned threads);

}  // namespace pm::scan
