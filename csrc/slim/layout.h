// The tables of a slim core: ELF header, program headers, notes.
#pragma once

#include <elf.h>

#include <cstdint>
#include <vector>

#include "elfcore/core.h"
#include "slim/pages.h"

namespace pm::slim {

// A stretch of memory that is kept, within one segment.
struct Run {
  Range memory;
  std::uint64_t offset = 0;  // in the slim core
};

class Layout {
 public:
  // `runs` by address; their offsets may come later.
  Layout(const elfcore::Core& core, const elfcore::SlimInfo& info, const std::vector<Run>& runs);

  // Bytes of the tables, wherever the runs are.
  std::uint64_t size() const noexcept;
  // Program headers, section header 0 where it is needed, and notes, to be written at `offset`.
  // `data_end` is the offset behind the last run.
  std::vector<std::uint8_t> tables(const std::vector<Run>& runs, std::uint64_t offset,
                                   std::uint64_t data_end) const;
  Elf64_Ehdr header(std::uint64_t tables_offset) const;

 private:
  const elfcore::Core& core_;
  std::vector<std::uint8_t> notes_;
  std::vector<Range> note_parts_;  // of `notes_`, one for each PT_NOTE
  std::uint64_t count_ = 0;        // of program headers
};

}  // namespace pm::slim
