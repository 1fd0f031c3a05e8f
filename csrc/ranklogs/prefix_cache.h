// Beginnings of lines that were read before: a job's writers repeat theirs on every line.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ranklogs/prefix.h"

namespace pm::ranklogs {

struct CachedPrefix {
  std::string text;  // up to the blank that ends the prefix, with it
  Prefix prefix;     // its views lie in `text`
  std::uint32_t writer = 0;
};

// A table of fixed size, in which a new one takes the place of an older one.
class PrefixCache {
 public:
  // The only prefix that `line` may begin with; nullptr where none is known. Its text is not looked
  // at. Valid until the next change.
  const CachedPrefix* likely(std::string_view line) const noexcept;

  // What Grammar::parse() found in `line`. Only prefixes that end at their first blank are taken:
  // no byte behind them has decided anything.
  void remember(std::string_view line, const Prefix& prefix, std::uint32_t writer);

 private:
  std::vector<std::unique_ptr<CachedPrefix>> slots_;
};

}  // namespace pm::ranklogs
