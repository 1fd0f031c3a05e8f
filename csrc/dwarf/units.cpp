#include "dwarf/units.h"

#include <algorithm>

namespace pm::dwarf {
namespace {

// Units to look at in search of an address: PyTorch with debug information has some 8,000.
constexpr std::size_t kMaxUnits = 100'000;
// Crafted units could share one large table from a thousand different offsets on, and one large
// list of ranges.
constexpr std::size_t kMaxAbbrevRows = 8'000'000;
constexpr std::size_t kMaxRangesOfUnits = 16'000'000;

// Marks those of the sorted addresses that lie in a range, for a unit.
void mark(std::span<const std::uint64_t> addresses, const Range& range, std::uint64_t unit,
          std::vector<bool>& done, std::map<std::uint64_t, std::vector<std::size_t>>& covered) {
  auto next = std::lower_bound(addresses.begin(), addresses.end(), range.start);
  for (; next != addresses.end() && *next < range.end; ++next) {
    const auto index = static_cast<std::size_t>(next - addresses.begin());
    if (done[index]) continue;
    done[index] = true;
    covered[unit].push_back(index);
  }
}

}  // namespace

std::map<std::uint64_t, std::vector<std::size_t>> Units::covering(
    std::span<const std::uint64_t> addresses) {
  Covered covered;
  std::vector<bool> done(addresses.size());
  look_in_table(addresses, done, covered);
  if (std::find(done.begin(), done.end(), false) != done.end()) {
    look_in_units(addresses, done, covered);
  }
  for (auto& [unit, indices] : covered) std::sort(indices.begin(), indices.end());
  return covered;
}

std::vector<std::size_t> Units::numbers(std::span<const std::uint64_t> addresses,
                                        std::size_t count) const {
  Covered covered;
  std::vector<bool> done(addresses.size());
  std::vector<std::uint64_t> all = look_in_table(addresses, done, covered);
  std::vector<std::size_t> result;
  if (all.size() != count) return result;
  std::sort(all.begin(), all.end());
  for (const auto& [unit, indices] : covered) {
    result.push_back(
        static_cast<std::size_t>(std::lower_bound(all.begin(), all.end(), unit) - all.begin()));
  }
  return result;
}

// .debug_aranges (DWARF 5, section 6.1.2): small and quickly read, but clang leaves it out.
std::vector<std::uint64_t> Units::look_in_table(std::span<const std::uint64_t> addresses,
                                                std::vector<bool>& done, Covered& covered) const {
  std::vector<std::uint64_t> units;
  const Bytes section = file_.get(Section::aranges);
  Cursor cursor(section);
  while (!cursor.at_end()) {
    const std::uint64_t start = cursor.offset();
    std::uint64_t length = cursor.u32();
    const bool wide = length == 0xffffffff;
    if (wide) length = cursor.u64();
    if (!cursor.ok() || length > cursor.left()) break;
    const std::uint64_t end = cursor.offset() + length;
    Cursor set(clip(section, 0, end), cursor.offset());
    cursor.skip(length);
    set.skip(2);  // version
    const std::uint64_t unit = wide ? set.u64() : set.u32();
    units.push_back(unit);
    if (set.u8() != 8) continue;
    set.skip(1);
    set.skip((16 - (set.offset() - start) % 16) % 16);
    while (set.left() >= 16) {
      const std::uint64_t address = set.u64(), size = set.u64();
      if (address == 0 && size == 0) break;
      if (address == 0 || address + size < address) continue;  // thrown away by the linker
      mark(addresses, {address, address + size}, unit, done, covered);
    }
  }
  return units;
}

void Units::look_in_units(std::span<const std::uint64_t> addresses, std::vector<bool>& done,
                          Covered& covered) {
  const Bytes info = file_.get(Section::info);
  std::vector<Range> ranges;
  std::size_t spent = 0;
  std::uint64_t offset = 0;
  for (std::size_t count = 0;
       offset < info.size() && count < kMaxUnits && spent < kMaxRangesOfUnits; ++count) {
    const auto header = unit_header(info, offset);
    Place place;
    if (header) {
      if (const auto unit = read(offset, place); unit && unit->line_offset) {
        ranges.clear();
        append_ranges(place, *unit, file_, ranges);
        spent += ranges.size();
        for (const Range& range : ranges) mark(addresses, range, offset, done, covered);
        if (std::find(done.begin(), done.end(), false) == done.end()) return;
      }
      offset = header->end;
      continue;
    }
    const auto length = load<std::uint32_t>(info, offset);  // one of another kind: step over it
    if (!length || *length >= 0xfffffff0) return;
    offset += std::uint64_t{*length} + 4;
  }
}

const Unit* Units::at(std::uint64_t offset) {
  const auto [row, fresh] = known_.try_emplace(offset);
  if (fresh) {
    Place place;
    row->second = read(offset, place);
  }
  return row->second ? &*row->second : nullptr;
}

const Unit* Units::around(std::uint64_t entry) {
  if (offsets_.empty()) {
    const Bytes info = file_.get(Section::info);
    std::uint64_t offset = 0;
    while (offsets_.size() < kMaxUnits) {
      const auto header = unit_header(info, offset);
      if (!header) break;
      offsets_.push_back(offset);
      offset = header->end;
    }
  }
  const auto next = std::upper_bound(offsets_.begin(), offsets_.end(), entry);
  if (next == offsets_.begin()) return nullptr;
  const Unit* const unit = at(*(next - 1));
  return unit && entry >= unit->root && entry < unit->end ? unit : nullptr;
}

std::optional<Unit> Units::read(std::uint64_t offset, Place& place) {
  auto unit = unit_header(file_.get(Section::info), offset);
  if (!unit) return std::nullopt;
  auto& table = abbrevs_[unit->abbrev_offset];
  if (!table) {
    if (rows_ > kMaxAbbrevRows) return std::nullopt;
    table = std::make_shared<AbbrevTable>(file_.get(Section::abbrev), unit->abbrev_offset,
                                          unit->encoding);
    rows_ += table->size();
  }
  unit->abbrevs = table;
  read_root(*unit, place);
  return unit;
}

void Units::read_root(Unit& unit, Place& place) {
  Value low, folder;
  Cursor cursor(clip(file_.get(Section::info), 0, unit.end), unit.root);
  const bool old = unit.encoding.version < 4;  // data4 and data8 were offsets too
  const Abbrev* const root =
      read_entry(cursor, unit, file_, [&](std::uint16_t name, const Value& value) {
        if (keep_place(place, name, value)) {
          if (name == kLowPc) low = value;
        } else if (name == kStmtList) {
          if (value.kind == ValueKind::offset || (old && value.kind == ValueKind::number)) {
            unit.line_offset = value.number;
          }
        } else if (name == kCompDir) {
          folder = value;
        } else if (name == kStrOffsetsBase) {
          unit.str_offsets_base = value.number;
        } else if (name == kAddrBase || name == kGnuAddrBase) {
          unit.addr_base = value.number;
        } else if (name == kRnglistsBase) {
          unit.rnglists_base = value.number;
        }
      });
  if (!root) return;
  unit.tag = root->tag;
  // Only now are the bases known that these may need.
  unit.folder = text_of(folder, unit, file_);
  unit.low_pc = address_of(low, unit, file_).value_or(0);
}

}  // namespace pm::dwarf
