#include "strace/arguments.h"

#include <array>

namespace pm::strace {
namespace {

// Characters at which skip_argument() must think.
constexpr std::array<bool, 256> special() {
  std::array<bool, 256> marks{};
  for (const char c : {'"', '(', ')', '[', ']', '{', '}', '<', ',', '/'}) {
    marks[static_cast<unsigned char>(c)] = true;
  }
  return marks;
}
constexpr auto kIsSpecial = special();

const char* skip_string(const char* at, const char* end) noexcept {
  const char* p = at + 1;
  for (;;) {
    p = p < end ? find(p, end, '"') : end;
    if (p >= end) return end;
    const char* back = p;
    while (back > at + 1 && back[-1] == '\\') --back;
    ++p;
    if ((p - 1 - back) % 2 == 0) return p;
  }
}

}  // namespace

const char* skip_annotation(const char* at, const char* end) noexcept {
  if (at >= end || *at != '<') return at;
  unsigned depth = 0;
  // A path has its < and > escaped, and its quotes not. In a socket's words a quote opens a string:
  // <UNIX-STREAM:[1->2,"/path"]>.
  const bool is_path = at + 1 < end && at[1] == '/';
  if (is_path) {
    const char* const close = find(at, end, '>');
    if (close < end && find(at + 1, close, '<') == close) {
      return starts(close + 1, end, "(deleted)") ? close + 10 : close + 1;
    }
  }
  for (const char* p = at; p < end; ++p) {
    if (*p == '"' && !is_path) {
      p = skip_string(p, end) - 1;
    } else if (*p == '<') {
      ++depth;
    } else if (*p == '>' && p[-1] != '-' && --depth == 0) {
      ++p;
      return starts(p, end, "(deleted)") ? p + 9 : p;
    }
  }
  return end;
}

const char* skip_argument(const char* at, const char* end) noexcept {
  unsigned depth = 0;
  const char* p = at;
  while (p < end) {
    if (!kIsSpecial[static_cast<unsigned char>(*p)]) {
      ++p;
      continue;
    }
    switch (*p) {
      case '"':
        p = skip_string(p, end);
        continue;
      case '(':
      case '[':
      case '{':
        ++depth;
        break;
      case ')':
      case ']':
      case '}':
        if (depth == 0) return p;
        --depth;
        break;
      case ',':
        if (depth == 0) return p;
        break;
      case '/':
        if (p + 1 < end && p[1] == '*') {
          const void* const close = memmem(p + 2, static_cast<std::size_t>(end - p - 2), "*/", 2);
          p = close ? static_cast<const char*>(close) + 1 : end - 1;
        }
        break;
      case '<':
        // An annotation follows a number or AT_FDCWD; 21<<MAP_HUGE_SHIFT is a shift.
        if (p > at && is_word(p[-1]) && p + 1 < end && p[1] != '<') {
          p = skip_annotation(p, end);
          continue;
        }
        if (p + 1 < end && p[1] == '<') ++p;
        break;
      default:
        break;
    }
    ++p;
  }
  return end;
}

bool Arguments::next(std::string_view& argument) noexcept {
  while (at_ < end_ && (*at_ == ' ' || *at_ == ',')) ++at_;
  if (at_ >= end_ || *at_ == ')') return false;
  const char* begin = at_;
  at_ = skip_argument(at_, end_);
  if (at_ < end_ && *at_ != ',' && *at_ != ')') {  // a stray ] or }
    ++at_;
  }
  const char* stop = at_;
  while (stop > begin && stop[-1] == ' ') --stop;
  if (begin < stop && is_lower(*begin)) {
    const char* name = begin;
    while (name < stop && (is_lower(*name) || is_digit(*name) || *name == '_')) ++name;
    if (name < stop && *name == '=') begin = name + 1;
  }
  argument = view(begin, stop);
  return true;
}

std::string_view argument_at(std::string_view arguments, unsigned index) noexcept {
  Arguments all(arguments.data(), arguments.data() + arguments.size());
  std::string_view argument;
  for (unsigned i = 0; i <= index; ++i) {
    if (!all.next(argument)) return {};
  }
  return argument;
}

bool take_deleted(std::string_view& annotation) noexcept {
  constexpr std::string_view kHex = R"(\x20\x28\x64\x65\x6c\x65\x74\x65\x64\x29)";  // with -xx
  const bool hex = annotation.ends_with(kHex);
  if (!hex && (!annotation.starts_with('/') || !annotation.ends_with(kDeletedWord))) return false;
  annotation.remove_suffix(hex ? kHex.size() : kDeletedWord.size());
  return true;
}

FdArgument read_fd(std::string_view argument) noexcept {
  FdArgument fd;
  const char* at = argument.data();
  const char* const end = at + argument.size();
  if (argument.starts_with("AT_FDCWD")) {
    fd.number = kWorkingDirectory;
    at += 8;
  } else {
    const char* const first = at;
    fd.number = read_number(at, end);
    if (at == first) return fd;
    // An int printed as unsigned: 0xffffff9c is AT_FDCWD, 4294967295 is -1.
    if (fd.number > 0x7fffffff) fd.number = static_cast<std::int32_t>(fd.number);
  }
  fd.valid = true;
  const char* const close = skip_annotation(at, end);
  if (close != at) {
    fd.deleted = ends(at, close, "(deleted)");
    fd.annotation = view(at + 1, close - (fd.deleted ? 10 : 1));
    fd.deleted |= take_deleted(fd.annotation);
  }
  return fd;
}

std::string_view quoted_part(std::string_view argument, bool& quoted) noexcept {
  const char* const end = argument.data() + argument.size();
  const char* const open = argument.empty() ? end : find(argument.data(), end, '"');
  quoted = open < end;
  if (!quoted) return {};
  const char* const close = skip_string(open, end);
  return view(open + 1, close > open + 1 && close[-1] == '"' ? close - 1 : close);
}

void unescape(std::string_view raw, std::string& out) {
  const std::size_t first = raw.find('\\');
  out.assign(raw.substr(0, first));
  if (first == std::string_view::npos) return;
  for (std::size_t i = first; i < raw.size(); ++i) {
    if (raw[i] != '\\' || i + 1 == raw.size()) {
      out.push_back(raw[i]);
      continue;
    }
    const char c = raw[++i];
    const auto digit = [&](std::size_t at, unsigned base) -> int {
      if (at >= raw.size()) return -1;
      const char d = raw[at];
      const int value = is_digit(d) ? d - '0' : d >= 'a' && d <= 'f' ? d - 'a' + 10 : 99;
      return value < static_cast<int>(base) ? value : -1;
    };
    if (c == 'x') {
      int value = 0;
      std::size_t taken = 0;
      for (; taken < 2 && digit(i + 1, 16) >= 0; ++taken) value = value * 16 + digit(++i, 16);
      out.push_back(static_cast<char>(value));
    } else if (c >= '0' && c <= '7') {
      int value = c - '0';
      for (unsigned taken = 1; taken < 3 && digit(i + 1, 8) >= 0; ++taken) {
        value = value * 8 + digit(++i, 8);
      }
      out.push_back(static_cast<char>(value));
    } else {
      constexpr std::string_view kFrom = "ntrfvab";
      constexpr std::string_view kTo = "\n\t\r\f\v\a\b";
      const std::size_t at = kFrom.find(c);
      out.push_back(at == std::string_view::npos ? c : kTo[at]);
    }
  }
}

bool has_flag(std::string_view argument, std::string_view name, std::uint64_t bits) noexcept {
  if (contains(argument, name)) return true;
  if (argument.empty() || !is_digit(argument[0])) return false;
  const auto value = static_cast<std::uint64_t>(number_in(argument));
  return (value & bits) == bits;
}

bool clone_shares(std::string_view arguments, const CloneFlag& flag) noexcept {
  if (contains(arguments, flag.name)) return true;
  // With -X raw: clone(child_stack=0x7f…, flags=0x500|17) and clone3({flags=0x3d0f00, …}).
  constexpr std::string_view kFlags = "flags=";
  const std::size_t named = arguments.find(kFlags);
  std::string_view raw = named == std::string_view::npos ? argument_at(arguments, 0)
                                                         : arguments.substr(named + kFlags.size());
  if (raw.empty() || !is_digit(raw[0])) return false;
  const auto value = static_cast<std::uint64_t>(number_in(raw));
  return value <= 0xffff'ffff && (value & flag.bit) != 0;  // more is where clone3() has its struct
}

}  // namespace pm::strace
