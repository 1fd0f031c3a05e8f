// Opcodes of x86-64: what they do with their memory operand and which CPUs know them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace pm::elfcore::x86 {

// How instructions number registers.
inline constexpr unsigned kRax = 0, kRsp = 4, kRbp = 5, kRsi = 6, kRdi = 7;

enum class Map : std::uint8_t { one_byte = 0, x0f = 1, x0f38 = 2, x0f3a = 3, other = 255 };
enum class Form : std::uint8_t { legacy, vex, evex };
enum class Prefix : std::uint8_t { none = 0, x66 = 1, f3 = 2, f2 = 3 };

inline bool any_of(unsigned value, std::initializer_list<unsigned> all) {
  for (const unsigned one : all) {
    if (one == value) return true;
  }
  return false;
}
inline bool in(unsigned value, unsigned first, unsigned last) {
  return value >= first && value <= last;
}

struct Opcode {
  Form form = Form::legacy;
  Map map = Map::one_byte;
  Prefix prefix = Prefix::none;
  std::uint8_t code = 0;
  unsigned reg = 0;      // of the ModRM byte: in groups it goes on with the opcode
  unsigned length = 16;  // of vectors, in bytes

  // "read", "write", or nothing when not known.
  std::string_view access() const;
  // See `Decoded`.
  std::string_view feature() const;

 private:
  std::string_view access_one_byte() const;
  std::string_view access_0f() const;
  std::string_view access_0f38() const;
  std::string_view access_0f3a() const;
  std::string_view feature_vex() const;
  std::string_view feature_legacy() const;
};

}  // namespace pm::elfcore::x86
