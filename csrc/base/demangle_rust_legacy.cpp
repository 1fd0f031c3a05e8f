#include <array>
#include <utility>

#include "base/demangle_rust.h"

namespace pm::rust {
namespace {

constexpr std::size_t kHash = 20;  // "17h" and 16 digits, then "E"

// "$LT$" and the like (rustc_symbol_mangling/src/legacy.rs).
constexpr std::array<std::pair<std::string_view, char>, 8> kEscapes{{{"SP", '@'},
                                                                     {"BP", '*'},
                                                                     {"RF", '&'},
                                                                     {"LT", '<'},
                                                                     {"GT", '>'},
                                                                     {"LP", '('},
                                                                     {"RP", ')'},
                                                                     {"C", ','}}};

std::optional<char> escaped(std::string_view code) {
  for (const auto& [name, c] : kEscapes) {
    if (name == code) return c;
  }
  if (code.size() < 2 || code.size() > 3 || code[0] != 'u') return std::nullopt;
  unsigned value = 0;
  for (const char c : code.substr(1)) {
    if (!is_lower_hex(c)) return std::nullopt;
    value = value * 16 + hex_value(c);
  }
  if (value < 0x20 || value > 0x7e) return std::nullopt;
  return static_cast<char>(value);
}

void add_legacy_part(std::string_view part, std::string& out) {
  if (part.starts_with("_$")) part.remove_prefix(1);
  while (!part.empty()) {
    const std::size_t end = part[0] == '$' ? part.find('$', 1) : std::string_view::npos;
    if (end != std::string_view::npos) {
      if (const auto c = escaped(part.substr(1, end - 1))) {
        out += *c;
        part.remove_prefix(end + 1);
        continue;
      }
    }
    if (part.starts_with("..")) {
      out += "::";
      part.remove_prefix(2);
      continue;
    }
    out += part[0];
    part.remove_prefix(1);
  }
}

// "h" and 16 digits; real hashes have at least five different ones.
bool is_hash(std::string_view text) {
  if (text.size() != 17 || text[0] != 'h') return false;
  unsigned seen = 0;
  for (const char c : text.substr(1)) {
    if (!is_lower_hex(c)) return false;
    seen |= 1u << hex_value(c);
  }
  int different = 0;
  for (; seen != 0; seen &= seen - 1) ++different;
  return different >= 5;
}

}  // namespace

std::optional<std::string> demangle_legacy(std::string_view name) {
  if (!name.starts_with("_ZN") || name.size() <= 3 + kHash) return std::nullopt;
  name.remove_prefix(3);  // "_ZN"
  std::string out;
  while (!name.empty() && is_digit(name[0])) {
    std::size_t size = 0, digits = 0;
    for (; digits < name.size() && digits < 5 && is_digit(name[digits]); ++digits) {
      size = size * 10 + static_cast<std::size_t>(name[digits] - '0');
    }
    name.remove_prefix(digits);
    if (size == 0 || size >= name.size()) return std::nullopt;
    const std::string_view part = name.substr(0, size);
    name.remove_prefix(size);
    // Behind the hash: the end, then at most a clone's suffix (".llvm.123").
    if (is_hash(part) && name[0] == 'E' && (name.size() == 1 || name[1] == '.')) {
      return out.empty() ? std::nullopt : std::optional(out);
    }
    if (!out.empty()) out += "::";
    add_legacy_part(part, out);
  }
  return std::nullopt;
}

}  // namespace pm::rust
