// The stacks of a core, for read_core().
#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <unordered_map>
#include <vector>

#include "dwarf/source_lines.h"
#include "unwind/symbols.h"
#include "unwind/unwinder.h"

namespace pm::bind {

struct Stacks {
  std::vector<unwind::Stack> threads;  // in the order of Core::threads(); empty: not asked for
  std::unique_ptr<unwind::Symbolizer> names;
  std::unordered_map<std::uint64_t, std::vector<dwarf::SourcePlace>> places;  // by lookup address
};

// No Python in it: may run without the GIL.
Stacks read_stacks(const elfcore::Memory& memory, const std::string& sysroot,
                   std::size_t max_frames);

// Fills `frames`, `stopped`, `skipped` and `skipped_at` of a RawThread.
void add_stack(pybind11::dict& row, const Stacks& stacks, std::size_t thread,
               const elfcore::Modules& modules);

}  // namespace pm::bind
