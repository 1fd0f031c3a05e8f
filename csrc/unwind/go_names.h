// The names of functions that Go's run-time keeps for itself: stripped programs have them too.
#pragma once

#include "unwind/symbol_tables.h"

namespace pm::unwind {

class GoNames {
 public:
  explicit GoNames(const elfcore::Image& image);
  // The function at a link-time address; rank 0 where there is none.
  Match find(std::uint64_t address) const noexcept;

 private:
  Bytes table_;  // rows of where functions begin, from there counted the functions' own rows
  Bytes names_;
  std::uint64_t count_ = 0, text_ = 0;
};

}  // namespace pm::unwind
