// What the libraries report: an exception for evidence that cannot be read at all, a row for a
// part.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/fields.h"

namespace pm {

// The evidence cannot be analysed. `offset` is where in the file it shows, if anywhere.
class EvidenceError : public std::runtime_error {
 public:
  explicit EvidenceError(const std::string& what, std::optional<std::uint64_t> at = std::nullopt)
      : std::runtime_error(what), offset_(at) {}
  std::optional<std::uint64_t> offset() const noexcept { return offset_; }

 private:
  std::optional<std::uint64_t> offset_;
};

// A part of the evidence could not be read; the rest goes on.
struct Problem {
  std::string where;
  std::string what;
  std::string remedy;  // empty: there is none
};

template <>
inline constexpr auto kFields<Problem> =
    std::tuple(field("where", &Problem::where), field("what", &Problem::what),
               field<Told::or_none>("remedy", &Problem::remedy));

// Problems, bounded: a hostile file must not turn its defects into our memory.
class Problems {
 public:
  void add(std::string where, std::string what, std::string remedy = {}) {
    if (rows_.size() < kLimit) {
      rows_.push_back({std::move(where), std::move(what), std::move(remedy)});
    }
  }
  const std::vector<Problem>& rows() const noexcept { return rows_; }

 private:
  static constexpr std::size_t kLimit = 200;
  std::vector<Problem> rows_;
};

}  // namespace pm
