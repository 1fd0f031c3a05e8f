// All signatures over any text: a filter over every byte, the full pattern on the lines that pass.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/literal_filter.h"
#include "signatures/literals.h"
#include "signatures/program.h"

namespace pm::signatures {

struct Capture {
  std::uint32_t group;  // number, from 1
  std::uint64_t begin;
  std::uint64_t end;
};

// One signature in one line; offsets are those of the data.
struct Hit {
  std::uint32_t signature;
  std::uint64_t begin;  // of the match
  std::uint64_t end;
  std::uint64_t
      text_begin;  // of the line without its end, or of the piece of it that was looked at
  std::uint64_t text_end;
  std::uint64_t line;  // number of the line in the data, from 0
  std::vector<Capture> captures;
};

struct Found {
  std::vector<Hit> hits;              // by line, then by signature
  std::vector<std::uint64_t> counts;  // lines of each signature, also those without a Hit
  std::uint64_t line_ends = 0;        // in the data
};

struct LineHit {
  std::uint32_t line;
  std::uint32_t signature;
  std::vector<Capture> captures;  // offsets in that line
};

class Scanner {
 public:
  // Throws PatternError for a pattern that cannot be compiled, or has no text of four bytes that
  // every match contains.
  explicit Scanner(const std::vector<std::string>& patterns);

  // Every signature in every line of `data`, at most `each` hits of one signature.
  Found scan(std::string_view data, std::uint64_t each) const;

  // Which signatures stand in which of the pieces [begins[i], ends[i]) of `data`, each a line.
  // Pieces that do not lie in the data have none.
  std::vector<LineHit> scan_lines(std::string_view data, std::span<const std::int64_t> begins,
                                  std::span<const std::int64_t> ends) const;

  std::size_t size() const { return signatures_.size(); }
  const std::vector<std::string>& groups(std::uint32_t signature) const {
    return signatures_[signature].groups;
  }
  const std::vector<std::string>& literals(std::uint32_t signature) const {
    return signatures_[signature].literals.any_of;
  }

 private:
  struct Signature {
    std::vector<std::string> groups;
    Literals literals;
    Program program;
  };
  class Pass;

  std::vector<Signature> signatures_;
  std::unique_ptr<LiteralFilter> filter_;
  std::vector<std::vector<std::uint32_t>> users_;  // of each text of the filter
};

}  // namespace pm::signatures
