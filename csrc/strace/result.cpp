#include "strace/result.h"

namespace pm::strace {
namespace {

bool is_error_name(std::string_view word) noexcept {
  if (word.size() < 2 || word[0] != 'E') return false;
  for (const char c : word) {
    if (!is_upper(c) && !is_digit(c) && c != '_') return false;
  }
  return true;
}

// Takes ` <0.000123>` off the end.
bool take_seconds(const char* begin, const char*& end, std::string_view& seconds) noexcept {
  if (end - begin < 4 || end[-1] != '>') return false;
  const char* p = end - 2;
  while (p > begin && (is_digit(*p) || *p == '.')) --p;
  if (p == end - 2 || *p != '<' || p == begin || p[-1] != ' ') return false;
  seconds = view(p + 1, end - 1);
  end = p - 1;
  return true;
}

// What follows `= `: the value, then words in brackets in any order.
void read_value(const char* p, const char* end, Result& result) noexcept {
  result.present = true;
  if (p < end && *p == '?') {
    ++p;
  } else {
    const char* const first = p;
    result.value = read_number(p, end);
    result.known = p != first;
  }
  // 2 /* 7153 in strace's PID NS */
  if (starts(p, end, " /* ") && p + 4 < end && is_digit(p[4])) {
    const char* own = p + 4;
    const std::int64_t number = read_number(own, end);
    constexpr std::string_view kWords = " in strace's PID NS */";
    if (starts(own, end, kWords)) {
      result.value = number;
      result.translated = true;
      p = own + kWords.size();
    }
  }
  const char* const note = skip_annotation(p, end);
  if (note != p) {
    const char* close = note;
    result.deleted = ends(p, close, "(deleted)");
    if (result.deleted) close -= 9;
    result.annotation = view(p + 1, close - 1);
    p = note;
  }
  while (p < end) {
    if (*p == ' ') {
      ++p;
    } else if (*p == '(') {
      const char* close = skip_argument(p + 1, end);
      while (close < end && *close == ',') close = skip_argument(close + 1, end);
      const std::string_view inside = view(p + 1, close);
      if (inside == "INJECTED") {
        result.injected = true;
      } else if (result.note.empty()) {
        result.note = inside;
      }
      p = close < end ? close + 1 : end;
    } else if (*p == '<') {
      const char* const close = find(p, end, '>');
      result.seconds = view(p + 1, close);
      p = close < end ? close + 1 : end;
    } else {
      const char* const word = p;
      while (p < end && *p != ' ') ++p;
      if (is_error_name(view(word, p))) result.error = view(word, p);
    }
  }
  if (result.error.empty() && result.value == -1 && result.note.starts_with("errno ")) {
    result.error = result.note;
  }
}

bool quick(const char* begin, const char* end, Result& result) noexcept {
  const char* q = end;
  std::string_view seconds;
  take_seconds(begin, q, seconds);
  if (q - begin < 4) return false;
  const char* p = q;
  const char* annotation = q;
  if (q[-1] == '>' && q[-2] != '>') {  // = 3</path>
    const char* const limit = q - begin > 4200 ? q - 4200 : begin;
    const void* const open = memrchr(limit, '<', static_cast<std::size_t>(q - limit));
    if (!open) return false;
    annotation = static_cast<const char*>(open);
    if (annotation == begin || annotation[1] != '/' || !is_digit(annotation[-1])) return false;
    result.annotation = view(annotation + 1, q - 1);
    q = p = annotation;
  } else if (q[-1] == ')') {
    if (ends(begin, q, "ED)") || ends(begin, q, "(deleted)")) return false;  // (INJECTED)
    const char* const limit = q - begin > 240 ? q - 240 : begin;
    --p;  // at the bracket: what q points at may lie behind the text
    while (p > limit && *p != '(') --p;
    if (*p != '(' || p - begin < 8 || p[-1] != ' ') return false;
    const char* word = p - 1;
    while (word > begin && is_word(word[-1])) --word;
    if (word - begin < 5 || !is_error_name(view(word, p - 1)) || word[-1] != ' ') return false;
    const char* const value = word[-2] == '?' ? word - 2 : word - 3;
    if (value - begin < 3 || value[-1] != ' ' || value[-2] != '=') return false;
    if (*value == '-' ? value[1] != '1' : *value != '?') return false;
    if (!behind_bracket(begin, value - 2)) return false;
    result.present = true;
    result.known = *value == '-';
    result.value = result.known ? -1 : 0;
    result.error = view(word, p - 1);
    result.note = view(p + 1, q - 1);
    result.seconds = seconds;
    return true;
  }
  {
    const char* const limit = q - begin > 22 ? q - 22 : begin;
    while (p > limit && p[-1] != ' ') --p;
    if (p - begin < 3 || p[-2] != '=' || !behind_bracket(begin, p - 2)) return false;
    const char* number = p;
    result.present = true;
    if (q - p == 1 && *p == '?') {
      result.seconds = seconds;
      return true;
    }
    result.value = read_number(number, q);
    if (number != q || number == p) {
      result = {};
      return false;
    }
    result.known = true;
  }
  result.seconds = seconds;
  return true;
}

}  // namespace

Result read_result(const char* arguments, const char* end, bool exact) noexcept {
  Result result;
  if (!exact && quick(arguments, end, result)) return result;
  result = {};
  Arguments all(arguments, end);
  std::string_view argument;
  while (all.next(argument)) {
  }
  if (all.closed()) {
    const char* p = all.behind();
    while (p < end && *p == ' ') ++p;
    if (starts(p, end, "= ")) {
      read_value(p + 2, end, result);
      return result;
    }
  }
  if (exact) return result;
  // Output of the program is glued into the arguments: the last `) = ` counts.
  for (const char* p = end - 3; p > arguments; --p) {
    if (p[0] == '=' && p[1] == ' ' && behind_bracket(arguments, p)) {
      read_value(p + 2, end, result);
      return result;
    }
  }
  return result;
}

CallParts take_apart(std::string_view call) {
  CallParts parts;
  const std::size_t bracket = call.find('(');
  if (bracket == std::string_view::npos) return parts;
  const char* const end = call.data() + call.size();
  Arguments all(call.data() + bracket + 1, end);
  for (std::string_view argument; all.next(argument);) parts.arguments.emplace_back(argument);
  const Result result = read_result(call.data() + bracket + 1, end);
  if (result.known) parts.returned = result.value;
  return parts;
}

}  // namespace pm::strace
