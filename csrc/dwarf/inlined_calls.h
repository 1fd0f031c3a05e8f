// Which inlined calls an address lies in.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "dwarf/units.h"

namespace pm::dwarf {

struct InlinedCall {
  std::uint64_t origin = 0;  // the entry of the function that was inlined
  std::uint64_t file = 0;    // where it was called, as numbers of the unit's line program
  std::uint64_t line = 0;
};

struct CallChain {
  std::uint64_t function = 0;        // the entry of the function itself; 0: not found
  std::vector<InlinedCall> inlined;  // the outermost first
};

// For each of the sorted addresses, all covered by the unit, the calls that it lies in.
std::vector<CallChain> call_chains(const Unit& unit, const DebugFile& file,
                                   std::span<const std::uint64_t> addresses);

// The demangled name of a function by its entry; empty when it has none.
std::string function_name(std::uint64_t entry, Units& units, const DebugFile& file);

}  // namespace pm::dwarf
