// Code objects: names, files, and which line an instruction belongs to.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "cpython/heap.h"

namespace pm::cpython {

// The line of the instruction at a byte offset, by the table of CPython 3.8 and 3.9 (co_lnotab,
// Objects/lnotab_notes.txt), of 3.10 (co_linetable, PEP 626), and of 3.11 and later
// (InternalDocs/code_objects.md). Nothing when the instruction belongs to no line.
std::optional<std::int32_t> line_by_lnotab(Bytes table, std::int32_t first, std::int64_t offset);
std::optional<std::int32_t> line_by_ranges(Bytes table, std::int32_t first, std::int64_t offset);
std::optional<std::int32_t> line_by_locations(Bytes table, std::int32_t first, std::int64_t offset);

struct Code {
  std::uint64_t address = 0;
  std::string function;  // qualified since 3.11
  std::string file;
  std::int32_t first_line = 0;
  std::optional<std::vector<std::uint8_t>> lines;  // the table; may be empty up to 3.9
  LineTable line_table = LineTable::lnotab;

  std::optional<std::int32_t> line(std::int64_t offset) const;
};

class Codes {
 public:
  explicit Codes(const Heap& heap) : heap_(heap) {}

  bool is_code(std::uint64_t object) const { return heap_.type_of(object).name == "code"; }
  // It lies where the process had memory, but the core holds none of it: a frame of it is still a
  // frame, without a name.
  bool is_lost(std::uint64_t object) const;
  // Null when it is no code object that can be read.
  const Code* find(std::uint64_t address);
  // Names of the local variables in the order of their slots, at most `limit`.
  std::vector<std::string> local_names(std::uint64_t address, std::size_t limit) const;

 private:
  const Heap& heap_;
  std::unordered_map<std::uint64_t, Code> codes_;
};

}  // namespace pm::cpython
