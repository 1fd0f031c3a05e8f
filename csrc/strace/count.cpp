// What the summary counts: calls and their time by task, folders that are searched, futexes.
#include <cmath>
#include <cstring>

#include "strace/extractor.h"

namespace pm::strace {
namespace {

constexpr std::uint64_t kLongestCall = 1'000'000'000ULL * 1'000'000'000ULL;  // ns; more is no time
constexpr std::size_t kMostFoldersOfBlock = 4096;                            // of a block
constexpr std::size_t kMostFutexes = 4096;
constexpr unsigned kLinesForTime = 64;

double stamp_of(const char* line, const char* end) noexcept {
  return seconds_of(read_leader(line, end).time);
}

// The number that ends before `end` is moved in front of; false if it is none.
bool number_before(const char* begin, const char*& end, std::int64_t& value) noexcept {
  const char* p = end;
  while (p > begin && (is_digit(p[-1]) || (p[-1] >= 'a' && p[-1] <= 'f') || p[-1] == 'x')) --p;
  if (p == end) return false;
  const char* at = p;
  value = read_number(at, end);
  const bool whole = at == end;
  end = p;
  return whole;
}

// skip_annotation() for the path of a directory, which is mostly short.
const char* behind_path(const char* at, const char* end) noexcept {
  const std::uint64_t closes = mask_of_64(at, '>');
  const std::uint64_t opens = mask_of_64(at, '<') & ~std::uint64_t{1};
  const char* const close = at + std::countr_zero(closes);
  if (at[1] != '/' || !closes || close + 1 >= end || close[1] == '(' ||
      (opens & (closes ^ (closes - 1)))) {
    return skip_annotation(at, end);
  }
  return close + 1;
}

// The last slash of a string before its quote, or null.
const char* last_slash(const char* text, const char* end) noexcept {
  const char* found = nullptr;
  for (const char* p = text; p < end; p += 64) {
    std::uint64_t slashes = mask_of_64(p, '/');
    std::uint64_t ending = mask_of_64(p, '"');
    if (end - p < 64) ending |= ~std::uint64_t{0} << (end - p);
    if (ending) slashes &= (ending & (0 - ending)) - 1;
    if (slashes) found = p + 63 - std::countl_zero(slashes);
    if (ending) break;
  }
  return found;
}

// ` <0.000012>`, as nearly all durations of -T are, is moved in front of.
bool take_micros(const char* begin, const char*& end, std::uint32_t& micros) noexcept {
  constexpr std::ptrdiff_t kLength = 11;
  const char* const word = end - kLength;
  if (end - begin <= kLength + 4 || word[0] != ' ' || word[1] != '<' || word[2] != '0' ||
      word[3] != '.' || word[10] != '>') {
    return false;
  }
  const char* at = word + 4;
  if (!read_short(at, micros) || at != end - 1) return false;
  end = word;
  return true;
}

}  // namespace

bool Extractor::read_tail(const char* begin, const char* end, Tail& tail) noexcept {
  const char* q = end;
  if (end - begin < 5) return false;
  if (std::uint32_t micros = 0; take_micros(begin, q, micros)) {
    tail.nanoseconds = std::uint64_t{1000} * micros;
    tail.timed = true;
  } else if (q[-1] == '>') {
    std::uint64_t value = 0;
    std::uint64_t scale = 1;
    unsigned digits = 0;
    unsigned fraction = 0;
    const char* p = q - 2;
    for (; p > begin && *p != '<'; --p) {
      if (*p == '.') {
        if (fraction != 0) return false;
        fraction = digits;
        continue;
      }
      if (!is_digit(*p) || ++digits > 17) return false;
      value += scale * static_cast<std::uint64_t>(*p - '0');
      scale *= 10;
    }
    if (p <= begin + 1 || p[-1] != ' ' || fraction == 0 || fraction > 9) return false;
    for (; fraction < 9; ++fraction) {
      if (value > kLongestCall / 10) return false;
      value *= 10;
    }
    if (value >= kLongestCall) return false;
    tail.nanoseconds = value;
    tail.timed = true;
    q = p - 1;
  }
  if (is_digit(q[-1]) && q - begin >= 4 && q[-2] == ' ') {  // = 0, mostly
    tail.value = *--q - '0';
  } else if (!number_before(begin, q, tail.value)) {
    return false;
  }
  return q - begin >= 3 && q[-1] == ' ' && q[-2] == '=' && (q[-3] == ' ' || q[-3] == ')');
}

// Nanoseconds between the stamps of two lines; 0 if they have none.
std::uint64_t Extractor::between(const char* first, const char* first_end, const char* last,
                                 const char* last_end) const {
  if (!out_.counts.times) return 0;
  const double from = stamp_of(first, first_end);
  const double to = stamp_of(last, last_end);
  if (from < 0 || to < 0) return 0;
  return nanoseconds_between(from, to);
}

// A call that worked and has no effect but on totals. False if it is to become an event after all.
bool Extractor::plain(const char* line, const char* end, std::uint32_t pid, std::uint16_t call,
                      const char* arguments, const Tail& tail, const Begun* half) {
  const Call& what = calls_.at(call);
  const char* const stop = half ? half->end : end;
  std::int64_t number = -1;
  if (what.op != Op::none) {
    if (what.first != 0) return false;
    const char* at = arguments;
    number = read_number(at, end);
    if (at == arguments) return false;
  }
  if (out_.tallies.longest.takes(paces_[call], tail.nanoseconds)) return false;
  if (lookups_[call] && !look_up(line, pid, what, arguments, stop, tail.nanoseconds, false)) {
    return false;
  }
  out_.called(pid);
  const Tally::Key key{pid, call};
  Tally& tally = out_.tallies.calls.at(key.hash(), key);
  ++tally.calls;
  tally.nanoseconds += tail.nanoseconds;
  tally.returned(tail.value, finds(call), view(line, end), number_);
  out_.counts.durations |= tail.timed;
  if (call == futex_) futex(pid, arguments, stop, tail.value);
  if (what.op == Op::none) return true;
  Event& event = out_.events.emplace_back(make(line, end, pid, call, Shape::call, arguments, end));
  event.result.present = event.result.known = true;
  event.result.value = tail.value;
  event.a = number;
  return true;
}

// How long a call took: -T says it; else the stamps of the lines on which it began and ended.
void Extractor::time(Event& event) const {
  if (!event.result.seconds.empty()) {
    const std::string_view word = event.result.seconds;
    std::uint32_t micros = 0;
    if (const char* at = word.data() + 2; word.size() == 8 && word.starts_with("0.") &&
                                          read_short(at, micros) &&
                                          at == word.data() + word.size()) {
      event.nanoseconds = std::uint64_t{1000} * micros;
      out_.counts.durations = true;
      return;
    }
    // A log may say anything: <-1.0> and <1e300> are no durations.
    const double seconds = seconds_of(event.result.seconds);
    if (seconds >= 0 && seconds < 1e9) {
      event.nanoseconds = static_cast<std::uint64_t>(std::llround(seconds * 1e9));
      out_.counts.durations = true;
    }
  } else if (event.shape == Shape::resumed && event.half == Half::here) {
    event.nanoseconds = between(event.entry, event.entry_end, event.line, event.end);
  } else if (event.shape == Shape::resumed && event.half == Half::elsewhere) {
    event.timed = !out_.counts.times;
  }
}

void Extractor::count(Event& event) {
  const bool failed = event.result.failed();
  out_.called(event.pid);
  if (event.call == kUnknownCall) {
    const std::string_view name = read_line(event.line, event.end).name;
    auto& others = out_.other_calls;
    auto found = std::find_if(others.begin(), others.end(),
                              [&](const auto& row) { return row.first == name; });
    if (found == others.end() && others.size() < 64) {
      others.emplace_back(name, CallCount{});
      found = others.end() - 1;
    }
    if (found == others.end()) return;
    ++found->second.calls;
    found->second.errors += failed;
    found->second.nanoseconds += event.nanoseconds;
    return;
  }
  const Tally::Key key{event.pid, event.call};
  Tally& tally = out_.tallies.calls.at(key.hash(), key);
  ++tally.calls;
  tally.errors += failed;
  tally.nanoseconds += event.nanoseconds;
  tally.again += failed && event.result.error == "EAGAIN";
  if (event.result.worked() || failed) {
    tally.returned(failed ? -1 : event.result.value, finds(event.call), view(event.line, event.end),
                   event.number);
  }
  event.slow = out_.tallies.longest.takes(paces_[event.call], event.nanoseconds);
  const bool resumed = event.shape == Shape::resumed;
  if (resumed && event.half != Half::here) return;
  const char* const arguments = resumed ? event.entry_arguments : event.arguments;
  const char* const end = resumed ? event.entry_end : event.arguments_end;
  if (!arguments) return;
  if (event.call == futex_ && !failed) futex(event.pid, arguments, end, event.result.value);
  if (lookups_[event.call]) {
    event.folder = !look_up(event.line, event.pid, calls_.at(event.call), arguments, end,
                            event.nanoseconds, failed);
  }
}

// Counts a call that looks a path up, by its folder. False if that is relative to a descriptor,
// which only replay knows.
bool Extractor::look_up(const char* line, std::uint32_t pid, const Call& call,
                        const char* arguments, const char* end, std::uint64_t nanoseconds,
                        bool failed) {
  const char* p = arguments;
  const auto skip_name = [&] {  // of -N
    const char* q = p;
    while (q < end && (is_lower(*q) || *q == '_')) ++q;
    if (q > p && q < end && *q == '=') p = q + 1;
  };
  skip_name();
  std::string_view below;
  bool here = true;
  if (call.role == Role::at || call.role == Role::ats) {
    here = starts(p, end, "AT_FDCWD") || starts(p, end, "-100") || starts(p, end, "0xffffff9c");
    if (here && *p == 'A') p += 8;
    while (p < end && *p != ',' && *p != '<' && *p != '"') ++p;
    if (p < end && *p == '<') {
      const char* const close = behind_path(p, end);
      if (close > p + 1) below = view(p + 1, close - 1);
      p = close;
    }
    while (p < end && (*p == ',' || *p == ' ')) ++p;
    skip_name();
  }
  if (p >= end || *p != '"') return true;
  const char* const text = ++p;
  if (p >= end || *p == '"') return true;  // AT_EMPTY_PATH
  const char* const slash = last_slash(text, end);
  std::string_view folder = view(text, slash ? slash : text);
  std::uint32_t of = kAbsolute;
  if (*text == '/') {
    if (folder.empty()) folder = view(text, text + 1);
  } else if (!below.empty()) {
    folder = below;
  } else if (here) {
    of = pid;
  } else {
    return false;
  }
  auto& folders = out_.tallies.folders;
  if (folders.size() >= kMostFoldersOfBlock) folder = folder.substr(0, 1);
  const FolderTally::Key key{folder, of};
  FolderTally& tally = folders.at(key.hash(), key);
  ++tally.calls;
  tally.errors += failed;
  tally.nanoseconds += nanoseconds;
  if (!tally.first) tally.first = line;
  tally.last = line;
  return true;
}

// Who woke others, and who was let through: what stands behind a deadlock's addresses.
void Extractor::futex(std::uint32_t pid, const char* arguments, const char* end,
                      std::int64_t value) {
  const char* p = arguments;
  if (starts(p, end, "uaddr=")) p += 6;
  const auto address = static_cast<std::uint64_t>(read_number(p, end));
  if (p == arguments || p + 14 >= end || *p != ',') return;
  p += 2;
  if (starts(p, end, "op=")) p += 3;
  if (starts(p, end, "futex_")) p = find(p, end, '=') + 1;
  const bool wait = starts(p, end, "FUTEX_WAIT") || starts(p, end, "FUTEX_LOCK_PI");
  const bool wake = starts(p, end, "FUTEX_WAKE") || starts(p, end, "FUTEX_UNLOCK_PI") ||
                    starts(p, end, "FUTEX_CMP_REQUEUE") || starts(p, end, "FUTEX_REQUEUE");
  if (!wake && (!wait || value != 0)) return;
  auto& futexes = out_.tallies.futexes;
  if (futexes.size() >= kMostFutexes) return;
  const FutexTally::Key key{address, pid};
  FutexTally& tally = futexes.at(key.hash(), key);
  (wake ? tally.woke : tally.passed) = number_ + 1;
  const char* const comma = find(p, end, ',');
  tally.shared = !contains(view(p, comma), "_PRIVATE");
}

// The first and the last stamp of the block.
void Extractor::note_times(const char* begin) {
  if (!out_.counts.times) return;
  const auto& newlines = out_.newlines;
  const auto at = [&](std::size_t i) {
    const char* const line = i == 0 ? begin : begin + newlines[i - 1] + 1;
    return stamp_of(line, begin + newlines[i]);
  };
  const std::size_t most = std::min<std::size_t>(kLinesForTime, newlines.size());
  Tallies& tallies = out_.tallies;
  for (std::size_t i = 0; i < most && tallies.first_time < 0; ++i) tallies.first_time = at(i);
  for (std::size_t i = 0; i < most && tallies.last_time < 0; ++i) {
    tallies.last_time = at(newlines.size() - 1 - i);
  }
}

}  // namespace pm::strace
