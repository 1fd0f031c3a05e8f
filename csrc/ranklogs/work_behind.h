// Work of a writer behind an error of its own: what it had printed before, and goes on with.
#pragma once

#include <cstdint>

#include "ranklogs/work.h"
#include "ranklogs/writers.h"

namespace pm::ranklogs {

class WorkBehind {
 public:
  WorkBehind(const Options& options, const HeldTexts& texts) : options_(options), texts_(texts) {}

  // An error stands on `line`: what stands right above it is learned, and work is looked for
  // behind.
  void error(Writer& writer, std::uint64_t line);

  // A line that was no sample when it came, and turns out to stand above an error or at the end.
  void look_back(Writer& writer, Held& word);

  // A line away from errors, or still within the region of one, which is nothing to learn from.
  void look_at(Writer& writer, Held& word);

 private:
  const Options& options_;
  const HeldTexts& texts_;
  Forms forms_;
};

}  // namespace pm::ranklogs
