// The addresses that an entry covers.
#pragma once

#include <cstdint>
#include <vector>

#include "dwarf/unit.h"

namespace pm::dwarf {

struct Range {
  std::uint64_t start = 0;
  std::uint64_t end = 0;  // behind the last byte
};

// The attributes of one entry that say where its code is.
struct Place {
  Value low, high, ranges;
};

// Whether an attribute is one of those; if so it is kept.
inline bool keep_place(Place& place, std::uint16_t name, const Value& value) {
  if (name == kLowPc) {
    place.low = value;
  } else if (name == kHighPc) {
    place.high = value;
  } else if (name == kRanges) {
    place.ranges = value;
  } else {
    return false;
  }
  return true;
}

inline bool has_place(const Place& place) {
  return place.low.kind != ValueKind::none || place.ranges.kind != ValueKind::none;
}

// Appends the ranges of an entry. Code that the linker threw away stands at address 0 or, with
// newer ones, at -1 or -2 (LLVM D59553): those are left out.
void append_ranges(const Place& place, const Unit& unit, const DebugFile& file,
                   std::vector<Range>& ranges);

}  // namespace pm::dwarf
