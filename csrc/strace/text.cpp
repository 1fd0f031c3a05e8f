#include "strace/text.h"

namespace pm::strace {

std::int64_t read_number(const char*& at, const char* end) noexcept {
  const char* p = at;
  const bool negative = p < end && *p == '-';
  if (negative) ++p;
  const char* const first = p;
  std::uint64_t value = 0;
  if (end - p > 2 && p[0] == '0' && p[1] == 'x') {
    p += 2;
    for (; p < end; ++p) {
      const char c = *p;
      unsigned digit;
      if (is_digit(c)) {
        digit = static_cast<unsigned>(c - '0');
      } else if (c >= 'a' && c <= 'f') {
        digit = static_cast<unsigned>(c - 'a') + 10;
      } else {
        break;
      }
      value = value * 16 + digit;
    }
  } else {
    const unsigned base = p < end && *p == '0' ? 8 : 10;
    for (; p < end && is_digit(*p); ++p) value = value * base + static_cast<unsigned>(*p - '0');
  }
  if (p == first) return 0;
  at = p;
  return static_cast<std::int64_t>(negative ? 0 - value : value);
}

bool read_digits(const char*& at, const char* end, std::uint64_t& value) noexcept {
  const char* p = at;
  value = 0;
  while (p < end && is_digit(*p) && p - at < 20) {
    value = value * 10 + static_cast<unsigned>(*p - '0');
    ++p;
  }
  if (p == at || p - at > 19) return false;
  at = p;
  return true;
}

void strip_colors(std::string_view line, std::string& out) {
  out.clear();
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\x1b') {
      out.push_back(line[i]);
      continue;
    }
    if (i + 1 >= line.size() || line[i + 1] != '[') continue;
    i += 2;
    while (i < line.size() && (is_digit(line[i]) || line[i] == ';')) ++i;
  }
}

}  // namespace pm::strace
