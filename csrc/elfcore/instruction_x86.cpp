// x86-64: Intel SDM volume 2, chapter 2 (encoding) and the opcode maps of its appendix A.
#include <array>
#include <initializer_list>

#include "elfcore/instruction.h"

namespace pm::elfcore {
namespace {

// Encoding number to place in `elf_gregset_t`.
constexpr std::array<std::size_t, 16> kPlaces{10, 11, 12, 5, 19, 4, 13, 14, 9, 8, 7, 6, 3, 2, 1, 0};
constexpr std::size_t kFsBase = 21, kGsBase = 22;
constexpr std::string_view kRead = "read", kWrite = "write", kUnknown = {};

enum class Map : std::uint8_t { one_byte = 0, x0f = 1, x0f38 = 2, x0f3a = 3, other = 255 };
enum class Form : std::uint8_t { legacy, vex, evex };
enum class Prefix : std::uint8_t { none = 0, x66 = 1, f3 = 2, f2 = 3 };

bool any_of(unsigned value, std::initializer_list<unsigned> all) {
  for (const unsigned one : all) {
    if (one == value) return true;
  }
  return false;
}
bool in(unsigned value, unsigned first, unsigned last) { return value >= first && value <= last; }

class Decoder {
 public:
  Decoder(Bytes code, std::uint64_t pc, const Registers& registers)
      : cursor_(code), pc_(pc), registers_(registers) {}

  Decoded run() {
    if (!read_opcode()) return {};
    result_.feature = feature();
    if (has_modrm()) {
      read_modrm();
      if (!cursor_.ok()) return {};
      trap_of_modrm();
    }
    explicit_operand();
    implied_operands();
    if (!cursor_.ok()) return {};
    return result_;
  }

 private:
  std::uint64_t reg(unsigned number) const { return registers_.values[kPlaces[number & 15]]; }
  static std::string name(unsigned number) {
    return std::string(kRegisterNamesX86[kPlaces[number & 15]]);
  }

