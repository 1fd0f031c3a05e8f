// Rust's names in source form.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace pm {

// The name as Rust programmers write it, without the hashes of crates; nothing when it is not a
// Rust name. v0 ("_R…") follows RFC 2603; legacy names ("_ZN…17h<16 hex digits>E") look like C++.
std::optional<std::string> demangle_rust(std::string_view name);
namespace rust {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_lower_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f'); }
constexpr unsigned hex_value(char c) {
  return static_cast<unsigned>(is_digit(c) ? c - '0' : c - 'a' + 10);
}

// The legacy names alone.
std::optional<std::string> demangle_legacy(std::string_view name);

}  // namespace rust

}  // namespace pm
