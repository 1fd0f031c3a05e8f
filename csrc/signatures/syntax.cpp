#include "signatures/syntax.h"

#include <algorithm>
#include <optional>

namespace pm::signatures {
namespace {

constexpr std::size_t kMostDepth = 40;
constexpr std::size_t kMostGroups = 32;
constexpr std::size_t kMostBytes = 4096;

bool is_digit(unsigned char byte) { return byte >= '0' && byte <= '9'; }
bool is_space(unsigned char byte) {
  return byte == ' ' || (byte >= '\t' && byte <= '\r');  // \t \n \v \f \r
}

int hex_value(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
  return -1;
}

ByteSet set_where(bool (*holds)(unsigned char), bool wanted) {
  ByteSet set;
  for (unsigned value = 0; value < 256; ++value) {
    if (holds(static_cast<unsigned char>(value)) == wanted) set.set(value);
  }
  return set;
}

// The set that a letter behind a backslash stands for.
std::optional<ByteSet> class_of(char letter) {
  switch (letter) {
    case 'd':
      return set_where(is_digit, true);
    case 'D':
      return set_where(is_digit, false);
    case 'w':
      return set_where(is_word, true);
    case 'W':
      return set_where(is_word, false);
    case 's':
      return set_where(is_space, true);
    case 'S':
      return set_where(is_space, false);
    default:
      return std::nullopt;
  }
}

Node bytes_node(const ByteSet& set) {
  Node node;
  node.kind = NodeKind::kBytes;
  node.bytes = set;
  return node;
}

Node byte_node(char value) {
  ByteSet set;
  set.set(static_cast<unsigned char>(value));
  return bytes_node(set);
}

Node anchor_node(Anchor anchor) {
  Node node;
  node.kind = NodeKind::kAnchor;
  node.anchor = anchor;
  return node;
}

class Parser {
 public:
  explicit Parser(std::string_view pattern) : text_(pattern) {
    if (text_.size() > kMostBytes) throw PatternError("a pattern of over 4096 bytes", kMostBytes);
  }

  Syntax whole() {
    Syntax syntax;
    syntax.root = choice(0);
    if (at_ < text_.size()) fail("a closing bracket without its opening one");
    syntax.groups = std::move(groups_);
    return syntax;
  }

