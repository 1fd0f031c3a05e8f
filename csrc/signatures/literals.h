// Which texts a pattern cannot do without: what a filter can look for over every byte.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "signatures/syntax.h"

namespace pm::signatures {

inline constexpr std::size_t kAnyWidth = SIZE_MAX;

struct Literals {
  std::vector<std::string> any_of;  // every match contains one of them; empty: none is known
  std::size_t lead = kAnyWidth;     // a match begins at most so many bytes before one of them
  bool exact = false;               // and each of them, wherever it stands, is a match
};

Literals required_literals(const Syntax& syntax);

}  // namespace pm::signatures
