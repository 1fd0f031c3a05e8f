// C++ names in source form.
#pragma once

#include <string>
#include <string_view>

namespace pm {

// The demangled name (Itanium C++ ABI, and what libstdc++ knows of it); the name itself when it is
// not mangled or too long to be worth the risk: a crafted name grows exponentially.
std::string demangle(std::string_view name);

}  // namespace pm
