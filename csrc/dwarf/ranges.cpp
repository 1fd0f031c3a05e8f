#include "dwarf/ranges.h"

namespace pm::dwarf {
namespace {

constexpr std::size_t kMaxRanges = 1 << 16;

void append(std::uint64_t start, std::uint64_t end, std::vector<Range>& ranges) {
  if (start == 0 || start >= end || ranges.size() >= kMaxRanges) return;
  ranges.push_back({start, end});
}

// .debug_ranges, DWARF 2 to 4: pairs of offsets from a base that a pair may change.
void append_pairs(std::uint64_t offset, const Unit& unit, const DebugFile& file,
                  std::vector<Range>& ranges) {
  Cursor cursor(file.get(Section::ranges), offset);
  std::uint64_t base = unit.low_pc;
  while (cursor.ok() && ranges.size() < kMaxRanges) {
    const std::uint64_t start = cursor.u64(), end = cursor.u64();
    if (!cursor.ok() || (start == 0 && end == 0)) return;
    if (start == ~std::uint64_t{0}) {
      base = end;
    } else {
      append(base + start, base + end, ranges);
    }
  }
}

// .debug_rnglists, DWARF 5 section 7.25.
void append_list(std::uint64_t offset, const Unit& unit, const DebugFile& file,
                 std::vector<Range>& ranges) {
  Cursor cursor(file.get(Section::rnglists), offset);
  std::uint64_t base = unit.low_pc;
  const auto indexed = [&] {
    return address_of({ValueKind::address_index, cursor.uleb(), {}}, unit, file).value_or(0);
  };
  while (cursor.ok() && ranges.size() < kMaxRanges) {
    std::uint64_t start = 0, end = 0;
    switch (cursor.u8()) {
      case 1:  // DW_RLE_base_addressx
        base = indexed();
        continue;
      case 2:  // DW_RLE_startx_endx
        start = indexed();
        end = indexed();
        break;
      case 3:  // DW_RLE_startx_length
        start = indexed();
        end = start + cursor.uleb();
        break;
      case 4:  // DW_RLE_offset_pair
        start = base + cursor.uleb();
        end = base + cursor.uleb();
        break;
      case 5:  // DW_RLE_base_address
        base = cursor.u64();
        continue;
      case 6:  // DW_RLE_start_end
        start = cursor.u64();
        end = cursor.u64();
        break;
      case 7:  // DW_RLE_start_length
        start = cursor.u64();
        end = start + cursor.uleb();
        break;
      default:  // DW_RLE_end_of_list, or nothing that is known
        return;
    }
    if (cursor.ok()) append(start, end, ranges);
  }
}

}  // namespace

void append_ranges(const Place& place, const Unit& unit, const DebugFile& file,
                   std::vector<Range>& ranges) {
  const Value& list = place.ranges;
  const bool old = unit.encoding.version < 5;
  if (list.kind == ValueKind::range_index) {
    const Bytes lists = file.get(Section::rnglists);
    if (list.number > lists.size()) return;
    Cursor cursor(lists, unit.rnglists_base + list.number * unit.encoding.offset_size);
    const std::uint64_t offset = unit.encoding.offset_size == 8 ? cursor.u64() : cursor.u32();
    if (cursor.ok()) append_list(unit.rnglists_base + offset, unit, file, ranges);
  } else if (list.kind == ValueKind::offset || (old && list.kind == ValueKind::number)) {
    if (old) {
      append_pairs(list.number, unit, file, ranges);
    } else {
      append_list(list.number, unit, file, ranges);
    }
  } else if (const auto low = address_of(place.low, unit, file)) {
    // DWARF 4 made a constant the length; before, and with some compilers after, it is the end.
    const auto high = address_of(place.high, unit, file);
    append(*low, high ? *high : *low + place.high.number, ranges);
  }
}

}  // namespace pm::dwarf
