// C++ and Rust names in source form.
#pragma once

#include <string>
#include <string_view>

namespace pm {

// The demangled name (Itanium C++ ABI and what libstdc++ knows of it, Rust's two encodings); the
// name itself when it is not mangled or would become absurdly long: a crafted name of 270 bytes
// stands for 218 MB.
std::string demangle(std::string_view name);

}  // namespace pm
