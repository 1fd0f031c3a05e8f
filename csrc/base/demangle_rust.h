// Rust's names in source form.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace pm {

// The name as Rust programmers write it, without the hashes of crates; nothing when it is not a
// Rust name. v0 ("_R…") follows RFC 2603; legacy names ("_ZN…17h<16 hex digits>E") look like C++.
std::optional<std::string> demangle_rust(std::string_view name);

}  // namespace pm
