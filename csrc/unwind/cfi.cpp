#include "unwind/cfi.h"

#include <vector>

namespace pm::unwind {
namespace {

constexpr std::size_t kMaxRemembered = 64;

using Kind = Rule::Kind;

class Program {
 public:
  Program(const Fde& fde, Budget& budget) : fde_(fde), cie_(fde.cie), budget_(budget) {
    row_.return_column = static_cast<std::size_t>(cie_.return_column);
    row_.signal_frame = cie_.signal_frame;
    row_.function_start = fde.start;
    row_.function_end = fde.end;
  }

  std::optional<Row> row_for(std::uint64_t address) {
    wanted_ = UINT64_MAX;
    if (!run(cie_.program, 0)) return std::nullopt;
    initial_ = row_;
    wanted_ = address;
    location_ = fde_.start;
    if (!run(fde_.program, fde_.program_address)) return std::nullopt;
    if (!row_.cfa_is_known || row_.return_column >= kColumns) return std::nullopt;
    for (std::size_t i = 0; i < kColumns; ++i) {
      const Kind kind = row_.rules[i].kind;
      if (kind != Kind::same && kind != Kind::undefined) row_.saved |= std::uint64_t{1} << i;
    }
    return row_;
  }

 private:
  bool run(Bytes code, std::uint64_t address) {
    Cursor cursor(code);
    reached_ = false;
    while (!cursor.at_end() && !reached_) {
      if (!Budget::spend(budget_.instructions)) return false;
      const std::uint8_t byte = cursor.u8();
      const std::uint8_t operand = byte & 0x3f;
      bool known = true;
      switch (byte >> 6) {
        case 1:  // advance_loc
          advance(operand);
          break;
        case 2:  // offset
          set(operand, {Kind::offset, factored(cursor.uleb())});
          break;
        case 3:  // restore
          restore(operand);
          break;
        default:
          known = extended(operand, cursor, address);
      }
      if (!known || !cursor.ok()) return false;
    }
    return true;
  }

  bool extended(std::uint8_t operation, Cursor& cursor, std::uint64_t address) {
    switch (operation) {
      case 0x00:  // nop
        return true;
      case 0x01: {  // set_loc
        const auto to = read_encoded(cursor, cie_.pointer_encoding, address, 0);
        if (!to) return false;
        move_to(*to);
        return true;
      }
      case 0x02:  // advance_loc1, 2, 4 and 8 (DW_CFA_MIPS_advance_loc8)
        advance(cursor.u8());
        return true;
      case 0x03:
        advance(cursor.u16());
        return true;
      case 0x04:
        advance(cursor.u32());
        return true;
      case 0x1d:
        advance(cursor.u64());
        return true;
      case 0x0a:  // remember_state
        if (remembered_.size() >= kMaxRemembered) return false;
        remembered_.push_back(row_);
        return true;
      case 0x0b:  // restore_state
        if (remembered_.empty()) return false;
        row_ = remembered_.back();
        remembered_.pop_back();
        return true;
      case 0x2c:  // AARCH64_negate_ra_state_with_pc, AARCH64_negate_ra_state: signatures are
      case 0x2d:  // stripped from return addresses whether tables tell of them or not
        return true;
      case 0x2e:  // GNU_args_size
        cursor.uleb();
        return true;
      default:
        return cfa_rule(operation, cursor) || register_rule(operation, cursor);
    }
  }

  bool cfa_rule(std::uint8_t operation, Cursor& cursor) {
    switch (operation) {
      case 0x0c: {  // def_cfa
        const std::uint64_t column = cursor.uleb();
        set_cfa(column, static_cast<std::int64_t>(cursor.uleb()));
        return true;
      }
      case 0x12: {  // def_cfa_sf
        const std::uint64_t column = cursor.uleb();
        set_cfa(column, factored_signed(cursor.sleb()));
        return true;
      }
      case 0x0d:  // def_cfa_register
        set_cfa(cursor.uleb(), row_.cfa_offset);
        return true;
      case 0x0e:  // def_cfa_offset
        row_.cfa_offset = static_cast<std::int64_t>(cursor.uleb());
        return true;
      case 0x13:  // def_cfa_offset_sf
        row_.cfa_offset = factored_signed(cursor.sleb());
        return true;
      case 0x0f:  // def_cfa_expression
        row_.cfa_expression = cursor.take(cursor.uleb());
        row_.cfa_is_known = !row_.cfa_expression.empty();
        return true;
      default:
        return false;
    }
  }

  bool register_rule(std::uint8_t operation, Cursor& cursor) {
    const std::uint64_t column = cursor.uleb();
    switch (operation) {
      case 0x05:  // offset_extended
        set(column, {Kind::offset, factored(cursor.uleb())});
        return true;
      case 0x11:  // offset_extended_sf
        set(column, {Kind::offset, factored_signed(cursor.sleb())});
        return true;
      case 0x2f:  // GNU_negative_offset_extended
        set(column, {Kind::offset, factored(0 - cursor.uleb())});
        return true;
      case 0x14:  // val_offset
        set(column, {Kind::value_offset, factored(cursor.uleb())});
        return true;
      case 0x15:  // val_offset_sf
        set(column, {Kind::value_offset, factored_signed(cursor.sleb())});
        return true;
      case 0x06:  // restore_extended
        restore(column);
        return true;
      case 0x07:  // undefined
        set(column, {Kind::undefined});
        return true;
      case 0x08:  // same_value
        set(column, {Kind::same});
        return true;
      case 0x09:  // register
        set(column, {Kind::other_register, static_cast<std::int64_t>(cursor.uleb())});
        return true;
      case 0x10:  // expression
        set(column, {Kind::expression, 0, cursor.take(cursor.uleb())});
        return true;
      case 0x16:  // val_expression
        set(column, {Kind::value_expression, 0, cursor.take(cursor.uleb())});
        return true;
      default:
        return false;
    }
  }

  // Unsigned arithmetic: a crafted factor must not overflow a signed one.
  std::int64_t factored(std::uint64_t value) const {
    return static_cast<std::int64_t>(value * static_cast<std::uint64_t>(cie_.data_factor));
  }
  std::int64_t factored_signed(std::int64_t value) const {
    return factored(static_cast<std::uint64_t>(value));
  }

  void advance(std::uint64_t units) { move_to(location_ + units * cie_.code_factor); }
  void move_to(std::uint64_t location) {
    location_ = location;
    reached_ = location_ > wanted_;
  }
  void set(std::uint64_t column, const Rule& rule) {
    if (column < kColumns) row_.rules[column] = rule;
  }
  void restore(std::uint64_t column) {
    if (column < kColumns) row_.rules[column] = initial_.rules[column];
  }
  void set_cfa(std::uint64_t column, std::int64_t offset) {
    row_.cfa_register = column;
    row_.cfa_offset = offset;
    row_.cfa_expression = {};
    row_.cfa_is_known = column < kColumns;
  }

  const Fde& fde_;
  const Cie& cie_;
  Budget& budget_;
  Row row_;
  Row initial_;
  std::vector<Row> remembered_;
  std::uint64_t location_ = 0;
  std::uint64_t wanted_ = 0;
  bool reached_ = false;
};

}  // namespace

std::optional<Row> row_at(const Fde& fde, std::uint64_t address, Budget& budget) {
  return Program(fde, budget).row_for(address);
}

}  // namespace pm::unwind
