// Intel SDM volume 2, appendix A, and the CPUID columns of the instruction pages.
#include "elfcore/opcode_x86.h"

#include "elfcore/instruction.h"

namespace pm::elfcore::x86 {
namespace {

constexpr std::string_view kUnknown = {};

}  // namespace

std::string_view Opcode::access() const {
  switch (map) {
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

std::string_view Opcode::access_one_byte() const {
  const unsigned op = code, r = reg;
  if (op < 0x38) return (op & 7) < 2 ? kWrites : kReads;
  if (op < 0x40) return kReads;  // cmp
  if (any_of(op, {0x63, 0x69, 0x6b, 0x84, 0x85, 0x8a, 0x8b, 0x8e})) return kReads;
  if (in(op, 0x80, 0x83)) return r == 7 ? kReads : kWrites;
  if (any_of(op, {0x86, 0x87, 0x88, 0x89, 0x8c, 0x8f, 0xc0, 0xc1, 0xc6, 0xc7}) ||
      in(op, 0xd0, 0xd3)) {
    return kWrites;
  }
  if (op == 0xf6 || op == 0xf7) return r == 2 || r == 3 ? kWrites : kReads;
  if (op == 0xfe || op == 0xff) return r < 2 ? kWrites : kReads;
  switch (op) {  // x87
    case 0xd8:
    case 0xda:
    case 0xdc:
    case 0xde:
      return kReads;
    case 0xd9:
      return any_of(r, {2, 3, 6, 7}) ? kWrites : kReads;
    case 0xdb:
      return any_of(r, {1, 2, 3, 7}) ? kWrites : kReads;
    case 0xdd:
      return any_of(r, {1, 2, 3, 6, 7}) ? kWrites : kReads;
    case 0xdf:
      return any_of(r, {1, 2, 3, 6, 7}) ? kWrites : kReads;
    default:
      return kUnknown;
  }
}

std::string_view Opcode::access_0f() const {
  const unsigned op = code, r = reg;
  if (any_of(op, {0x11, 0x13, 0x17, 0x29, 0x2b, 0x7f, 0xd6, 0xe7})) return kWrites;
  if (op == 0x7e) return prefix == Prefix::f3 ? kReads : kWrites;
  if (form != Form::legacy) {
    if (in(op, 0x41, 0x4f) || in(op, 0x92, 0x9f)) return kUnknown;
    if (op == 0x90) return kReads;   // kmov
    if (op == 0x91) return kWrites;  // kmov
    if (op == 0xae) return r == 2 ? kReads : r == 3 ? kWrites : kUnknown;
    if (op == 0x78 || op == 0x79 || op == 0x7a || op == 0x7b) {
      return form == Form::evex ? kReads : kUnknown;
    }
  } else {
    if (in(op, 0x90, 0x9f)) return kWrites;  // setcc
    if (any_of(op, {0xa4, 0xa5, 0xab, 0xac, 0xad, 0xb0, 0xb1, 0xb3, 0xbb, 0xc0, 0xc1, 0xc3})) {
      return kWrites;
    }
    if (any_of(op, {0xa3, 0xaf, 0xb6, 0xb7, 0xbc, 0xbd, 0xbe, 0xbf}) || in(op, 0x40, 0x4f)) {
      return kReads;
    }
    if (op == 0xb8) return prefix == Prefix::f3 ? kReads : kUnknown;
    if (op == 0xba) return r == 4 ? kReads : r > 4 ? kWrites : kUnknown;
    if (op == 0xc7) return any_of(r, {1, 4, 5}) ? kWrites : r == 3 ? kReads : kUnknown;
    if (op == 0xae) return any_of(r, {0, 3, 4, 6}) ? kWrites : kReads;
  }
  if (any_of(op, {0x10, 0x12, 0x14, 0x15, 0x16, 0x28, 0x2a, 0x2c, 0x2d, 0x2e, 0x2f}) ||
      in(op, 0x51, 0x70) || in(op, 0x74, 0x76) || in(op, 0x7c, 0x7d) ||
      any_of(op, {0xc2, 0xc4, 0xc6}) || in(op, 0xd0, 0xfe)) {
    return kReads;
  }
  return kUnknown;
}

std::string_view Opcode::access_0f38() const {
  const unsigned op = code;
  if (form == Form::legacy) {
    if (op == 0xf1) return prefix == Prefix::f2 ? kReads : kWrites;  // crc32, movbe
    if (op == 0xf9) return kWrites;
    if (in(op, 0xf5, 0xff)) return op == 0xf6 ? kReads : kUnknown;
    if (in(op, 0x80, 0x82)) return kUnknown;
    return kReads;
  }
  if (form == Form::vex) return any_of(op, {0x2e, 0x2f, 0x8e}) ? kWrites : kReads;
  // Down-converting stores and compressing ones.
  if (prefix == Prefix::f3 && (in(op, 0x10, 0x15) || in(op, 0x20, 0x25) || in(op, 0x30, 0x35))) {
    return kWrites;
  }
  return any_of(op, {0x63, 0x8a, 0x8b}) ? kWrites : kReads;
}

std::string_view Opcode::access_0f3a() const {
  const unsigned op = code;
  if (in(op, 0x14, 0x17)) return kWrites;  // extracts
  if (form != Form::legacy && any_of(op, {0x19, 0x1d, 0x39})) return kWrites;
  if (form == Form::evex && any_of(op, {0x1b, 0x3b})) return kWrites;
  return kReads;
}

std::string_view Opcode::feature() const {
  switch (form) {
    case Form::evex:
      return "AVX-512";
    case Form::vex:
      return feature_vex();
    case Form::legacy:
      return feature_legacy();
  }
  return {};
}

std::string_view Opcode::feature_vex() const {
  const unsigned op = code;
  const bool is_wide_vector = length == 32;
  if (map == Map::x0f) {
    if (in(op, 0x41, 0x4b) || in(op, 0x90, 0x93) || op == 0x98 || op == 0x99) return "AVX-512";
    const bool is_integer =
        (in(op, 0x60, 0x6d) || in(op, 0x70, 0x76) || in(op, 0xd1, 0xd5) || op == 0xd7 ||
         in(op, 0xd8, 0xe5) || in(op, 0xe8, 0xef) || in(op, 0xf1, 0xf6) || in(op, 0xf8, 0xfe));
    return is_integer && is_wide_vector ? "AVX2" : "AVX";
  }
  if (map == Map::x0f38) {
    if (any_of(op, {0x49, 0x4b, 0x5c, 0x5e, 0x6c})) return "AMX";
    if (in(op, 0x96, 0x9f) || in(op, 0xa6, 0xaf) || in(op, 0xb6, 0xbf)) return "FMA";
    if (op == 0x13) return "F16C";
    if (op == 0xf2 || op == 0xf3) return "BMI1";
    if (op == 0xf7) return prefix == Prefix::none ? "BMI1" : "BMI2";
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

std::string_view Opcode::feature_legacy() const {
  const unsigned op = code;
  if (map == Map::one_byte) {
    return any_of(op, {0xcc, 0xcd, 0xf1, 0xf4}) ? "trap" : std::string_view{};
  }
  if (map == Map::x0f) {
    if (op == 0x0b) return "trap";  // ud2
    if (op == 0xb8 && prefix == Prefix::f3) return "POPCNT";
    const bool is_sse3 = (op == 0xd0 || op == 0x7c || op == 0x7d || op == 0xf0) &&
                         (prefix == Prefix::f2 || prefix == Prefix::x66);
    return is_sse3 ? "SSE3" : std::string_view{};
  }
  if (map == Map::x0f38) {
    if (op <= 0x0b || in(op, 0x1c, 0x1e)) return "SSSE3";
    if (op == 0x37) return "SSE4.2";
    if (in(op, 0x10, 0x17) || in(op, 0x20, 0x2b) || in(op, 0x30, 0x41)) return "SSE4.1";
    if (in(op, 0xc8, 0xcd)) return "SHA";
    if (in(op, 0xdb, 0xdf) && prefix == Prefix::x66) return "AES-NI";
    if (op == 0xf0 || op == 0xf1) return prefix == Prefix::f2 ? "SSE4.2" : "MOVBE";
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

}  // namespace pm::elfcore::x86
