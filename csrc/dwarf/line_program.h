// Line number programs of .debug_line (DWARF 5, section 6.2).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dwarf/debug_file.h"

namespace pm::dwarf {

class LineProgram {
 public:
  // The program at an offset; nothing when its header cannot be read. `folder` is where the
  // compiler ran (DW_AT_comp_dir), which DWARF 5 repeats in the program itself.
  static std::optional<LineProgram> at(const DebugFile& file, std::uint64_t offset,
                                       std::string_view folder);

  // Calls found(index, file number, line) for each of the addresses, which are sorted, that a row
  // covers. Line 0 is code of the compiler's own.
  void run(std::span<const std::uint64_t> addresses,
           const std::function<void(std::size_t, std::uint64_t, std::uint64_t)>& found) const;

  // A place that an address stands for. `inlined`: in the function whose name lies at `name` in
  // .debug_str, called at the next place.
  struct Place {
    std::uint64_t file = 0, line = 0;
    bool inlined = false;
    std::uint64_t name = 0;
  };
  // As `run`, with the inlined calls that NVIDIA's compilers write into the program itself, the
  // innermost first.
  void run_inlined(std::span<const std::uint64_t> addresses,
                   const std::function<void(std::size_t, std::span<const Place>)>& found) const;

  // The path of a file, as the compiler saw it; empty when there is none of that number.
  std::string path(std::uint64_t number) const;
  // Where the next program begins.
  std::uint64_t end() const noexcept { return end_; }

 private:
  struct Entry {
    std::string_view name;
    std::uint64_t folder = 0;
  };

  template <class Sink>
  void walk(Sink& rows) const;
  bool read_header(const DebugFile& file, std::uint64_t offset);
  void read_old_names(Cursor& cursor);
  bool read_new_names(Cursor& cursor, const DebugFile& file, bool folders);

  std::uint64_t end_ = 0;
  std::uint16_t version_ = 0;
  std::uint8_t offset_size_ = 4;
  std::uint8_t min_length_ = 1, max_operations_ = 1;
  std::int8_t line_base_ = 0;
  std::uint8_t line_range_ = 1, opcode_base_ = 1;
  Bytes lengths_;  // of the standard opcodes' operands
  Bytes code_;
  std::string_view compile_folder_;
  std::vector<std::string_view> folders_;
  std::vector<Entry> files_;
};

}  // namespace pm::dwarf