 private:
  [[noreturn]] void fail(const char* what) const { throw PatternError(what, at_); }
  bool more() const { return at_ < text_.size(); }
  bool take(char wanted) {
    if (!more() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }
  bool take(std::string_view wanted) {
    if (!text_.substr(at_).starts_with(wanted)) return false;
    at_ += wanted.size();
    return true;
  }
  char next(const char* missing) {
    if (!more()) fail(missing);
    return text_[at_++];
  }

  Node choice(std::size_t depth) {
    if (depth > kMostDepth) fail("brackets nested over 40 deep");
    Node node = sequence(depth);
    if (!more() || text_[at_] != '|') return node;
    Node all;
    all.kind = NodeKind::kChoice;
    all.parts.push_back(std::move(node));
    while (take('|')) all.parts.push_back(sequence(depth));
    return all;
  }

  Node sequence(std::size_t depth) {
    Node all;
    all.kind = NodeKind::kSequence;
    while (more() && text_[at_] != '|' && text_[at_] != ')') {
      all.parts.push_back(repeated(atom(depth)));
    }
    return all;
  }

  Node atom(std::size_t depth) {
    const char byte = next("nothing");
    switch (byte) {
      case '.': {
        ByteSet any = ByteSet{}.set();
        any.reset('\n');
        return bytes_node(any);
      }
      case '^':
        return anchor_node(Anchor::kLineBegin);
      case '$':
        return anchor_node(Anchor::kLineEnd);
      case '[':
        return bytes_node(set());
      case '(':
        return group(depth);
      case '\\':
        return escaped();
      case '*':
      case '+':
      case '?':
        --at_;
        fail("a repeat of nothing");
      case '{':
      case '}':
      case ']':
        --at_;
        fail("a bracket that wants a backslash");
      default:
        return byte_node(byte);
    }
  }

  Node group(std::size_t depth) {
    Node node;
    node.kind = NodeKind::kGroup;
    std::string name;
    const bool counted = !take("?:");
    if (counted) {
      if (take("?P<")) {
        const std::size_t end = text_.find('>', at_);
        if (end == std::string_view::npos) fail("the name of a group without its end");
        name = text_.substr(at_, end - at_);
        if (name.empty() || is_digit(static_cast<unsigned char>(name[0])) ||
            !std::all_of(name.begin(), name.end(),
                         [](char c) { return is_word(static_cast<unsigned char>(c)); })) {
          fail("the name of a group that is no name");
        }
        if (std::find(groups_.begin(), groups_.end(), name) != groups_.end()) {
          fail("the name of an earlier group");
        }
        at_ = end + 1;
      } else if (more() && text_[at_] == '?') {
        fail("a kind of group that signatures do not have");
      }
      if (groups_.size() == kMostGroups) fail("over 32 groups");
      groups_.push_back(name);
      node.group = static_cast<std::uint32_t>(groups_.size());
    }
    Node inner = choice(depth + 1);
    if (!take(')')) fail("a bracket that is not closed");
    if (!counted) return inner;
    node.parts.push_back(std::move(inner));
    return node;
  }

  Node escaped() {
    const char byte = next("a backslash at the end");
    if (const auto set = class_of(byte)) return bytes_node(*set);
    if (byte == 'b') return anchor_node(Anchor::kWordBorder);
    if (byte == 'B') return anchor_node(Anchor::kNoWordBorder);
    return byte_node(plain(byte));
  }

  // The byte that an escape stands for, its letter having been read.
  char plain(char letter) {
    if (letter == 't') return '\t';
    if (letter == 'x') {
      const int high = hex_value(next("an escape without its digits"));
      const int low = hex_value(next("an escape without its digits"));
      if (high < 0 || low < 0) fail("an escape without its digits");
      return static_cast<char>(high * 16 + low);
    }
    if (is_word(static_cast<unsigned char>(letter)) || static_cast<unsigned char>(letter) >= 128) {
      --at_;
      fail("an escape that signatures do not have");
    }
    return letter;
  }

  ByteSet set() {
    ByteSet found;
    const bool without = take('^');
    bool first = true;
    while (true) {
      const char byte = next("a set that is not closed");
      if (byte == ']' && !first) break;
      first = false;
      char low = byte;
      if (byte == '\\') {
        const char letter = next("a backslash at the end");
        if (const auto known = class_of(letter)) {
          found |= *known;
          continue;
        }
        low = plain(letter);
      }
      const bool range = at_ + 1 < text_.size() && text_[at_] == '-' && text_[at_ + 1] != ']';
      char high = low;
      if (range) {
        ++at_;
        high = next("a set that is not closed");
        if (high == '\\') high = plain(next("a backslash at the end"));
      }
      const auto from = static_cast<unsigned char>(low);
      const auto to = static_cast<unsigned char>(high);
      if (from > to) fail("a range that runs backwards");
      for (unsigned value = from; value <= to; ++value) found.set(value);
    }
    if (without) found.flip();
    return found;
  }

  Node repeated(Node inner) {
    std::uint32_t least = 0;
    std::uint32_t most = kUnbounded;
    if (take('*')) {
    } else if (take('+')) {
      least = 1;
    } else if (take('?')) {
      most = 1;
    } else if (more() && text_[at_] == '{') {
      counts(least, most);
    } else {
      return inner;
    }
    if (inner.kind == NodeKind::kAnchor) fail("a repeat of an anchor");
    if (most > 1 && may_be_empty(inner)) fail("a repeat of what may be empty");
    Node node;
    node.kind = NodeKind::kRepeat;
    node.greedy = !take('?');
    if (more() &&
        (text_[at_] == '*' || text_[at_] == '+' || text_[at_] == '?' || text_[at_] == '{')) {
      fail("a repeat of a repeat");
    }
    node.least = least;
    node.most = most;
    node.parts.push_back(std::move(inner));
    return node;
  }

  void counts(std::uint32_t& least, std::uint32_t& most) {
    ++at_;
    const std::optional<std::uint32_t> low = number();
    if (take(',')) {
      const std::optional<std::uint32_t> high = number();
      if (!low && !high) fail("a repeat without its numbers");
      least = low.value_or(0);
      most = high.value_or(kUnbounded);
    } else {
      if (!low) fail("a repeat without its numbers");
      least = most = *low;
    }
    if (!take('}')) fail("a repeat that is not closed");
    if (most < least) fail("a repeat whose numbers run backwards");
  }

  std::optional<std::uint32_t> number() {
    if (!more() || !is_digit(static_cast<unsigned char>(text_[at_]))) return std::nullopt;
    std::uint32_t value = 0;
    while (more() && is_digit(static_cast<unsigned char>(text_[at_]))) {
      value = value * 10 + static_cast<std::uint32_t>(text_[at_++] - '0');
      if (value > kMostRepeats) fail("over 1000 repeats");
    }
    return value;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::vector<std::string> groups_;
};

}  // namespace

bool is_word(unsigned char byte) {
  return is_digit(byte) || byte == '_' || (byte >= 'a' && byte <= 'z') ||
         (byte >= 'A' && byte <= 'Z');
}

Syntax parse(std::string_view pattern) { return Parser(pattern).whole(); }

bool may_be_empty(const Node& node) {
  switch (node.kind) {
    case NodeKind::kEmpty:
    case NodeKind::kAnchor:
      return true;
    case NodeKind::kBytes:
      return false;
    case NodeKind::kSequence:
      return std::all_of(node.parts.begin(), node.parts.end(), may_be_empty);
    case NodeKind::kChoice:
      return std::any_of(node.parts.begin(), node.parts.end(), may_be_empty);
    case NodeKind::kRepeat:
      return node.least == 0 || may_be_empty(node.parts[0]);
    case NodeKind::kGroup:
      return may_be_empty(node.parts[0]);
  }
  return true;
}

}  // namespace pm::signatures
