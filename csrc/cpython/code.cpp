#include "cpython/code.h"

namespace pm::cpython {
namespace {

constexpr std::size_t kCodeNameLimit = 500;
constexpr std::size_t kPathLimit = 4096;
constexpr std::size_t kTableLimit = 4u << 20;
constexpr std::size_t kMaxCodes = 50'000;

// Line numbers are sums of what the table says: a lying table must not overflow them.
std::int32_t moved(std::int32_t line, std::int64_t by) {
  const std::int64_t value = line + by;
  return value < INT32_MIN || value > INT32_MAX ? 0 : static_cast<std::int32_t>(value);
}

std::uint32_t read_varint(Cursor& cursor) {
  std::uint32_t value = 0;
  for (unsigned shift = 0; shift < 30; shift += 6) {
    const std::uint8_t byte = cursor.u8();
    value |= static_cast<std::uint32_t>(byte & 63) << shift;
    if (!(byte & 64)) break;
  }
  return value;
}

std::int64_t read_signed_varint(Cursor& cursor) {
  const std::uint32_t value = read_varint(cursor);
  const auto size = static_cast<std::int64_t>(value >> 1);
  return value & 1 ? -size : size;
}

}  // namespace

std::optional<std::int32_t> line_by_lnotab(Bytes table, std::int32_t first, std::int64_t offset) {
  std::int64_t address = 0;
  std::int32_t line = first;
  for (std::size_t i = 0; i + 1 < table.size(); i += 2) {
    address += table[i];
    if (address > offset) break;
    line = moved(line, static_cast<std::int8_t>(table[i + 1]));
  }
  return line;
}

std::optional<std::int32_t> line_by_ranges(Bytes table, std::int32_t first, std::int64_t offset) {
  if (offset < 0) return first;
  std::int64_t end = 0;
  std::int32_t line = first;
  for (std::size_t i = 0; i + 1 < table.size(); i += 2) {
    end += table[i];
    const auto delta = static_cast<std::int8_t>(table[i + 1]);
    const bool none = delta == -128;
    if (!none) line = moved(line, delta);
    if (offset < end) return none ? std::nullopt : std::optional(line);
  }
  return std::nullopt;
}

std::optional<std::int32_t> line_by_locations(Bytes table, std::int32_t first,
                                              std::int64_t offset) {
  if (offset < 0) return first;
  Cursor cursor(table);
  std::int64_t end = 0;
  std::int32_t line = first;
  while (!cursor.at_end()) {
    const std::uint8_t head = cursor.u8();
    const unsigned form = head >> 3 & 15;
    end += ((head & 7) + 1) * 2;
    if (form == 14) {  // long: line, end line, columns
      line = moved(line, read_signed_varint(cursor));
      for (int i = 0; i < 3; ++i) read_varint(cursor);
    } else if (form == 13) {  // no columns
      line = moved(line, read_signed_varint(cursor));
    } else if (form >= 10 && form <= 12) {  // one line: 0, 1 or 2 further on
      line = moved(line, form - 10);
      cursor.skip(2);
    } else if (form < 10) {
      cursor.skip(1);
    }
    if (!cursor.ok()) return std::nullopt;
    if (offset < end) return form == 15 ? std::nullopt : std::optional(line);
  }
  return std::nullopt;
}

std::optional<std::int32_t> Code::line(std::int64_t offset) const {
  if (!lines) return std::nullopt;
  const auto line_by = line_table == LineTable::locations ? line_by_locations
                       : line_table == LineTable::ranges  ? line_by_ranges
                                                          : line_by_lnotab;
  const auto found = line_by(*lines, first_line, offset);
  // Line 0 is what compilers of other languages (and a broken table) say for "none".
  return found && *found > 0 ? found : std::nullopt;
}

bool Codes::is_lost(std::uint64_t object) const {
  return heap_.memory().core().segment_at(object) && !heap_.get<std::uint64_t>(object);
}

const Code* Codes::find(std::uint64_t address) {
  const auto known = codes_.find(address);
  if (known != codes_.end()) return &known->second;
  if (codes_.size() >= kMaxCodes || !is_code(address)) return nullptr;
  const Layout& at = heap_.layout();
  Code code;
  code.address = address;
  code.line_table = heap_.features().line_table;
  auto name = heap_.text(heap_.pointer(address, at.code_qualname), kCodeNameLimit);
  if (!name) name = heap_.text(heap_.pointer(address, at.code_name), kCodeNameLimit);
  const auto file = heap_.text(heap_.pointer(address, at.code_file), kPathLimit);
  if (!name && !file) return nullptr;
  code.function = name.value_or("??");
  code.file = file.value_or("");
  code.first_line = heap_.field<std::int32_t>(address, at.code_first_line).value_or(0);
  code.lines = heap_.bytes(heap_.pointer(address, at.code_lines), kTableLimit);
  return &codes_.emplace(address, std::move(code)).first->second;
}

std::vector<std::string> Codes::local_names(std::uint64_t address, std::size_t limit) const {
  std::vector<std::string> names;
  const Layout& at = heap_.layout();
  // Up to 3.10 the cells and free variables stand behind the plain ones, in tuples of their own.
  for (const std::int32_t field : {at.code_names, at.code_cells, at.code_free}) {
    const std::uint64_t tuple = heap_.pointer(address, field);
    if (tuple == 0 || !heap_.type_of(tuple).is(kTuple)) continue;
    const std::uint64_t count = heap_.size(tuple, limit - names.size());
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t name =
          heap_.get<std::uint64_t>(tuple + static_cast<std::uint64_t>(at.tuple_items) + 8 * i)
              .value_or(0);
      names.push_back(heap_.text(name, kCodeNameLimit).value_or("?"));
    }
  }
  return names;
}

}  // namespace pm::cpython
