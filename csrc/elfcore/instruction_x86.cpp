// x86-64: Intel SDM volume 2, chapter 2 (encoding) and the opcode maps of its appendix A.
#include <array>

#include "elfcore/encoding_x86.h"
#include "elfcore/instruction.h"
#include "elfcore/opcode_x86.h"

namespace pm::elfcore {
namespace {

using namespace x86;

// Encoding number to place in `elf_gregset_t`.
constexpr std::array<std::size_t, 16> kPlaces{10, 11, 12, 5, 19, 4, 13, 14, 9, 8, 7, 6, 3, 2, 1, 0};
constexpr std::size_t kFsBase = 21, kGsBase = 22;

class X86Decoder : Encoding {
 public:
  X86Decoder(Bytes code, std::uint64_t pc, const Registers& registers)
      : Encoding(code), pc_(pc), registers_(registers) {}

  Decoded run() {
    if (!read_opcode()) return {};
    result_.feature = op_.feature();
    if (has_modrm()) {
      read_modrm();
      if (!cursor_.ok()) return {};
      trap_of_modrm();
    }
    explicit_operand();
    implied_operands();
    if (!cursor_.ok()) return {};
    if (is_privileged()) result_.feature = "privileged";
    find_target();
    result_.alignment = alignment();
    find_divisor();
    return result_;
  }

 private:
  std::uint64_t reg(unsigned number) const { return registers_.values[kPlaces[number & 15]]; }
  static std::string name(unsigned number) {
    return std::string(kRegisterNamesX86[kPlaces[number & 15]]);
  }

