// The search for the symbols that cover a batch of link-time addresses in one file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "elfcore/image.h"

namespace pm::unwind {

// The best symbol seen so far for one address.
struct Match {
  Bytes strings;  // the string table and the place of the name in it: reading every candidate's
  std::uint32_t name_at = 0;  // name would touch each page of the table
  std::uint64_t start = 0;
  std::uint8_t rank = 0;  // 0: none; higher is better

  std::string_view name() const noexcept { return c_string(clip(strings, name_at, 1 << 16), 0); }
};

class SymbolSearch {
 public:
  // `addresses` ascend, outlive the search, and are link-time addresses of the module.
  explicit SymbolSearch(std::span<const std::uint64_t> addresses);

  // Reads .symtab if the file has one that is not empty, else .dynsym.
  void read(const elfcore::Image& image);
  // For each address, in order.
  const std::vector<Match>& matches();
  bool complete() const noexcept;

 private:
  struct Section {
    std::uint64_t start, end;
    bool executable;
  };
  void read_table(const elfcore::Image& image, const elfcore::ImageSection& table, Bytes strings,
                  std::span<const Section> sections, bool dynamic);

  // The index of the first address at or after `start`, which is not beyond the last one.
  std::size_t first_from(std::uint64_t start) const noexcept;

  std::span<const std::uint64_t> addresses_;
  // By the high bits of an address, the first one from there on: few addresses are looked up in
  // half a million symbols, so most of these parts hold none and need no search.
  std::vector<std::size_t> parts_;
  unsigned part_bits_ = 0;
  std::vector<Match> sized_;
  std::vector<Match> nearest_;             // starts at or before the address, whatever its size
  std::vector<std::uint64_t> nearest_to_;  // where the section of `nearest_` ends
  std::vector<Match> result_;
  std::uint64_t updates_ = 0;
};

// The slot of the global offset table that the code of a PLT entry jumps through.
std::optional<std::uint64_t> plt_slot(elfcore::Machine machine, Bytes code, std::uint64_t address);

// "foo@plt" when the address lies in a procedure linkage table entry.
std::optional<std::pair<std::string, std::uint64_t>> plt_entry(const elfcore::Image& image,
                                                               std::uint64_t address);

}  // namespace pm::unwind
