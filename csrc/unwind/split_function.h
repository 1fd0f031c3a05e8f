// Functions that the compiler cut in two: what it took for cold stands elsewhere.
#pragma once

#include <cstdint>

#include "elfcore/image.h"

namespace pm::unwind {

// Link-time addresses.
struct CodeRange {
  std::uint64_t start = 0;
  std::uint64_t end = 0;

  bool contains(std::uint64_t address) const noexcept { return address >= start && address < end; }
};

// The cold part of a function whose hot part is given; empty when none can be made sure of.
//
// The symbol of a cold part (`f.cold`) is a local one, which a stripped file lacks, though it may
// be most of the function: GCC 16 as Debian builds CPython with it puts nearly all of
// `_PyEval_EvalFrameDefault` there. It is the unwind entry into which, behind its start, the hot
// part jumps more than once: other functions are entered at their start.
CodeRange cold_part(const elfcore::Image& image, const CodeRange& hot);

}  // namespace pm::unwind
