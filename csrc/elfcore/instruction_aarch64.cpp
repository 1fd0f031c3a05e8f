// aarch64: Arm ARM DDI 0487, "A64 instruction set encoding", loads and stores (C4.1.94).
#include "elfcore/instruction.h"

namespace pm::elfcore {
namespace {

constexpr unsigned kStackPointer = 31;

std::int64_t sign_extend(std::uint32_t value, unsigned bits) {
  const std::uint32_t sign = 1u << (bits - 1);
  return static_cast<std::int64_t>(value ^ sign) - static_cast<std::int64_t>(sign);
}

class Aarch64Decoder {
 public:
  Aarch64Decoder(std::uint32_t word, std::uint64_t pc, const Registers& registers)
      : word_(word), pc_(pc), registers_(registers) {}

  Decoded run() {
    if (is_trap()) {
      result_.feature = "trap";
      return result_;
    }
    const std::uint32_t group = bits(25, 4);
    if (group == 0 && bits(31, 1)) result_.feature = "SME";
    if (group == 2) result_.feature = "SVE";
    if ((group & 5) == 4) load_or_store();
    // dc zva, Xt: zeroes a block of memory (memset in glibc).
    if ((word_ & 0xffffffe0) == 0xd50b7420) base_only(bits(0, 5), kWrites, false);
    return result_;
  }

 private:
  std::uint32_t bits(unsigned at, unsigned count) const {
    return (word_ >> at) & ((1u << count) - 1);
  }
  bool matches(std::uint32_t mask, std::uint32_t value) const { return (word_ & mask) == value; }

  // brk, hlt and udf with a number that says who put it there: gcc's __builtin_trap is brk #1000,
  // clang's brk #1. `udf #0` is what zeroed memory reads as, `brk #0` what debuggers insert, and
  // `brk #0xf000` a breakpoint in the source (__builtin_debugtrap).
  bool is_trap() const {
    constexpr std::uint32_t kBreakHere = 0xf000;
    if ((word_ & 0xffff0000) == 0) return word_ != 0;
    const std::uint32_t number = bits(5, 16);
    if (matches(0xffe0001f, 0xd4200000)) return number != 0 && number != kBreakHere;
    return matches(0xffe0001f, 0xd4400000);
  }

  std::uint64_t base_value(unsigned number) const { return registers_.values[number]; }
  static std::string base_name(unsigned number) {
    return std::string(kRegisterNamesAarch64[number]);
  }

  void add(unsigned base, std::int64_t offset, std::string_view access) {
    result_.operands.push_back({with_displacement(base_name(base), offset),
                                base_value(base) + static_cast<std::uint64_t>(offset), access});
  }
  // Register 31 is the stack pointer as a base, and zero elsewhere.
  void base_only(unsigned base, std::string_view access, bool as_base = true) {
    if (!as_base && base == kStackPointer) return;
    add(base, 0, access);
  }

  // Of the single-register forms: bit 26 tells vector registers, bits 23:22 the operation.
  bool is_prefetch() const { return !bits(26, 1) && bits(30, 2) == 3 && bits(22, 2) == 2; }
  std::string_view single_access() const {
    if (bits(26, 1)) return bits(22, 1) ? kReads : kWrites;
    return bits(22, 2) == 0 ? kWrites : kReads;
  }
  unsigned single_scale() const { return bits(26, 1) && bits(23, 1) ? 4 : bits(30, 2); }

  void load_or_store() {
    const unsigned base = bits(5, 5);
    if (matches(0x3b000000, 0x39000000)) {
      if (is_prefetch()) return;
      add(base, static_cast<std::int64_t>(bits(10, 12)) << single_scale(), single_access());
    } else if (matches(0x3b200000, 0x38000000)) {
      if (is_prefetch()) return;
      const bool is_post = bits(10, 2) == 1;
      add(base, is_post ? 0 : sign_extend(bits(12, 9), 9), single_access());
    } else if (matches(0x3b200c00, 0x38200800)) {
      if (!is_prefetch()) register_offset(base);
    } else if (matches(0x3a000000, 0x28000000)) {
      pair(base);
    } else if (matches(0x3b000000, 0x18000000)) {
      literal();
    } else if (matches(0x3f000000, 0x08000000)) {
      exclusive(base);
    } else if (matches(0x3f200c00, 0x38200000)) {
      // ldapr is the one that only reads.
      const bool only_reads = bits(15, 1) && bits(12, 3) == 4;
      result_.feature = only_reads ? std::string_view{} : "LSE";
      base_only(base, only_reads ? kReads : kWrites);
    } else if (matches(0xbfbf0000, 0x0c000000) || matches(0xbfa00000, 0x0c800000) ||
               matches(0xbf9f0000, 0x0d000000) || matches(0xbf800000, 0x0d800000)) {
      base_only(base, bits(22, 1) ? kReads : kWrites);
    }
  }

  void register_offset(unsigned base) {
    const unsigned index = bits(16, 5), option = bits(13, 3);
    const unsigned shift = bits(12, 1) ? single_scale() : 0;
    std::uint64_t value = index == kStackPointer ? 0 : registers_.values[index];
    std::string text = index == kStackPointer ? "xzr" : base_name(index);
    if (option == 2 || option == 6) {
      text = option == 2 ? "uxtw(w" : "sxtw(w";
      text.append(std::to_string(index)).append(")");
      const auto low = static_cast<std::uint32_t>(value);
      value = option == 2 ? low : static_cast<std::uint64_t>(sign_extend(low, 32));
    } else if (option != 3 && option != 7) {
      return;
    }
    if (shift > 0) text.append("*").append(std::to_string(1u << shift));
    result_.operands.push_back({base_name(base).append("+").append(text),
                                base_value(base) + (value << shift), single_access()});
  }

  void pair(unsigned base) {
    const bool is_vector = bits(26, 1), is_load = bits(22, 1);
    const unsigned opc = bits(30, 2);
    if (opc == 3) return;
    // stgp stores tags too: opc 1 without L, in units of 16 bytes.
    const bool is_tagged = !is_vector && opc == 1 && !is_load;
    if (is_tagged) return;
    const unsigned scale = is_vector ? 2 + opc : opc == 2 ? 3 : 2;
    const bool is_post = bits(23, 2) == 1;
    const std::int64_t offset = sign_extend(bits(15, 7), 7) * (std::int64_t{1} << scale);
    add(base, is_post ? 0 : offset, is_load ? kReads : kWrites);
  }

  void literal() {
    if (!bits(26, 1) && bits(30, 2) == 3) return;  // prfm
    const std::int64_t offset = sign_extend(bits(5, 19), 19) * 4;
    result_.operands.push_back(
        {with_displacement("pc", offset), pc_ + static_cast<std::uint64_t>(offset), kReads});
  }

  void exclusive(unsigned base) {
    const bool is_compare_and_swap = bits(21, 1) && (bits(23, 1) || !bits(31, 1));
    if (is_compare_and_swap) {
      result_.feature = "LSE";
      base_only(base, kWrites);
      return;
    }
    base_only(base, bits(22, 1) ? kReads : kWrites);
  }

  std::uint32_t word_;
  std::uint64_t pc_;
  const Registers& registers_;
  Decoded result_;
};

}  // namespace

Decoded decode_aarch64(Bytes code, std::uint64_t pc, const Registers& registers) {
  const auto word = load<std::uint32_t>(code, 0);
  if (!word) return {};
  return Aarch64Decoder(*word, pc, registers).run();
}

}  // namespace pm::elfcore
