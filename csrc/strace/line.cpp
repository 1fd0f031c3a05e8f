#include "strace/line.h"

namespace pm::strace {
namespace {

constexpr std::string_view kUnfinishedMark = "<unfinished ...>";
constexpr std::string_view kDetached = "<detached ...>";

// Behind a number in square brackets (-n, -i, --secontext), or `at` if there is something else.
const char* skip_bracket(const char* at, const char* end) noexcept {
  const char* p = at + 1;
  bool context = false;
  for (; p < end && *p != ']'; ++p) {
    if (*p == ':') context = true;
    const bool number = is_digit(*p) || (*p >= 'a' && *p <= 'f') || *p == '?' || *p == ' ';
    // A context: user_u:role_r:type_t:s0
    if (!number && !is_word(*p) && *p != ':' && *p != '-' && *p != '.' && *p != ',') return at;
    if (!number && !context && p - at > 64) return at;
  }
  if (p >= end || p + 1 >= end || p[1] != ' ') return at;
  if (!context) {
    for (const char* q = at + 1; q < p; ++q) {
      if (!is_digit(*q) && !(*q >= 'a' && *q <= 'f') && *q != '?' && *q != ' ') return at;
    }
  }
  return p + 2;
}

bool is_summary(const char* line, const char* end) noexcept {
  const char* p = line;
  while (p < end && *p == ' ') ++p;
  if (starts(p, end, "% time") || starts(p, end, "------ ---") || starts(p, end, "syscalls ")) {
    return true;
  }
  unsigned columns = 0;  // 37.93    0.001094         364         3         1 wait4
  while (p < end) {
    const char* const word = p;
    bool digits = true;
    for (; p < end && *p != ' '; ++p) digits &= is_digit(*p) || *p == '.';
    if (!digits) {
      if (columns < 3) return false;
      for (const char* q = word; q < end; ++q) {
        if (!is_word(*q)) return false;
      }
      return true;
    }
    ++columns;
    while (p < end && *p == ' ') ++p;
  }
  return false;
}

// What strace says itself, behind the name by which it was called: `/opt/bin/strace: Process 7
// attached`.
bool is_own_word(const char* body, const char* end) noexcept {
  const char* p = body;
  const char* name = body;
  while (p < end && is_name_of_program(*p)) {
    if (*p == '/') name = p + 1;
    ++p;
  }
  return starts(name, end, "strace") && starts(p, end, ": ");
}

Shape other_shape(const char* line, const char* end, const char* body) noexcept {
  const auto at = [&](std::string_view word) { return starts(body, end, word); };
  if (at("+++ ") && ends(body, end, " +++")) return Shape::exit;
  if (at("--- ") && ends(body, end, " ---")) return Shape::signal;
  if (at("[ Process PID=") || at("[ Needs ")) return Shape::notice;
  if (at("???")) return Shape::notice;  // ???() = ?: the task died before its call could be read
  if (is_own_word(body, end)) return Shape::diagnostic;
  if (starts(line, end, " > ") || at("> ")) return Shape::trace;
  if (starts(line, end, " | ")) return Shape::dump;
  // -e read= and -e write= of readv(), writev() and their likes: ` * 4096 bytes in buffer 0`.
  if (starts(line, end, " * ") && contains(view(line, end), " bytes in buffer ")) {
    return Shape::dump;
  }
  if (at(")") || at(", ") || at(kUnfinishedMark) || at(kDetached) || at("=> ")) return Shape::rest;
  if (is_summary(line, end)) return Shape::summary;
  return Shape::text;
}

}  // namespace

Leader read_leader(const char* line, const char* end) noexcept {
  Leader leader;
  const char* p = line;
  if (p < end && *p == '>') {  // quoted, as mail does
    ++p;
    while (p < end && *p == ' ') ++p;
  }
  if (starts(p, end, "[pid ")) {
    p += 5;
    while (p < end && *p == ' ') ++p;
    std::uint64_t pid = 0;
    read_digits(p, end, pid);
    const char* const close = find(p, end, ']');
    leader.pid = static_cast<std::uint32_t>(pid);
    leader.has_pid = leader.bracketed = true;
    p = close < end ? close + 1 : end;
    while (p < end && *p == ' ') ++p;
  } else if (p < end && is_digit(*p)) {
    std::uint32_t value = 0;
    const char* q = p;
    // 7 digits are the most that a pid has (PID_MAX_LIMIT, 4194304); more are an epoch of -ttt.
    while (is_digit(*q) && q - p < 8) value = value * 10 + static_cast<unsigned>(*q++ - '0');
    if (q - p < 8 && q < end && (*q == ' ' || *q == '<')) {
      leader.pid = value;
      leader.has_pid = true;
      if (*q == '<') q = find(q, end, '>') + 1;  // --decode-pids=comm
      p = q < end ? q : end;
    }
  }
  while (p < end && *p == ' ') ++p;
  if (p < end && *p == '[') {
    const char* const behind = skip_bracket(p, end);
    if (behind != p && contains(view(p, behind), ":")) p = behind;  // a security context
  }
  for (unsigned stamps = 0; stamps < 2 && p < end && is_digit(*p); ++stamps) {
    const unsigned length = find_in_32(p, ' ');
    if (length >= 32 || p + length >= end) break;
    const std::string_view word = view(p, p + length);
    if (p[2] == ':') {
      leader.time = word;
    } else if (length >= 8) {
      // An epoch has ten digits; what is shorter is the time since the line before, of -r.
      const std::size_t dot = word.find('.');
      (dot < 9 ? leader.relative : leader.time) = word;
    } else {
      break;
    }
    p += length;
    while (p < end && *p == ' ') ++p;
  }
  if (p + 1 < end && *p == '(' && p[1] == '+') {
    const char* const close = find(p, end, ')');
    leader.relative = view(p + 2, close);
    p = close < end ? close + 1 : end;
    while (p < end && *p == ' ') ++p;
  }
  while (p < end && *p == '[') {
    const char* const behind = skip_bracket(p, end);
    if (behind == p) break;
    p = behind;
  }
  leader.body = p;
  return leader;
}

Line read_line(const char* line, const char* end) noexcept {
  Line read;
  if (end > line && end[-1] == '\r') --end;
  read.end = end;
  read.leader = read_leader(line, end);
  const char* const body = read.leader.body;
  if (body >= end) {
    read.shape = line == end ? Shape::empty : Shape::text;
    return read;
  }
  if (*body == '<' && starts(body, end, "<... ")) {
    const char* const name = body + 5;
    const char* p = name;
    while (p < end && is_word(*p)) ++p;
    if (!starts(p, end, " resumed>")) {
      read.shape = Shape::text;
      return read;
    }
    read.name = view(name, p);
    read.arguments = p + 9;
    read.shape = Shape::resumed;
    if (starts(read.arguments, end, " <unfinished ...>)")) read.shape = Shape::dead;
    return read;
  }
  if (is_word(*body) && !is_digit(*body)) {
    const unsigned length = find_in_32(body, '(');
    bool word = length < 32 && body + length < end;
    for (unsigned i = 0; word && i < length; ++i) word = is_word(body[i]);
    if (word) {
      read.name = view(body, body + length);
      read.arguments = body + length + 1;
      read.shape = Shape::call;
      if (ends(read.arguments, end, kUnfinishedMark)) {
        read.shape = Shape::entry;
        read.end = end - kUnfinishedMark.size();
      } else if (ends(read.arguments, end, kDetached)) {
        read.shape = Shape::detached;
        read.end = end - kDetached.size();
      }
      if (read.end != end && read.end > read.arguments && read.end[-1] == ' ') --read.end;
      return read;
    }
  }
  read.shape = other_shape(line, end, body);
  return read;
}

double seconds_of(std::string_view time) noexcept {
  const char* p = time.data();
  const char* const end = p + time.size();
  std::uint64_t whole = 0;
  if (time.empty() || !read_digits(p, end, whole)) return -1;
  for (unsigned part = 0; part < 2 && p < end && *p == ':'; ++part) {
    std::uint64_t more = 0;
    if (!read_digits(++p, end, more)) return -1;
    whole = whole * 60 + more;
  }
  auto seconds = static_cast<double>(whole);
  if (p < end && *p == '.') {
    const char* const first = ++p;
    std::uint64_t fraction = 0;
    if (!read_digits(p, end, fraction)) return seconds;
    double scale = 1;
    for (const char* q = first; q < p; ++q) scale *= 10;
    seconds += static_cast<double>(fraction) / scale;
  }
  return seconds;
}

std::uint64_t nanoseconds_between(double from, double to) noexcept {
  constexpr double kSecondsOfDay = 86'400;
  if (to < from - kSecondsOfDay / 2 && from <= kSecondsOfDay) to += kSecondsOfDay;
  const double seconds = to - from;
  return seconds > 0 && seconds < 1e9 ? static_cast<std::uint64_t>(seconds * 1e9) : 0;
}

double time_of(const char* line, const char* end) {
  constexpr std::size_t kEnoughOfLeader = 128;
  char padded[kEnoughOfLeader + kPadding];
  const std::size_t size = std::min(kEnoughOfLeader, static_cast<std::size_t>(end - line));
  std::memcpy(padded, line, size);
  std::memset(padded + size, 0, kPadding);
  return seconds_of(read_leader(padded, padded + size).time);
}

}  // namespace pm::strace