  bool has_modrm() const {
    const unsigned op = op_.code;
    if (op_.form != Form::legacy)
      return !(op_.form == Form::vex && op_.map == Map::x0f && op == 0x77);
    switch (op_.map) {
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
    const unsigned op = op_.code, full = has_66_ && !wide_ ? 2 : 4;
    if (op_.map == Map::x0f3a) return 1;
    if (op_.map == Map::x0f) {
      const bool has = in(op, 0x70, 0x73) || any_of(op, {0xc2, 0xc4, 0xc5, 0xc6}) ||
                       (op_.form == Form::legacy && any_of(op, {0xa4, 0xac, 0xba}));
      return has ? 1 : 0;
    }
    if (op_.map != Map::one_byte) return 0;
    if (any_of(op, {0x6b, 0x80, 0x83, 0xc0, 0xc1, 0xc6})) return 1;
    if (any_of(op, {0x69, 0x81, 0xc7})) return full;
    if (op == 0xf6) return op_.reg < 2 ? 1 : 0;
    if (op == 0xf7) return op_.reg < 2 ? full : 0;
    return 0;
  }

  void read_modrm() {
    const std::uint8_t modrm = cursor_.u8();
    mod_ = modrm >> 6;
    op_.reg = (modrm >> 3) & 7;
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
    if (op_.form == Form::evex && mod_ == 1 && displacement_ != 0) {
      const unsigned unit = compressed_unit();
      is_unsure_ = unit == 0;
      displacement_ *= unit;
    }
  }

  // disp8*N of EVEX (SDM 2.7.5) for instructions whose tuple type is known here; else 0.
  unsigned compressed_unit() const {
    const unsigned op = op_.code, element = wide_ ? 8 : 4;
    const unsigned full = broadcast_ ? element : op_.length;
    const bool is_scalar = op_.prefix == Prefix::f3 || op_.prefix == Prefix::f2;
    if (op_.map == Map::x0f) {
      if (op == 0x10 || op == 0x11) return is_scalar ? element : op_.length;
      if (any_of(op, {0x28, 0x29, 0x2b, 0x6f, 0x7f, 0xe7})) return op_.length;
      if (op == 0x51 || op == 0x58 || op == 0x59 || in(op, 0x5c, 0x5f)) {
        return is_scalar ? element : full;
      }
      if (in(op, 0x54, 0x57)) return full;
      if (any_of(op, {0xdb, 0xdf, 0xeb, 0xef, 0xfe, 0xd4, 0xfa, 0xfb})) return full;
      if (any_of(op, {0xfc, 0xfd, 0xf8, 0xf9, 0x74, 0x75, 0x64, 0x65, 0xda, 0xde}))
        return op_.length;
    }
    if (op_.map == Map::x0f38) {
      if (in(op, 0x96, 0x98) || in(op, 0xa6, 0xa8) || in(op, 0xb6, 0xb8)) return full;
      if (in(op, 0x99, 0xbf) && (op & 15) >= 9) {
        if (op & 1) return element;
        return any_of(op, {0x9a, 0x9c, 0x9e, 0xaa, 0xac, 0xae, 0xba, 0xbc, 0xbe}) &&
                       op_.prefix == Prefix::x66
                   ? full
                   : 0;
      }
      if (op == 0x18 || op == 0x58) return 4;
      if (op == 0x19 || op == 0x59) return 8;
      if (op == 0x78 && op_.prefix == Prefix::x66) return 1;
      if (op == 0x79 && op_.prefix == Prefix::x66) return 2;
    }
    return 0;
  }

  // General protection outside ring 0: Intel SDM 3A, section 5.9; in and out by IOPL; int n by the
  // privilege level of its gate (only 3, 4 and 0x80 are open).
  bool is_privileged() const {
    if (op_.form != Form::legacy) return false;
    const unsigned op = op_.code;
    if (op_.map == Map::one_byte) {
      return any_of(op, {0xf4, 0xfa, 0xfb, 0xcd}) || in(op, 0x6c, 0x6f) || in(op, 0xe4, 0xe7) ||
             in(op, 0xec, 0xef);
    }
    if (op_.map != Map::x0f) return false;
    if (op == 0x00) return op_.reg == 2 || op_.reg == 3;
    if (op == 0x01) return mod_ != 3 && any_of(op_.reg, {2, 3, 6, 7});
    return any_of(op, {0x06, 0x07, 0x08, 0x09, 0x30, 0x32, 0x33, 0x35}) || in(op, 0x20, 0x23);
  }

  void find_target() {
    if (op_.form != Form::legacy || op_.map != Map::one_byte || has_67_) return;
    if (any_of(op_.code, {0xc2, 0xc3})) {
      result_.transfer = "return";
      result_.target_at = reg(kRsp);
    } else if (op_.code == 0xff && (op_.reg == 2 || op_.reg == 4)) {
      result_.transfer = op_.reg == 2 ? "call" : "jump";
      if (!has_memory_) {
        result_.target = reg(rm_ | ((rex_ & 1U) << 3));
      } else if (!result_.operands.empty()) {
        result_.target_at = result_.operands.front().address;
      }
    }
  }

  void find_divisor() {
    if (op_.form != Form::legacy || op_.map != Map::one_byte || op_.reg < 6) return;
    if (op_.code != 0xf6 && op_.code != 0xf7) return;
    result_.division = op_.code == 0xf6 ? 1 : wide_ ? 8 : has_66_ ? 2 : 4;
    // Without REX, numbers 4 to 7 are ah, ch, dh and bh.
    const bool is_high = result_.division == 1 && rex_ == 0 && rm_ >= 4;
    if (!has_memory_ && !is_high) result_.divisor = reg(rm_ | ((rex_ & 1U) << 3));
  }

  // Of 16-byte SSE operands all but movups and its kin; of AVX ones only the movs that say so.
  std::uint32_t alignment() const {
    if (!has_memory_ || op_.map == Map::one_byte || op_.map == Map::other) return 0;
    if (op_.form == Form::legacy) return 16;
    const bool moves =
        op_.map == Map::x0f && (any_of(op_.code, {0x28, 0x29, 0x2b, 0xe7}) ||
                                (any_of(op_.code, {0x6f, 0x7f}) && op_.prefix == Prefix::x66));
    const bool loads = op_.map == Map::x0f38 && op_.code == 0x2a;
    return moves || loads ? op_.length : 0;
  }

  void trap_of_modrm() {
    if (op_.form == Form::legacy && op_.map == Map::x0f && (op_.code == 0xb9 || op_.code == 0xff)) {
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
    add(std::move(text), where, op_.access());
  }

  // bt and its kin with a register: the register moves the address by as many bits.
  bool is_bit_string() const {
    return op_.form == Form::legacy && op_.map == Map::x0f &&
           any_of(op_.code, {0xa3, 0xab, 0xb3, 0xbb});
  }

  bool has_vector_index() const {
    if (op_.form == Form::legacy || op_.map != Map::x0f38) return false;
    return in(op_.code, 0x90, 0x93) || in(op_.code, 0xa0, 0xa3) || op_.code == 0xc6 ||
           op_.code == 0xc7 || op_.code == 0x4b || op_.code == 0x4a;
  }

  bool touches_nothing() const {
    if (op_.form != Form::legacy) return false;
    if (op_.map == Map::one_byte) return op_.code == 0x8d;
    if (op_.map != Map::x0f) return false;
    // prefetch, nop, MPX, clflush and clwb, invlpg and other system instructions.
    if (op_.code == 0x0d || in(op_.code, 0x18, 0x1f) || op_.code == 0xb9 || op_.code == 0xff) {
      return true;
    }
    if (op_.code == 0x01) return op_.reg == 7;
    return op_.code == 0xae && (op_.reg == 7 || (op_.reg == 6 && has_66_));
  }

  void stack(std::int64_t offset, std::string_view access) {
    add(with_displacement("rsp", offset), reg(kRsp) + static_cast<std::uint64_t>(offset), access);
  }
  void at_register(unsigned number, std::string_view access) {
    add(name(number), reg(number), access);
  }

  void implied_operands() {
    if (op_.form != Form::legacy || op_.map != Map::one_byte || has_67_) return;
    const unsigned op = op_.code;
    const std::int64_t word = has_66_ && !wide_ ? 2 : 8;
    if (in(op, 0x50, 0x57) || any_of(op, {0x68, 0x6a, 0x9c})) stack(-word, kWrites);
    if (op == 0xe8) stack(-8, kWrites);
    if (op == 0xff && (op_.reg == 2 || op_.reg == 6)) {
      stack(op_.reg == 2 ? -8 : -word, kWrites);
    }
    if (in(op, 0x58, 0x5f) || any_of(op, {0x8f, 0x9d, 0xc2, 0xc3})) stack(0, kReads);
    if (op == 0xc9) at_register(kRbp, kReads);
    // A segment prefix moves the source of a string instruction.
    const bool has_plain_source = segment_ == 0;
    if (in(op, 0xa4, 0xa5)) {
      at_register(kRdi, kWrites);
      if (has_plain_source) at_register(kRsi, kReads);
    }
    if (in(op, 0xa6, 0xa7)) {
      if (has_plain_source) at_register(kRsi, kReads);
      at_register(kRdi, kReads);
    }
    if (in(op, 0xaa, 0xab)) at_register(kRdi, kWrites);
    if (in(op, 0xac, 0xad) && has_plain_source) at_register(kRsi, kReads);
    if (in(op, 0xae, 0xaf)) at_register(kRdi, kReads);
    if (in(op, 0xa0, 0xa3) && segment_ == 0) {
      const std::uint64_t address = cursor_.u64();
      add(hex(address), address, op < 0xa2 ? kReads : kWrites);
    }
  }

  std::uint64_t pc_;
  const Registers& registers_;
  Decoded result_;
  unsigned mod_ = 3, rm_ = 0, base_ = 0, index_ = 0, scale_ = 1;
  bool has_memory_ = false, has_base_ = false, has_index_ = false, is_relative_ = false;
  bool is_unsure_ = false;
  std::int64_t displacement_ = 0;
};

}  // namespace

Decoded decode_x86(Bytes code, std::uint64_t pc, const Registers& registers) {
  return X86Decoder(clip(code, 0, 15), pc, registers).run();
}

}  // namespace pm::elfcore
