#include "strace/output.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace pm::strace {
namespace {

// Bytes of the UTF-8 sequence at the start of `text` (RFC 3629), or 0 if it is none.
std::size_t sequence(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xc2 && first < 0xe0   ? 2
                             : first >= 0xe0 && first < 0xf0 ? 3
                             : first >= 0xf0 && first < 0xf5 ? 4
                                                             : 0;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  const unsigned second = byte(1);
  if (first == 0xe0 && second < 0xa0) return 0;
  if (first == 0xed && second >= 0xa0) return 0;  // surrogates
  if (first == 0xf0 && second < 0x90) return 0;
  if (first == 0xf4 && second >= 0x90) return 0;
  return length;
}

// Whether all of a text is printable ASCII, and none of it is what a format must escape.
bool is_plain(std::string_view text) noexcept {
  unsigned odd = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    odd |= static_cast<unsigned>(byte - 0x20U > 0x5eU) | (byte == '"') | (byte == '\\') |
           (byte == ',');
  }
  return odd == 0;
}

void append_hex(std::string& out, std::string_view before, unsigned char byte) {
  constexpr char kDigits[] = "0123456789abcdef";
  out += before;
  out.push_back(kDigits[byte >> 4]);
  out.push_back(kDigits[byte & 15]);
}

// Appends text as valid UTF-8. A control character is written as `control` and two digits; a byte
// that is no character as \xNN, with `before` in front of the backslash.
void append_valid(std::string& out, std::string_view text, std::string_view control,
                  std::string_view before = {}) {
  while (!text.empty()) {
    const std::size_t length = sequence(text);
    if (length == 0) {
      out += before;
      append_hex(out, "\\x", static_cast<unsigned char>(text[0]));
      text.remove_prefix(1);
      continue;
    }
    // C0 and DEL, and C1, which is U+0080 to U+009F: a terminal obeys them.
    const auto last = static_cast<unsigned char>(text[length - 1]);
    const bool c1 = length == 2 && static_cast<unsigned char>(text[0]) == 0xc2 && last < 0xa0;
    if ((length == 1 && (last < 0x20 || last == 0x7f)) || c1) {
      append_hex(out, control, last);
    } else {
      out.append(text.substr(0, length));
    }
    text.remove_prefix(length);
  }
}

}  // namespace

WriteError::WriteError(int code) : std::runtime_error(std::strerror(code)), code_(code) {}

void OutputFile::flush() {
  const char* at = buffer_.data();
  std::size_t left = buffer_.size();
  while (left) {
    const ssize_t written = ::write(descriptor_, at, left);
    if (written < 0) {
      if (errno == EINTR) continue;
      buffer_.clear();
      throw WriteError(errno);
    }
    at += written;
    left -= static_cast<std::size_t>(written);
  }
  buffer_.clear();
}

void append_printable(std::string& out, std::string_view text) { append_valid(out, text, "\\x"); }

void append_json_string(std::string& out, std::string_view text) {
  out.push_back('"');
  if (is_plain(text)) {
    out.append(text).push_back('"');
    return;
  }
  std::string escaped;
  for (const char c : text) {
    if (c == '"' || c == '\\') escaped.push_back('\\');
    escaped.push_back(c);
  }
  append_valid(out, escaped, "\\u00", "\\");
  out.push_back('"');
}

// RFC 4180. A spreadsheet takes what begins with = + - @ for a formula; paths and names do not.
void append_csv_field(std::string& out, std::string_view text) {
  if (is_plain(text)) {
    out.append(text);
    return;
  }
  std::string plain;
  append_printable(plain, text);
  const bool quoted = plain.find_first_of(",\"") != std::string::npos;
  if (quoted) out.push_back('"');
  for (const char c : plain) {
    if (c == '"') out.push_back('"');
    out.push_back(c);
  }
  if (quoted) out.push_back('"');
}

}  // namespace pm::strace
