// Source lines and inlined calls of addresses, out of the DWARF of one ELF file.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "elfcore/image.h"

namespace pm::dwarf {

struct SourcePlace {
  std::string function;    // demangled; empty when not known
  std::string file;        // as the compiler saw it
  std::uint32_t line = 0;  // 0: code that the compiler made up, which stands at no line
};

// For each of the sorted link-time addresses, the places that it stands for: inlined calls from the
// innermost one on, then the function that they were inlined into. Empty where nothing is known.
//
// What it costs grows with the units that the addresses lie in, not with the file. Where the
// entries are compressed (distributions' debug packages), which would have to be unpacked as a
// whole, only lines are read and inlined calls are not.
std::vector<std::vector<SourcePlace>> source_lines(std::shared_ptr<const elfcore::Image> image,
                                                   std::span<const std::uint64_t> addresses);

}  // namespace pm::dwarf
