#include "ranklogs/clean.h"

#include <algorithm>

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
  return at + 1;
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

}  // namespace pm::ranklogs
