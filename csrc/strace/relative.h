// Stamps of `strace -r`, each the time since the line before, as times since the first line.
#pragma once

#include <cstdint>
#include <string>

#include "strace/blocks.h"

namespace pm::strace {

// A log on its way to the block reader. Where its stamps are those of -r alone they are added up
// and written as a clock of -tt that began at 00:00:00; any other log passes as it is. Right for
// one file of all tasks only: with -ff a stamp counts from the last line of any file.
class RelativeStamps {
 public:
  explicit RelativeStamps(Pull pull) : pull_(std::move(pull)) {}

  std::size_t pull(char* to, std::size_t size);
  // Of the log itself.
  std::uint64_t bytes() const noexcept { return bytes_; }
  bool summed() const noexcept { return kind_ == Kind::relative; }

 private:
  enum class Kind : std::uint8_t { unknown, relative, other };
  void recognise();
  void read_more();
  void rewrite();

  Pull pull_;
  std::string in_;   // read, and not rewritten yet
  std::string out_;  // rewritten, and not taken yet
  std::size_t taken_ = 0;
  std::uint64_t nanoseconds_ = 0;
  std::uint64_t bytes_ = 0;
  Kind kind_ = Kind::unknown;
  bool in_line_ = false;
  bool ended_ = false;
};

}  // namespace pm::strace
