// Which texts a pattern cannot do without: what a filter can look for over every byte.
#pragma once

#include <string>
#include <vector>

#include "signatures/syntax.h"

namespace pm::signatures {

struct Literals {
  std::vector<std::string> any_of;  // every match contains one of them; empty: none is known
  bool exact = false;               // and each of them, wherever it stands, is a match
};

Literals required_literals(const Syntax& syntax);

}  // namespace pm::signatures
