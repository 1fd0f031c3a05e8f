// The sections of a CUDA core dump: an ELF file without segments, whose sections are tables and the
// bytes that belong to one row of a table.
#pragma once

#include <elf.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"

namespace pm::cudacore {

// Section types, counted from SHT_LOUSER, with the driver that wrote them first where it is not
// the first one (r346).
enum class Kind : std::uint32_t {
  managed_memory = SHT_LOUSER + 1,
  global_memory,
  local_memory,
  shared_memory,
  registers,
  image,            // a cubin as the program had it
  relocated_image,  // the same, at the addresses where it ran
  backtrace,
  devices,
  contexts,
  sms,
  grids,
  blocks,
  warps,
  lanes,
  modules,
  predicates,
  parameters,
  uniform_registers,    // r400
  uniform_predicates,   // r400
  constant_banks,       // r550
  metadata,             // r565
  convergence_barriers  // r575
};

struct Section {
  Kind kind{};
  std::uint32_t link = 0;  // the section of the table that it belongs to
  std::uint32_t info = 0;  // the row of that table
  std::uint64_t address = 0;
  std::uint64_t offset = 0, size = 0;
  std::uint64_t row_size = 0;  // of tables; rows grew from driver to driver
};

// One row of a table. What an older driver did not write reads as zero.
class Row {
 public:
  explicit Row(Bytes bytes) noexcept : bytes_(bytes) {}
  std::uint32_t u32(std::size_t at) const noexcept {
    return load<std::uint32_t>(bytes_, at).value_or(0);
  }
  std::uint64_t u64(std::size_t at) const noexcept {
    return load<std::uint64_t>(bytes_, at).value_or(0);
  }
  bool has(std::size_t at, std::size_t size) const noexcept { return at + size <= bytes_.size(); }

 private:
  Bytes bytes_;
};

class Sections {
 public:
  // Throws EvidenceError for what is no core of a CUDA GPU, or has no section headers.
  Sections(Bytes file, Problems& problems);

  const Section& at(std::size_t index) const noexcept { return sections_[index]; }
  std::size_t count() const noexcept { return sections_.size(); }
  // Places of the sections of a kind, in the order of the file.
  std::span<const std::uint32_t> of(Kind kind) const noexcept;
  // Places of those that belong to one row of the table at `link`.
  std::span<const std::uint32_t> of_row(std::uint32_t link, std::uint32_t info) const noexcept;
  // The same, but one of a kind; nothing: there is none.
  const Section* only(std::uint32_t link, std::uint32_t info, Kind kind) const noexcept;
  // The table of a kind that belongs to one row.
  std::optional<std::uint32_t> table(std::uint32_t link, std::uint32_t info,
                                     Kind kind) const noexcept;

  // As much of a section as the file has.
  Bytes content(const Section& section) const noexcept;
  // How many rows of a table are there, at most `limit`.
  std::uint32_t rows(std::uint32_t table, std::uint32_t limit) const noexcept;
  Row row(std::uint32_t table, std::uint32_t index) const noexcept;
  // A text by its place in the string table; empty: none.
  std::string_view text(std::uint64_t offset) const noexcept;

  // The end of the last section that the headers name; more than the file has when it is cut.
  std::uint64_t expected_bytes() const noexcept { return expected_; }

 private:
  void order();
  std::uint64_t row_size(const Section& section) const noexcept;

  Bytes file_;
  std::vector<Section> sections_;  // by their number in the file
  // Numbers of sections by kind, and by link and info, with where those of each kind and of each
  // link begin.
  std::vector<std::uint32_t> by_kind_, by_row_, row_starts_;
  std::array<std::uint32_t, 24> kind_starts_{};
  Bytes strings_;
  std::uint64_t expected_ = 0;
};

}  // namespace pm::cudacore
