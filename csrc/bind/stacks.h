// The stacks of a core, for read_core().
#pragma once

#include <pybind11/pybind11.h>

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
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

// Makes rows of stacks. Equal frames are one dict and equal stacks one list, in all threads: the
// 250 workers of a pool cost one stack, here and wherever a reader of the rows asks once for each
// object.
class StackRows {
 public:
  StackRows(const Stacks& stacks, const elfcore::Modules& modules)
      : stacks_(stacks), modules_(modules) {}

  // Fills `frames`, `stopped`, `skipped` and `skipped_at` of a RawThread.
  void add(pybind11::dict& row, std::size_t thread);

 private:
  // What a row is made of: the program counter, and how it was found.
  using Key = std::pair<std::uint64_t, std::uint32_t>;

  pybind11::dict frame(const unwind::Frame& frame, const Key& key);

  const Stacks& stacks_;
  const elfcore::Modules& modules_;
  std::map<Key, pybind11::dict> frames_;
  std::map<std::vector<Key>, pybind11::list> lists_;
};

}  // namespace pm::bind
