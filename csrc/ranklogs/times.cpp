// Dates and times in front of a line.
#include "ranklogs/forms.h"

namespace pm::ranklogs {

// "job\tstep\t" in front of a time, as GitHub's logs have it (`gh run view --log`); a step begins
// with a byte order mark.
std::size_t columns_at(std::string_view text) noexcept {
  constexpr std::size_t kWidest = 200;
  std::size_t at = 0;
  for (int column = 0; column < 2; ++column) {
    const std::size_t tab = text.substr(at, kWidest).find('\t');
    if (tab == text.npos || tab == 0) return 0;
    at += tab + 1;
  }
  return at + (text.substr(at).starts_with("\xef\xbb\xbf") ? 3 : 0);
}

// "2026-11-21T02:03:32.767Z ", "2026-11-21 02:03:32,767 ", "02:03:32.767 ", each also in brackets
// or with a "stdout F " of containerd's files, or a "01O " of GitLab's, behind. 0 where there is
// none.
std::size_t time_at(std::string_view text) noexcept {
  std::size_t at = text.empty() || is_digit(text[0]) || text[0] == '[' ? 0 : columns_at(text);
  const auto digits = [&](std::size_t count) {
    std::size_t seen = 0;
    while (seen < count && at < text.size() && is_digit(text[at])) ++seen, ++at;
    return seen == count;
  };
  const auto one = [&](char c) { return at < text.size() && text[at] == c && ++at; };
  const bool bracket = one('[');
  const std::size_t start = at;
  bool dated = true;
  if (digits(4) && (one('-') || one('/')) && digits(2) && (one('-') || one('/')) && digits(2)) {
    if (!one('T') && !one(' ') && !one('_')) return 0;
  } else {
    at = start;
    dated = false;
  }
  if (!digits(2) || !one(':') || !digits(2)) return 0;
  if (one(':') ? !digits(2) : !dated) return 0;  // "2026-11-21 02:03 "
  if ((one('.') || one(','))) {
    while (at < text.size() && is_digit(text[at])) ++at;
  }
  if (!one('Z') && at < text.size() && (text[at] == '+' || text[at] == '-')) {
    ++at;
    if (!digits(2)) return 0;
    one(':');
    if (!digits(2)) return 0;
  }
  if (bracket && !one(']')) return 0;
  if (!one(' ') && at < text.size()) return 0;
  for (const std::string_view stream : {"stdout F ", "stderr F ", "stdout P ", "stderr P "}) {
    if (text.substr(at).starts_with(stream)) at += stream.size();
  }
  for (const std::string_view stream : {"ddO ", "ddE ", "ddO+", "ddE+"}) {
    if (has_form(text.substr(at), stream)) return at + stream.size();
  }
  return at;
}

// "Sat Nov 21 17:16:26 2026", ctime() as mpirun --timestamp-output has it; 0 where there is none.
std::size_t ctime_at(std::string_view text) noexcept {
  constexpr std::string_view kForm = "Aaa Aaa .d dd:dd:dd dddd";
  return has_form(text, kForm) ? kForm.size() : 0;
}

}  // namespace pm::ranklogs
