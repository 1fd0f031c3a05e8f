// What a call returned, as strace writes it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "strace/arguments.h"

namespace pm::strace {

// Whether the `=` at `equals` stands behind a closing bracket and spaces.
inline bool behind_bracket(const char* begin, const char* equals) noexcept {
  const char* p = equals;
  while (p > begin && p[-1] == ' ') --p;
  return p > begin && p[-1] == ')' && p < equals;
}

// What a call returned.
struct Result {
  bool present = false;
  bool known = false;  // false for "?"
  std::int64_t value = 0;
  std::string_view error;       // ENOSPC, ERESTARTSYS
  std::string_view annotation;  // of a returned descriptor
  bool deleted = false;
  bool injected = false;
  bool within = false;       // the error is of what the call brought; the call itself worked
  bool translated = false;   // a pid as strace sees it, by --pidns-translation
  std::string_view note;     // Timeout
  std::string_view seconds;  // of -T
  bool worked() const noexcept { return known && error.empty() && value >= 0; }
  bool interrupted() const noexcept { return !known && !error.empty(); }  // ERESTART…
  bool failed() const noexcept { return known && !error.empty() && (value == -1 || within); }
};

// Reads what stands behind the arguments that start at `arguments`. The quick way goes backwards
// from the end of the line; where that could be mistaken, all arguments are read.
Result read_result(const char* arguments, const char* end, bool exact = false) noexcept;

// A call taken apart: what it was given, each as strace wrote it, and what it returned.
struct CallParts {
  std::vector<std::string> arguments;
  std::optional<std::int64_t> returned;  // nothing where it did not, or nobody saw it
};
CallParts take_apart(std::string_view call);

}  // namespace pm::strace
