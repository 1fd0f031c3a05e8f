#include "dwarf/unit.h"

namespace pm::dwarf {
namespace {

constexpr std::size_t kMaxAbbrevs = 1 << 20;

// Bytes that a form always takes; nothing where that depends on the value.
std::optional<std::uint32_t> fixed_size(std::uint16_t form, const Encoding& encoding) {
  switch (form) {
    case kFlagPresent:
    case kImplicitConst:
      return 0;
    case kData1:
    case kFlag:
    case kRef1:
    case kStrx1:
    case kAddrx1:
      return 1;
    case kData2:
    case kRef2:
    case kStrx2:
    case kAddrx2:
      return 2;
    case kStrx3:
    case kAddrx3:
      return 3;
    case kData4:
    case kRef4:
    case kRefSup4:
    case kStrx4:
    case kAddrx4:
      return 4;
    case kData8:
    case kRef8:
    case kRefSup8:
    case kRefSig8:
      return 8;
    case kData16:
      return 16;
    case kAddr:
      return encoding.address_size;
    case kRefAddr:  // DWARF 2 made it as large as an address
      return encoding.version == 2 ? encoding.address_size : encoding.offset_size;
    case kStrp:
    case kLineStrp:
    case kSecOffset:
    case kStrpSup:
    case kGnuRefAlt:
    case kGnuStrpAlt:
      return encoding.offset_size;
    default:
      return std::nullopt;
  }
}

std::uint64_t sized(Cursor& cursor, std::uint32_t size) {
  switch (size) {
    case 1:
      return cursor.u8();
    case 2:
      return cursor.u16();
    case 3: {
      const std::uint64_t low = cursor.u16();
      return low | std::uint64_t{cursor.u8()} << 16;
    }
    case 4:
      return cursor.u32();
    case 8:
      return cursor.u64();
    default:
      cursor.skip(size);
      return 0;
  }
}

ValueKind kind_of(std::uint16_t form) {
  switch (form) {
    case kAddr:
      return ValueKind::address;
    case kAddrx:
    case kAddrx1:
    case kAddrx2:
    case kAddrx3:
    case kAddrx4:
    case kGnuAddrIndex:
      return ValueKind::address_index;
    case kStrx:
    case kStrx1:
    case kStrx2:
    case kStrx3:
    case kStrx4:
    case kGnuStrIndex:
      return ValueKind::text_index;
    case kSecOffset:
      return ValueKind::offset;
    case kRnglistx:
      return ValueKind::range_index;
    case kRef1:
    case kRef2:
    case kRef4:
    case kRef8:
    case kRefUdata:
    case kRefAddr:
      return ValueKind::reference;
    case kString:
    case kStrp:
    case kLineStrp:
      return ValueKind::text;
    case kData1:
    case kData2:
    case kData4:
    case kData8:
    case kSdata:
    case kUdata:
    case kFlag:
      return ValueKind::number;
    default:
      return ValueKind::none;
  }
}

// Values whose length stands in front of them, or in themselves.
std::uint64_t variable(Cursor& cursor, std::uint16_t form) {
  switch (form) {
    case kBlock1:
      cursor.skip(cursor.u8());
      return 0;
    case kBlock2:
      cursor.skip(cursor.u16());
      return 0;
    case kBlock4:
      cursor.skip(cursor.u32());
      return 0;
    case kBlock:
    case kExprloc:
      cursor.skip(cursor.uleb());
      return 0;
    case kSdata:
      return static_cast<std::uint64_t>(cursor.sleb());
    case kUdata:
    case kRefUdata:
    case kStrx:
    case kAddrx:
    case kLoclistx:
    case kRnglistx:
    case kGnuAddrIndex:
    case kGnuStrIndex:
      return cursor.uleb();
    default:
      cursor.skip(cursor.left() + 1);  // a form that nobody knows: fails for good
      return 0;
  }
}

}  // namespace

AbbrevTable::AbbrevTable(Bytes section, std::uint64_t offset, const Encoding& encoding) {
  Cursor cursor(section, offset);
  while (rows_.size() < kMaxAbbrevs) {
    Abbrev row;
    row.code = cursor.uleb();
    if (row.code == 0 || !cursor.ok()) break;
    row.tag = static_cast<std::uint16_t>(cursor.uleb());
    row.children = cursor.u8() != 0;
    row.size = 0;
    while (cursor.ok()) {
      AttributeSpec spec;
      spec.name = static_cast<std::uint16_t>(cursor.uleb());
      spec.form = static_cast<std::uint16_t>(cursor.uleb());
      if (spec.form == kImplicitConst) spec.implicit = cursor.sleb();
      if (spec.name == 0 && spec.form == 0) break;
      const auto size = fixed_size(spec.form, encoding);
      row.size = row.size && size ? std::optional(*row.size + *size) : std::nullopt;
      row.attributes.push_back(spec);
    }
    if (!cursor.ok()) break;
    if (row.code != rows_.size() + 1) by_code_.emplace(row.code, rows_.size());
    rows_.push_back(std::move(row));
  }
}

const Abbrev* AbbrevTable::find(std::uint64_t code) const noexcept {
  if (code - 1 < rows_.size() && rows_[code - 1].code == code) return &rows_[code - 1];
  const auto found = by_code_.find(code);
  return found == by_code_.end() ? nullptr : &rows_[found->second];
}

std::optional<Unit> unit_header(Bytes info, std::uint64_t offset) {
  Cursor cursor(info, offset);
  Unit unit;
  unit.offset = offset;
  std::uint64_t length = cursor.u32();
  unit.encoding.offset_size = 4;
  if (length == 0xffffffff) {
    length = cursor.u64();
    unit.encoding.offset_size = 8;
  }
  if (!cursor.ok() || length > cursor.left()) return std::nullopt;
  unit.end = cursor.offset() + length;
  unit.encoding.version = cursor.u16();
  if (unit.encoding.version < 2 || unit.encoding.version > 5) return std::nullopt;
  if (unit.encoding.version == 5) {
    unit.type = cursor.u8();
    unit.encoding.address_size = cursor.u8();
    unit.abbrev_offset = sized(cursor, unit.encoding.offset_size);
    if (unit.type == 4 || unit.type == 5) cursor.skip(8);  // skeleton and split units: an ID
    if (unit.type == 2 || unit.type == 6) cursor.skip(8 + unit.encoding.offset_size);  // a type
  } else {
    unit.abbrev_offset = sized(cursor, unit.encoding.offset_size);
    unit.encoding.address_size = cursor.u8();
  }
  unit.root = cursor.offset();
  if (!cursor.ok() || unit.root > unit.end || unit.encoding.address_size != 8) return std::nullopt;
  // .debug_str_offsets of DWARF 5 begins with a header; the base, where told, stands behind it.
  unit.str_offsets_base = unit.encoding.version == 5 ? 8 : 0;
  return unit;
}

Value read_value(Cursor& cursor, const AttributeSpec& spec, const Unit& unit,
                 const DebugFile& file) {
  std::uint16_t form = spec.form;
  if (form == kIndirect) {
    form = static_cast<std::uint16_t>(cursor.uleb());
    if (form == kIndirect || form == kImplicitConst) form = 0;  // no form: the cursor fails
  }
  if (form == kImplicitConst) {
    return {ValueKind::number, static_cast<std::uint64_t>(spec.implicit), {}};
  }
  Value value{kind_of(form), 0, {}};
  if (form == kString) {
    value.text = cursor.c_string();
    return value;
  }
  const auto size = fixed_size(form, unit.encoding);
  value.number = size ? sized(cursor, *size) : variable(cursor, form);
  if (!cursor.ok()) return {};
  if (form == kStrp) value.text = file.text(Section::str, value.number);
  if (form == kLineStrp) value.text = file.text(Section::line_str, value.number);
  if (value.kind == ValueKind::reference && form != kRefAddr) value.number += unit.offset;
  return value;
}

std::string_view text_of(const Value& value, const Unit& unit, const DebugFile& file) {
  if (value.kind != ValueKind::text_index) return value.text;
  const Bytes table = file.get(Section::str_offsets);
  if (value.number > table.size()) return {};
  Cursor cursor(table, unit.str_offsets_base + value.number * unit.encoding.offset_size);
  const std::uint64_t offset = sized(cursor, unit.encoding.offset_size);
  return cursor.ok() ? file.text(Section::str, offset) : std::string_view{};
}

std::optional<std::uint64_t> address_of(const Value& value, const Unit& unit,
                                        const DebugFile& file) {
  if (value.kind == ValueKind::address) return value.number;
  const Bytes table = file.get(Section::addr);
  if (value.kind != ValueKind::address_index || value.number > table.size()) return std::nullopt;
  return load<std::uint64_t>(table, unit.addr_base + value.number * 8);
}

}  // namespace pm::dwarf
