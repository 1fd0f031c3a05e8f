// The syntax of signatures: what of regular expressions is taken, as a tree.
//
//   text        every byte but  . ^ $ * + ? ( ) [ ] { } | \  stands for itself; `\` takes its
//   meaning
//               from any punctuation
//   classes     .  [a-z_]  [^)]  \d \D \w \W \s \S (ASCII)  \t  \xHH
//   repeats     *  +  ?  {3}  {2,}  {2,5}  {,5}, and with a `?` behind them the fewest first
//   groups      (...)  (?:...)  (?P<name>...)
//   choices     first|second : the first that fits, as in Perl and Python
//   anchors     ^  $  (of the line)  \b  \B
//
// It means what Python's `re` means by it for bytes. What could take unbounded time or is rarely
// meant is refused: back references, looking around, a repeat of what may be empty.
#pragma once

#include <bitset>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace pm::signatures {

// A pattern that cannot be compiled; `at` is the byte where it shows.
class PatternError : public std::invalid_argument {
 public:
  PatternError(const std::string& what, std::size_t at)
      : std::invalid_argument(what + " at byte " + std::to_string(at)) {}
};

using ByteSet = std::bitset<256>;

inline constexpr std::uint32_t kUnbounded = UINT32_MAX;
inline constexpr std::uint32_t kMostRepeats = 1000;

enum class NodeKind : std::uint8_t { kEmpty, kBytes, kSequence, kChoice, kRepeat, kGroup, kAnchor };
enum class Anchor : std::uint8_t { kLineBegin, kLineEnd, kWordBorder, kNoWordBorder };

struct Node {
  NodeKind kind = NodeKind::kEmpty;
  Anchor anchor = Anchor::kLineBegin;
  bool greedy = true;
  std::uint32_t least = 0;  // of a repeat
  std::uint32_t most = 0;   // of a repeat, or kUnbounded
  std::uint32_t group = 0;  // number of a group, from 1
  ByteSet bytes;            // what one byte may be
  std::vector<Node> parts;  // of a sequence, a choice, a repeat (one), a group (one)
};

struct Syntax {
  Node root;
  std::vector<std::string> groups;  // their names, empty where they have none
};

// Throws PatternError.
Syntax parse(std::string_view pattern);

// Whether the tree may match no byte at all.
bool may_be_empty(const Node& node);

// The letters, digits and the underscore of ASCII.
bool is_word(unsigned char byte);

}  // namespace pm::signatures
