#include "ranklogs/clean.h"

#include <algorithm>
#include <charconv>

namespace pm::ranklogs {
namespace {

bool is_control(char c) noexcept {
  const auto byte = static_cast<unsigned char>(c);
  return (byte < 0x20 && c != '\t' && c != '\r') || byte == 0x7f;
}

// The end of the escape sequence that begins at `at`.
std::size_t after_escape(std::string_view line, std::size_t at) noexcept {
  if (++at >= line.size()) return line.size();
  if (line[at] == '[') {
    for (++at; at < line.size(); ++at) {
      if (line[at] >= 0x40 && line[at] <= 0x7e) return at + 1;
      if (line[at] < 0x20) return at;
    }
    return line.size();
  }
  if (line[at] == ']') {  // ends with BEL or ESC backslash
    for (++at; at < line.size(); ++at) {
      if (line[at] == '\a') return at + 1;
      if (line[at] == 0x1b) return std::min(at + 2, line.size());
    }
    return line.size();
  }
  const bool names_set = line[at] == '(' || line[at] == ')';  // of characters: `tput sgr0`
  return std::min(at + 1 + std::size_t{names_set}, line.size());
}

}  // namespace

std::string_view without_controls(std::string_view line, std::string& to) {
  if (std::none_of(line.begin(), line.end(), is_control)) return line;
  to.clear();
  for (std::size_t at = 0; at < line.size();) {
    if (line[at] == 0x1b) {
      at = after_escape(line, at);
    } else {
      if (!is_control(line[at])) to += line[at];
      ++at;
    }
  }
  return to;
}

bool out_of_docker(std::string_view line, std::string& text) {
  text.clear();
  std::size_t at = kDockerHead.size();
  for (; at < line.size() && line[at] != '"'; ++at) {
    if (line[at] != '\\') {
      text += line[at];
      continue;
    }
    if (++at >= line.size()) return false;
    switch (line[at]) {
      case 'n':
        text += '\n';
        break;
      case 't':
        text += '\t';
        break;
      case 'r':
        text += '\r';
        break;
      case 'u': {
        unsigned value = 0;
        const auto* const first = line.data() + at + 1;
        if (line.size() - at < 5 || std::from_chars(first, first + 4, value, 16).ptr != first + 4) {
          return false;
        }
        // Go escapes < > & and controls so; what else is above ASCII is left as a mark.
        text += value < 0x80 ? static_cast<char>(value) : '?';
        at += 4;
        break;
      }
      default:
        text += line[at];
    }
  }
  if (!line.substr(std::min(at, line.size())).starts_with("\",\"")) return false;
  while (text.ends_with('\n') || text.ends_with('\r')) text.pop_back();
  return true;
}

// Its end has brackets around times: "| 31/310 [00:52<50:17,  4.95s/it]".
std::size_t bar_size(std::string_view text) noexcept {
  const auto is_time = [](char c) { return is_digit(c) || c == ':' || c == '?'; };
  for (std::size_t at = text.find('<'); at != std::string_view::npos; at = text.find('<', at + 1)) {
    std::size_t from = at;
    while (from && is_time(text[from - 1])) --from;
    std::size_t to = at + 1;
    while (to < text.size() && is_time(text[to])) ++to;
    if (from < 2 || from == at || to == at + 1 || text.substr(from - 2, 2) != " [" ||
        text.substr(to, 1) != ",") {
      continue;
    }
    std::size_t open = 1;
    while (++to < text.size() && open) {
      open += text[to] == '[';
      open -= text[to] == ']';
    }
    return open || text.find_first_not_of(" \t", to) == std::string_view::npos ? 0 : to;
  }
  return 0;
}

std::string_view without_count(std::string_view text) noexcept {
  if (!text.ends_with("x across cluster]")) return text;
  const std::size_t at = text.rfind(" [repeated ");
  return at == std::string_view::npos ? text : text.substr(0, at);
}

// No early exit, and sums of bytes: a compiler makes vectors of it, and most lines have none.
std::string_view without_mark(std::string_view text) noexcept {
  for (const std::string_view mark : {"\xef\xbb\xbf", "\xff\xfe", "\xfe\xff"}) {
    if (text.starts_with(mark)) return text.substr(mark.size());
  }
  return text;
}

bool has_controls(std::string_view line) noexcept {
  unsigned char seen = 0;
  for (const char c : line) {
    const auto byte = static_cast<unsigned char>(c);
    seen |= static_cast<unsigned char>((byte < 0x20) | (byte == 0x7f));
  }
  return seen != 0;
}

bool is_binary(std::string_view line) noexcept {
  return std::any_of(line.begin(), line.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x07 || (byte >= 0x0e && byte < 0x1b) || (byte > 0x1b && byte < 0x20);
  });
}

}  // namespace pm::ranklogs