  bool read_opcode() {
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

  bool read_legacy(std::uint8_t byte) {
    prefix_ = repeat_ == 0xf3   ? Prefix::f3
              : repeat_ == 0xf2 ? Prefix::f2
              : has_66_         ? Prefix::x66
                                : Prefix::none;
    wide_ = rex_ & 8;
    extend_index_ = rex_ & 2 ? 8 : 0;
    extend_base_ = rex_ & 1 ? 8 : 0;
    if (byte == 0xc4 || byte == 0xc5 || byte == 0x62 || byte == 0xd5) return false;
    opcode_ = byte;
    if (byte == 0x0f) {
      map_ = Map::x0f;
      opcode_ = cursor_.u8();
      if (opcode_ == 0x38 || opcode_ == 0x3a) {
        map_ = opcode_ == 0x38 ? Map::x0f38 : Map::x0f3a;
        opcode_ = cursor_.u8();
      } else if (opcode_ == 0x0f) {
        return false;  // 3DNow!
      }
    }
    return cursor_.ok();
  }

  bool bad_before_vex() const { return has_66_ || repeat_ != 0 || has_lock_; }

  bool read_vex(bool is_short) {
    form_ = Form::vex;
    if (bad_before_vex()) return false;
    const std::uint8_t first = cursor_.u8();
    std::uint8_t last = first;
    map_ = Map::x0f;
    if (!is_short) {
      last = cursor_.u8();
      extend_index_ = first & 0x40 ? 0 : 8;
      extend_base_ = first & 0x20 ? 0 : 8;
      wide_ = last & 0x80;
      const unsigned map = first & 0x1f;
      if (map < 1 || map > 3) return false;
      map_ = static_cast<Map>(map);
    }
    length_ = last & 4 ? 32 : 16;
    prefix_ = static_cast<Prefix>(last & 3);
    opcode_ = cursor_.u8();
    return cursor_.ok();
  }

  bool read_evex() {
    form_ = Form::evex;
    if (bad_before_vex()) return false;
    const std::uint8_t first = cursor_.u8(), second = cursor_.u8(), third = cursor_.u8();
    const unsigned map = first & 7;
    // Bits that are fixed in AVX-512; APX gives them a meaning.
    if ((first & 8) || !(second & 4)) return false;
    if (!any_of(map, {1, 2, 3, 5, 6})) return false;
    map_ = map <= 3 ? static_cast<Map>(map) : Map::other;
    extend_index_ = first & 0x40 ? 0 : 8;
    extend_base_ = first & 0x20 ? 0 : 8;
    wide_ = second & 0x80;
    prefix_ = static_cast<Prefix>(second & 3);
    broadcast_ = third & 0x10;
    const unsigned length = (third >> 5) & 3;
    if (length == 3 && !broadcast_) return false;
    length_ = 16u << length;
    opcode_ = cursor_.u8();
    return cursor_.ok();
  }

  bool has_modrm() const {
    const unsigned op = opcode_;
    if (form_ != Form::legacy) return !(form_ == Form::vex && map_ == Map::x0f && op == 0x77);
    switch (map_) {
      case Map::one_byte:
        if (op < 0x40) return (op & 7) < 4;
        return any_of(op, {0x63, 0x69, 0x6b, 0xc0, 0xc1, 0xc6, 0xc7, 0xf6, 0xf7, 0xfe, 0xff}) ||
               in(op, 0x80, 0x8f) || in(op, 0xd0, 0xd3) || in(op, 0xd8, 0xdf);
      case Map::x0f:
        return !(any_of(op, {0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0e, 0x77, 0xa0,
                             0xa1, 0xa2, 0xa8, 0xa9, 0xaa}) ||
                 in(op, 0x30, 0x37) || in(op, 0x80, 0x8f) || in(op, 0xc8, 0xcf));
      default:
        return true;
    }
  }

  // Bytes of the immediate operand, which rip-relative addresses count from behind.
  unsigned immediate_size() const {
    const unsigned op = opcode_, full = has_66_ && !wide_ ? 2 : 4;
    if (map_ == Map::x0f3a) return 1;
    if (map_ == Map::x0f) {
      const bool has = in(op, 0x70, 0x73) || any_of(op, {0xc2, 0xc4, 0xc5, 0xc6}) ||
                       (form_ == Form::legacy && any_of(op, {0xa4, 0xac, 0xba}));
      return has ? 1 : 0;
    }
    if (map_ != Map::one_byte) return 0;
    if (any_of(op, {0x6b, 0x80, 0x83, 0xc0, 0xc1, 0xc6})) return 1;
    if (any_of(op, {0x69, 0x81, 0xc7})) return full;
    if (op == 0xf6) return reg_field_ < 2 ? 1 : 0;
    if (op == 0xf7) return reg_field_ < 2 ? full : 0;
    return 0;
  }

  void read_modrm() {
    const std::uint8_t modrm = cursor_.u8();
    mod_ = modrm >> 6;
    reg_field_ = (modrm >> 3) & 7;
    rm_ = modrm & 7;
    if (mod_ == 3) return;
    has_memory_ = true;
    bool no_base = false;
    if (rm_ == 4) {
      const std::uint8_t sib = cursor_.u8();
      index_ = ((sib >> 3) & 7) | extend_index_;
      scale_ = 1u << (sib >> 6);
      has_index_ = index_ != 4;
      base_ = sib & 7;
      no_base = base_ == 5 && mod_ == 0;
      base_ |= extend_base_;
    } else {
      base_ = rm_ | extend_base_;
      is_relative_ = rm_ == 5 && mod_ == 0;
    }
    has_base_ = !no_base && !is_relative_;
    if (mod_ == 1) displacement_ = static_cast<std::int8_t>(cursor_.u8());
    if (mod_ == 2 || no_base || is_relative_) {
      displacement_ = static_cast<std::int32_t>(cursor_.u32());
    }
    if (form_ == Form::evex && mod_ == 1 && displacement_ != 0) {
      const unsigned unit = compressed_unit();
      is_unsure_ = unit == 0;
      displacement_ *= unit;
    }
  }

  // disp8*N of EVEX (SDM 2.7.5) for instructions whose tuple type is known here; else 0.
  unsigned compressed_unit() const {
    const unsigned op = opcode_, element = wide_ ? 8 : 4;
    const unsigned full = broadcast_ ? element : length_;
    const bool is_scalar = prefix_ == Prefix::f3 || prefix_ == Prefix::f2;
    if (map_ == Map::x0f) {
      if (op == 0x10 || op == 0x11) return is_scalar ? element : length_;
      if (any_of(op, {0x28, 0x29, 0x2b, 0x6f, 0x7f, 0xe7})) return length_;
      if (op == 0x51 || op == 0x58 || op == 0x59 || in(op, 0x5c, 0x5f)) {
        return is_scalar ? element : full;
      }
      if (in(op, 0x54, 0x57)) return full;
      if (any_of(op, {0xdb, 0xdf, 0xeb, 0xef, 0xfe, 0xd4, 0xfa, 0xfb})) return full;
      if (any_of(op, {0xfc, 0xfd, 0xf8, 0xf9, 0x74, 0x75, 0x64, 0x65, 0xda, 0xde})) return length_;
    }
    if (map_ == Map::x0f38) {
      if (in(op, 0x96, 0x98) || in(op, 0xa6, 0xa8) || in(op, 0xb6, 0xb8)) return full;
      if (in(op, 0x99, 0xbf) && (op & 15) >= 9) {
        if (op & 1) return element;
        return any_of(op, {0x9a, 0x9c, 0x9e, 0xaa, 0xac, 0xae, 0xba, 0xbc, 0xbe}) &&
                       prefix_ == Prefix::x66
                   ? full
                   : 0;
      }
      if (op == 0x18 || op == 0x58) return 4;
      if (op == 0x19 || op == 0x59) return 8;
      if (op == 0x78 && prefix_ == Prefix::x66) return 1;
      if (op == 0x79 && prefix_ == Prefix::x66) return 2;
    }
    return 0;
  }

  void trap_of_modrm() {
    if (form_ == Form::legacy && map_ == Map::x0f && (opcode_ == 0xb9 || opcode_ == 0xff)) {
      result_.feature = "trap";  // ud1, ud0
    }
  }

  void add(std::string text, std::optional<std::uint64_t> address, std::string_view access) {
    result_.operands.push_back({std::move(text), address, access});
  }

  void explicit_operand() {
    if (!has_memory_ || is_unsure_ || touches_nothing() || has_67_) return;
    if (has_vector_index()) return;
    std::string text;
    std::uint64_t address = static_cast<std::uint64_t>(displacement_);
    if (is_relative_) {
      text = "rip";
      address += pc_ + cursor_.offset() + immediate_size();
    }
    if (has_base_) {
      text = name(base_);
      address += reg(base_);
    }
    if (has_index_) {
      if (!text.empty()) text += '+';
      text.append(name(index_));
      if (scale_ > 1 || !has_base_) text.append("*").append(std::to_string(scale_));
      address += reg(index_) * scale_;
    }
    text = with_displacement(std::move(text), displacement_);
    if (segment_ != 0) {
      const bool is_fs = segment_ == 0x64;
      text = std::string(is_fs ? "fs:" : "gs:").append(text);
      address += registers_.values[is_fs ? kFsBase : kGsBase];
    }
    const std::optional<std::uint64_t> where =
        is_bit_string() ? std::nullopt : std::optional(address);
    add(std::move(text), where, access());
  }

  // bt and its kin with a register: the register moves the address by as many bits.
  bool is_bit_string() const {
    return form_ == Form::legacy && map_ == Map::x0f && any_of(opcode_, {0xa3, 0xab, 0xb3, 0xbb});
  }

  bool has_vector_index() const {
    if (form_ == Form::legacy || map_ != Map::x0f38) return false;
    return in(opcode_, 0x90, 0x93) || in(opcode_, 0xa0, 0xa3) || opcode_ == 0xc6 ||
           opcode_ == 0xc7 || opcode_ == 0x4b || opcode_ == 0x4a;
  }

  bool touches_nothing() const {
    if (form_ != Form::legacy) return false;
    if (map_ == Map::one_byte) return opcode_ == 0x8d;
    if (map_ != Map::x0f) return false;
    // prefetch, nop, MPX, clflush and clwb, invlpg and other system instructions.
    if (opcode_ == 0x0d || in(opcode_, 0x18, 0x1f) || opcode_ == 0xb9 || opcode_ == 0xff) {
      return true;
    }
    if (opcode_ == 0x01) return reg_field_ == 7;
    return opcode_ == 0xae && (reg_field_ == 7 || (reg_field_ == 6 && has_66_));
  }

  std::string_view access() const {
    switch (map_) {
      case Map::one_byte:
        return access_one_byte();
      case Map::x0f:
        return access_0f();
      case Map::x0f38:
        return access_0f38();
      case Map::x0f3a:
        return access_0f3a();
      default:
        return kUnknown;
    }
  }

  std::string_view access_one_byte() const {
    const unsigned op = opcode_, r = reg_field_;
    if (op < 0x38) return (op & 7) < 2 ? kWrite : kRead;
    if (op < 0x40) return kRead;  // cmp
    if (any_of(op, {0x63, 0x69, 0x6b, 0x84, 0x85, 0x8a, 0x8b, 0x8e})) return kRead;
    if (in(op, 0x80, 0x83)) return r == 7 ? kRead : kWrite;
    if (any_of(op, {0x86, 0x87, 0x88, 0x89, 0x8c, 0x8f, 0xc0, 0xc1, 0xc6, 0xc7}) ||
        in(op, 0xd0, 0xd3)) {
      return kWrite;
    }
    if (op == 0xf6 || op == 0xf7) return r == 2 || r == 3 ? kWrite : kRead;
    if (op == 0xfe || op == 0xff) return r < 2 ? kWrite : kRead;
    switch (op) {  // x87
      case 0xd8:
      case 0xda:
      case 0xdc:
      case 0xde:
        return kRead;
      case 0xd9:
        return any_of(r, {2, 3, 6, 7}) ? kWrite : kRead;
      case 0xdb:
        return any_of(r, {1, 2, 3, 7}) ? kWrite : kRead;
      case 0xdd:
        return any_of(r, {1, 2, 3, 6, 7}) ? kWrite : kRead;
      case 0xdf:
        return any_of(r, {1, 2, 3, 6, 7}) ? kWrite : kRead;
      default:
        return kUnknown;
    }
  }

  std::string_view access_0f() const {
    const unsigned op = opcode_, r = reg_field_;
    if (any_of(op, {0x11, 0x13, 0x17, 0x29, 0x2b, 0x7f, 0xd6, 0xe7})) return kWrite;
    if (op == 0x7e) return prefix_ == Prefix::f3 ? kRead : kWrite;
    if (form_ != Form::legacy) {
      if (in(op, 0x41, 0x4f) || in(op, 0x92, 0x9f)) return kUnknown;
      if (op == 0x90) return kRead;   // kmov
      if (op == 0x91) return kWrite;  // kmov
      if (op == 0xae) return r == 2 ? kRead : r == 3 ? kWrite : kUnknown;
      if (op == 0x78 || op == 0x79 || op == 0x7a || op == 0x7b) {
        return form_ == Form::evex ? kRead : kUnknown;
      }
    } else {
      if (in(op, 0x90, 0x9f)) return kWrite;  // setcc
      if (any_of(op, {0xa4, 0xa5, 0xab, 0xac, 0xad, 0xb0, 0xb1, 0xb3, 0xbb, 0xc0, 0xc1, 0xc3})) {
        return kWrite;
      }
      if (any_of(op, {0xa3, 0xaf, 0xb6, 0xb7, 0xbc, 0xbd, 0xbe, 0xbf}) || in(op, 0x40, 0x4f)) {
        return kRead;
      }
      if (op == 0xb8) return prefix_ == Prefix::f3 ? kRead : kUnknown;
      if (op == 0xba) return r == 4 ? kRead : r > 4 ? kWrite : kUnknown;
      if (op == 0xc7) return any_of(r, {1, 4, 5}) ? kWrite : r == 3 ? kRead : kUnknown;
      if (op == 0xae) return any_of(r, {0, 3, 4, 6}) ? kWrite : kRead;
    }
    if (any_of(op, {0x10, 0x12, 0x14, 0x15, 0x16, 0x28, 0x2a, 0x2c, 0x2d, 0x2e, 0x2f}) ||
        in(op, 0x51, 0x70) || in(op, 0x74, 0x76) || in(op, 0x7c, 0x7d) ||
        any_of(op, {0xc2, 0xc4, 0xc6}) || in(op, 0xd0, 0xfe)) {
      return kRead;
    }
    return kUnknown;
  }

  std::string_view access_0f38() const {
    const unsigned op = opcode_;
    if (form_ == Form::legacy) {
      if (op == 0xf1) return prefix_ == Prefix::f2 ? kRead : kWrite;  // crc32, movbe
      if (op == 0xf9) return kWrite;
      if (in(op, 0xf5, 0xff)) return op == 0xf6 ? kRead : kUnknown;
      if (in(op, 0x80, 0x82)) return kUnknown;
      return kRead;
    }
    if (form_ == Form::vex) return any_of(op, {0x2e, 0x2f, 0x8e}) ? kWrite : kRead;
    // Down-converting stores and compressing ones.
    if (prefix_ == Prefix::f3 && (in(op, 0x10, 0x15) || in(op, 0x20, 0x25) || in(op, 0x30, 0x35))) {
      return kWrite;
    }
    return any_of(op, {0x63, 0x8a, 0x8b}) ? kWrite : kRead;
  }

  std::string_view access_0f3a() const {
    const unsigned op = opcode_;
    if (in(op, 0x14, 0x17)) return kWrite;  // extracts
    if (form_ != Form::legacy && any_of(op, {0x19, 0x1d, 0x39})) return kWrite;
    if (form_ == Form::evex && any_of(op, {0x1b, 0x3b})) return kWrite;
    return kRead;
  }

  void stack(std::int64_t offset, std::string_view access) {
    constexpr unsigned kRsp = 4;
    add(with_displacement("rsp", offset), reg(kRsp) + static_cast<std::uint64_t>(offset), access);
  }
  void at_register(unsigned number, std::string_view access) {
    add(name(number), reg(number), access);
  }

  void implied_operands() {
    if (form_ != Form::legacy || map_ != Map::one_byte || has_67_) return;
    constexpr unsigned kRbp = 5, kRsi = 6, kRdi = 7;
    const unsigned op = opcode_;
    const std::int64_t word = has_66_ && !wide_ ? 2 : 8;
    if (in(op, 0x50, 0x57) || any_of(op, {0x68, 0x6a, 0x9c})) stack(-word, kWrite);
    if (op == 0xe8) stack(-8, kWrite);
    if (op == 0xff && (reg_field_ == 2 || reg_field_ == 6)) {
      stack(reg_field_ == 2 ? -8 : -word, kWrite);
    }
    if (in(op, 0x58, 0x5f) || any_of(op, {0x8f, 0x9d, 0xc2, 0xc3})) stack(0, kRead);
    if (op == 0xc9) at_register(kRbp, kRead);
    // A segment prefix moves the source of a string instruction.
    const bool has_plain_source = segment_ == 0;
    if (in(op, 0xa4, 0xa5)) {
      at_register(kRdi, kWrite);
      if (has_plain_source) at_register(kRsi, kRead);
    }
    if (in(op, 0xa6, 0xa7)) {
      if (has_plain_source) at_register(kRsi, kRead);
      at_register(kRdi, kRead);
    }
    if (in(op, 0xaa, 0xab)) at_register(kRdi, kWrite);
    if (in(op, 0xac, 0xad) && has_plain_source) at_register(kRsi, kRead);
    if (in(op, 0xae, 0xaf)) at_register(kRdi, kRead);
    if (in(op, 0xa0, 0xa3) && segment_ == 0) {
      const std::uint64_t address = cursor_.u64();
      add(hex(address), address, op < 0xa2 ? kRead : kWrite);
    }
  }

  std::string_view feature() const {
    switch (form_) {
      case Form::evex:
        return "AVX-512";
      case Form::vex:
        return feature_vex();
      case Form::legacy:
        return feature_legacy();
    }
    return {};
  }

  std::string_view feature_vex() const {
    const unsigned op = opcode_;
    const bool is_wide_vector = length_ == 32;
    if (map_ == Map::x0f) {
      if (in(op, 0x41, 0x4b) || in(op, 0x90, 0x93) || op == 0x98 || op == 0x99) return "AVX-512";
      const bool is_integer =
          (in(op, 0x60, 0x6d) || in(op, 0x70, 0x76) || in(op, 0xd1, 0xd5) || op == 0xd7 ||
           in(op, 0xd8, 0xe5) || in(op, 0xe8, 0xef) || in(op, 0xf1, 0xf6) || in(op, 0xf8, 0xfe));
      return is_integer && is_wide_vector ? "AVX2" : "AVX";
    }
    if (map_ == Map::x0f38) {
      if (any_of(op, {0x49, 0x4b, 0x5c, 0x5e, 0x6c})) return "AMX";
      if (in(op, 0x96, 0x9f) || in(op, 0xa6, 0xaf) || in(op, 0xb6, 0xbf)) return "FMA";
      if (op == 0x13) return "F16C";
      if (op == 0xf2 || op == 0xf3) return "BMI1";
      if (op == 0xf7) return prefix_ == Prefix::none ? "BMI1" : "BMI2";
      if (op == 0xf5 || op == 0xf6) return "BMI2";
      if (any_of(op, {0x16, 0x36, 0x45, 0x46, 0x47, 0x58, 0x59, 0x5a, 0x78, 0x79, 0x8c, 0x8e}) ||
          in(op, 0x90, 0x93)) {
        return "AVX2";
      }
      const bool is_integer = in(op, 0x00, 0x0b) || in(op, 0x1c, 0x1e) || in(op, 0x20, 0x25) ||
                              in(op, 0x28, 0x2b) || in(op, 0x30, 0x41);
      if (is_integer) return is_wide_vector ? "AVX2" : "AVX";
      if (in(op, 0x0c, 0x0f) || in(op, 0x17, 0x1a) || in(op, 0x2c, 0x2f)) return "AVX";
      return {};  // newer extensions
    }
    if (op == 0xf0) return "BMI2";
    if (op == 0x1d) return "F16C";
    if (in(op, 0x30, 0x33)) return "AVX-512";
    if (any_of(op, {0x00, 0x01, 0x02, 0x38, 0x39, 0x46})) return "AVX2";
    if (any_of(op, {0x0e, 0x0f, 0x42, 0x4c})) return is_wide_vector ? "AVX2" : "AVX";
    if (in(op, 0x04, 0x0d) || in(op, 0x14, 0x19) || in(op, 0x20, 0x22) || in(op, 0x40, 0x41) ||
        in(op, 0x4a, 0x4b) || in(op, 0x60, 0x63)) {
      return "AVX";
    }
    return {};
  }

  std::string_view feature_legacy() const {
    const unsigned op = opcode_;
    if (map_ == Map::one_byte) {
      return any_of(op, {0xcc, 0xcd, 0xf1, 0xf4}) ? "trap" : std::string_view{};
    }
    if (map_ == Map::x0f) {
      if (op == 0x0b) return "trap";  // ud2
      if (op == 0xb8 && prefix_ == Prefix::f3) return "POPCNT";
      const bool is_sse3 = (op == 0xd0 || op == 0x7c || op == 0x7d || op == 0xf0) &&
                           (prefix_ == Prefix::f2 || prefix_ == Prefix::x66);
      return is_sse3 ? "SSE3" : std::string_view{};
    }
    if (map_ == Map::x0f38) {
      if (op <= 0x0b || in(op, 0x1c, 0x1e)) return "SSSE3";
      if (op == 0x37) return "SSE4.2";
      if (in(op, 0x10, 0x17) || in(op, 0x20, 0x2b) || in(op, 0x30, 0x41)) return "SSE4.1";
      if (in(op, 0xc8, 0xcd)) return "SHA";
      if (in(op, 0xdb, 0xdf) && prefix_ == Prefix::x66) return "AES-NI";
      if (op == 0xf0 || op == 0xf1) return prefix_ == Prefix::f2 ? "SSE4.2" : "MOVBE";
      return {};
    }
    if (op == 0x0f) return "SSSE3";
    if (in(op, 0x08, 0x0e) || in(op, 0x14, 0x17) || in(op, 0x20, 0x22) || in(op, 0x40, 0x42)) {
      return "SSE4.1";
    }
    if (op == 0x44) return "PCLMULQDQ";
    if (in(op, 0x60, 0x63)) return "SSE4.2";
    if (op == 0xcc) return "SHA";
    if (op == 0xdf) return "AES-NI";
    return {};
  }

  Cursor cursor_;
  std::uint64_t pc_;
  const Registers& registers_;
  Decoded result_;
  Form form_ = Form::legacy;
  Map map_ = Map::one_byte;
  Prefix prefix_ = Prefix::none;
  bool has_66_ = false, has_67_ = false, has_lock_ = false, wide_ = false, broadcast_ = false;
  std::uint8_t repeat_ = 0, segment_ = 0, rex_ = 0, opcode_ = 0;
  unsigned extend_index_ = 0, extend_base_ = 0, length_ = 16;
  unsigned mod_ = 3, reg_field_ = 0, rm_ = 0, base_ = 0, index_ = 0, scale_ = 1;
  bool has_memory_ = false, has_base_ = false, has_index_ = false, is_relative_ = false;
  bool is_unsure_ = false;
  std::int64_t displacement_ = 0;
};

}  // namespace

Decoded decode_x86(Bytes code, std::uint64_t pc, const Registers& registers) {
  return Decoder(clip(code, 0, 15), pc, registers).run();
}

}  // namespace pm::elfcore
