// Finding the units of .debug_info: by the addresses that they cover, by the entries in them.
#pragma once

#include <map>
#include <span>
#include <unordered_map>
#include <vector>

#include "dwarf/ranges.h"

namespace pm::dwarf {

class Units {
 public:
  explicit Units(const DebugFile& file) : file_(file) {}

  // For each unit that covers some of the sorted addresses, by its offset: their indices, rising.
  std::map<std::uint64_t, std::vector<std::size_t>> covering(
      std::span<const std::uint64_t> addresses);
  // Where .debug_aranges has a set for each of `count` units: which of them, in their order, cover
  // some of the sorted addresses.
  std::vector<std::size_t> numbers(std::span<const std::uint64_t> addresses,
                                   std::size_t count) const;
  // A unit with what its first entry says; null when it cannot be read.
  const Unit* at(std::uint64_t offset);
  // The unit that an entry lies in.
  const Unit* around(std::uint64_t entry);

 private:
  using Covered = std::map<std::uint64_t, std::vector<std::size_t>>;

  // Returns the units of all sets of the table.
  std::vector<std::uint64_t> look_in_table(std::span<const std::uint64_t> addresses,
                                           std::vector<bool>& done, Covered& covered) const;
  void look_in_units(std::span<const std::uint64_t> addresses, std::vector<bool>& done,
                     Covered& covered);
  std::optional<Unit> read(std::uint64_t offset, Place& place);
  void read_root(Unit& unit, Place& place);

  const DebugFile& file_;
  std::size_t rows_ = 0;  // abbreviations read so far
  std::unordered_map<std::uint64_t, std::optional<Unit>> known_;
  std::unordered_map<std::uint64_t, std::shared_ptr<const AbbrevTable>> abbrevs_;
  std::vector<std::uint64_t> offsets_;  // of all units, once `around` has needed them
};

}  // namespace pm::dwarf
