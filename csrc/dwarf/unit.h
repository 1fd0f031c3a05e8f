// Units of .debug_info: their headers, abbreviations, and the values of attributes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "dwarf/constants.h"
#include "dwarf/debug_file.h"

namespace pm::dwarf {

struct AttributeSpec {
  std::uint16_t name = 0;
  std::uint16_t form = 0;
  std::int64_t implicit = 0;
};

struct Abbrev {
  std::uint64_t code = 0;
  std::uint16_t tag = 0;
  bool children = false;
  // Bytes of all values together, where every form has a fixed size.
  std::optional<std::uint32_t> size;
  std::vector<AttributeSpec> attributes;
};

struct Encoding {
  std::uint16_t version = 0;
  std::uint8_t address_size = 0;
  std::uint8_t offset_size = 0;  // 4, or 8 in the 64-bit format
};

class AbbrevTable {
 public:
  AbbrevTable(Bytes section, std::uint64_t offset, const Encoding& encoding);
  const Abbrev* find(std::uint64_t code) const noexcept;
  std::size_t size() const noexcept { return rows_.size(); }

 private:
  std::vector<Abbrev> rows_;
  std::unordered_map<std::uint64_t, std::size_t> by_code_;  // only those that are out of order
};

struct Unit {
  std::uint64_t offset = 0;  // of the header in .debug_info
  std::uint64_t end = 0;
  std::uint64_t root = 0;  // offset of the first entry
  Encoding encoding;
  std::uint8_t type = 0;
  std::uint64_t abbrev_offset = 0;

  // What the first entry says.
  std::uint16_t tag = 0;
  std::optional<std::uint64_t> line_offset;
  std::string_view folder;  // where the compiler ran
  std::uint64_t low_pc = 0;
  std::uint64_t str_offsets_base = 0, addr_base = 0, rnglists_base = 0;
  std::shared_ptr<const AbbrevTable> abbrevs;
};

enum class ValueKind {
  none,           // a form whose value is of no use here
  number,         // constants, flags
  address,        //
  address_index,  // into .debug_addr
  text,           //
  text_index,     // into .debug_str_offsets
  offset,         // into another section
  range_index,    // into .debug_rnglists
  reference,      // an entry, by its offset in .debug_info
};

struct Value {
  ValueKind kind = ValueKind::none;
  std::uint64_t number = 0;
  std::string_view text;
};

// The header at an offset of .debug_info; nothing when it is none that can be read.
std::optional<Unit> unit_header(Bytes info, std::uint64_t offset);

// Reads one value and moves on. A form that is not known makes the cursor fail: nobody can tell
// where the next value begins.
Value read_value(Cursor& cursor, const AttributeSpec& spec, const Unit& unit,
                 const DebugFile& file);

// Values that stand elsewhere.
std::string_view text_of(const Value& value, const Unit& unit, const DebugFile& file);
std::optional<std::uint64_t> address_of(const Value& value, const Unit& unit,
                                        const DebugFile& file);

// Calls visit(name, value) for each attribute of the entry at the cursor; returns its
// abbreviation, null for the end of a list of children and where nothing can be read.
template <class Visit>
const Abbrev* read_entry(Cursor& cursor, const Unit& unit, const DebugFile& file, Visit visit) {
  const std::uint64_t code = cursor.uleb();
  if (code == 0 || !cursor.ok()) return nullptr;
  const Abbrev* const abbrev = unit.abbrevs->find(code);
  if (!abbrev) {
    cursor.skip(cursor.left() + 1);  // fails for good
    return nullptr;
  }
  for (const AttributeSpec& spec : abbrev->attributes) {
    visit(spec.name, read_value(cursor, spec, unit, file));
    if (!cursor.ok()) return nullptr;
  }
  return abbrev;
}

}  // namespace pm::dwarf
