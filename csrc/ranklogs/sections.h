// Whose a line without a prefix is, where lines above it tell: the part of a launcher's output that
// repeats one rank's, the file that tail shows, the record that a logger began.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ranklogs/prefix.h"

namespace pm::ranklogs {

class Sections {
 public:
  // Takes every line's text, without its prefix; true where it begins or ends a section.
  bool take(std::string_view text);

  // The section that the line at hand is in, as a prefix of no bytes; nothing in none.
  const Prefix& here() const noexcept { return here_; }

 private:
  Prefix here_;
  std::string name_;
};

}  // namespace pm::ranklogs
