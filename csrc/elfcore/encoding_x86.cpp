#include "elfcore/encoding_x86.h"

namespace pm::elfcore::x86 {

bool Encoding::read_opcode() {
  for (unsigned i = 0; i < 15; ++i) {
    const std::uint8_t byte = cursor_.u8();
    if (!cursor_.ok()) return false;
    switch (byte) {
      case 0x66:
        has_66_ = true;
        continue;
      case 0xf2:
      case 0xf3:
        repeat_ = byte;
        continue;
      case 0xf0:
        has_lock_ = true;
        continue;
      case 0x2e:
      case 0x36:
      case 0x3e:
      case 0x26:
        continue;
      case 0x64:
      case 0x65:
        segment_ = byte;
        continue;
      case 0x67:
        has_67_ = true;
        continue;
      default:
        break;
    }
    if ((byte & 0xf0) == 0x40) {  // REX: counts only right before the opcode
      rex_ = byte;
      return read_legacy(cursor_.u8());
    }
    if (byte == 0xc4 || byte == 0xc5) return read_vex(byte == 0xc5);
    if (byte == 0x62) return read_evex();
    if (byte == 0xd5) return false;  // REX2 (APX)
    return read_legacy(byte);
  }
  return false;
}

bool Encoding::read_legacy(std::uint8_t byte) {
  op_.prefix = repeat_ == 0xf3   ? Prefix::f3
               : repeat_ == 0xf2 ? Prefix::f2
               : has_66_         ? Prefix::x66
                                 : Prefix::none;
  wide_ = rex_ & 8;
  extend_index_ = rex_ & 2 ? 8 : 0;
  extend_base_ = rex_ & 1 ? 8 : 0;
  if (byte == 0xc4 || byte == 0xc5 || byte == 0x62 || byte == 0xd5) return false;
  op_.code = byte;
  if (byte == 0x0f) {
    op_.map = Map::x0f;
    op_.code = cursor_.u8();
    if (op_.code == 0x38 || op_.code == 0x3a) {
      op_.map = op_.code == 0x38 ? Map::x0f38 : Map::x0f3a;
      op_.code = cursor_.u8();
    } else if (op_.code == 0x0f) {
      return false;  // 3DNow!
    }
  }
  return cursor_.ok();
}

bool Encoding::bad_before_vex() const { return has_66_ || repeat_ != 0 || has_lock_; }

bool Encoding::read_vex(bool is_short) {
  op_.form = Form::vex;
  if (bad_before_vex()) return false;
  const std::uint8_t first = cursor_.u8();
  std::uint8_t last = first;
  op_.map = Map::x0f;
  if (!is_short) {
    last = cursor_.u8();
    extend_index_ = first & 0x40 ? 0 : 8;
    extend_base_ = first & 0x20 ? 0 : 8;
    wide_ = last & 0x80;
    const unsigned map = first & 0x1f;
    if (map < 1 || map > 3) return false;
    op_.map = static_cast<Map>(map);
  }
  op_.length = last & 4 ? 32 : 16;
  op_.prefix = static_cast<Prefix>(last & 3);
  op_.code = cursor_.u8();
  return cursor_.ok();
}

bool Encoding::read_evex() {
  op_.form = Form::evex;
  if (bad_before_vex()) return false;
  const std::uint8_t first = cursor_.u8(), second = cursor_.u8(), third = cursor_.u8();
  const unsigned map = first & 7;
  // Bits that are fixed in AVX-512; APX gives them a meaning.
  if ((first & 8) || !(second & 4)) return false;
  if (!any_of(map, {1, 2, 3, 5, 6})) return false;
  op_.map = map <= 3 ? static_cast<Map>(map) : Map::other;
  extend_index_ = first & 0x40 ? 0 : 8;
  extend_base_ = first & 0x20 ? 0 : 8;
  wide_ = second & 0x80;
  op_.prefix = static_cast<Prefix>(second & 3);
  broadcast_ = third & 0x10;
  const unsigned length = (third >> 5) & 3;
  if (length == 3 && !broadcast_) return false;
  op_.length = 16u << length;
  op_.code = cursor_.u8();
  return cursor_.ok();
}

}  // namespace pm::elfcore::x86
