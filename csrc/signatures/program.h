// A pattern as a program over bytes, and the machine that runs it in bounded time.
//
// The machine goes back like Perl's, so that its captures are those of Python's `re`, but comes to
// no choice at the same place twice (as RE2's BitState): the time is at most the number of choices
// times the length of the text, whatever the text is.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "signatures/syntax.h"

namespace pm::signatures {

// More of a line than this is not looked at in one piece.
inline constexpr std::size_t kWindowBytes = 8192;

inline constexpr std::uint32_t kNowhere = UINT32_MAX;

struct Span {
  std::uint32_t begin = kNowhere;  // kNowhere: the group has no part in the match
  std::uint32_t end = kNowhere;
};

enum class Op : std::uint8_t { kByte, kSet, kSplit, kJump, kSave, kAnchor, kMatch };

struct Step {
  Op op = Op::kMatch;
  std::uint8_t byte = 0;    // of kByte; of kAnchor which one
  std::uint32_t first = 0;  // where to go on; of kSet which one, of kSave which slot
  std::uint32_t second =
      0;  // of kSplit: where to go on if the first fails; its own number is `split`
  std::uint32_t split = 0;
};

// A piece of a line: `at_begin` and `at_end` say whether it reaches the line's borders.
struct Text {
  std::string_view bytes;
  bool at_begin = true;
  bool at_end = true;
};

// What the machine needs to work with; kept by the caller so that it is not allocated per line.
struct Scratch {
  struct Job {
    std::uint32_t step;  // kNowhere: put `at` back into slot `slot`
    std::uint32_t at;
    std::uint32_t slot;
  };
  std::vector<std::uint64_t> seen;
  std::vector<Job> jobs;
  std::vector<std::uint32_t> slots;
};

class Program {
 public:
  // Throws PatternError when the repeats of the pattern make too long a program.
  explicit Program(const Syntax& syntax);

  // Finds the leftmost match that begins at `from` or behind it; `spans` gets the whole and every
  // group, as many as fit.
  bool search(const Text& text, std::size_t from, Scratch& scratch, std::span<Span> spans) const;

  std::size_t steps() const { return steps_.size(); }

 private:
  std::uint32_t add(Step step);
  void compile(const Node& node);
  void compile_choice(const Node& node);
  void compile_repeat(const Node& node);
  bool run(const Text& text, std::uint32_t start, Scratch& scratch) const;
  static bool holds(Anchor anchor, const Text& text, std::uint32_t at);

  std::vector<Step> steps_;
  std::vector<ByteSet> sets_;
  ByteSet firsts_;       // what a match may begin with; all, if it may be empty
  int only_first_ = -1;  // the byte, if it is only one
  std::uint32_t splits_ = 0;
  std::uint32_t slot_count_ = 2;
};

}  // namespace pm::signatures
