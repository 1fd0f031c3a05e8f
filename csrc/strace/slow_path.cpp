// Lines that are not plain calls: signals, ends, remarks, colours, and calls that something was
// written into.
#include "strace/extractor.h"

namespace pm::strace {
namespace {

constexpr std::size_t kGlueLines = 200;  // most lines of output within one call

// Whether a call on one line was the last thing of its task: `futex(0x7f…, …) = ?`. Strace ends
// the line so if nothing else was written since the call began. exit() ends so by nature.
bool died_in(const Event& event) noexcept {
  if (event.result.known || event.call == kUnknownCall) return false;
  const std::string_view name = call_at(event.call).name;
  return name != "exit_group" && name != "exit";
}

// What stood before `strace: Process 7 attached`, or before the path by which strace was called.
std::string_view without_notice(std::string_view head) noexcept {
  constexpr std::string_view kSays = ": Process ";
  const std::size_t colon = head.rfind(kSays);
  if (colon == std::string_view::npos) return head;
  std::size_t first = colon;
  while (first > 0 && is_name_of_program(head[first - 1])) --first;
  const std::string_view name = head.substr(first, colon - first);
  const std::size_t slash = name.rfind('/');
  if (slash == std::string_view::npos) {
    const std::size_t plain = name.rfind("strace");
    return plain == std::string_view::npos ? head : head.substr(0, first + plain);
  }
  if (!name.substr(slash + 1).starts_with("strace")) return head;
  std::size_t start = name.find('/');
  while (start > 0 && name[start - 1] == '.') --start;  // ./strace
  return head.substr(0, first + start);
}

// Strace before 5.3 may write the end of a superseded thread into the line of its call:
// `7 execve(0x7f…, 0x7f…, 0x7f…7 +++ superseded by execve in pid 8 +++`.
std::string_view superseded_in(std::string_view line) noexcept {
  if (!line.ends_with(" +++")) return {};
  const std::size_t at = line.rfind("+++ superseded by execve in pid ");
  return at == std::string_view::npos ? std::string_view{} : line.substr(at);
}

// Of a line that side_by_side() has made.
const char* end_of(const std::string& whole) noexcept {
  return whole.data() + whole.size() - kPadding;
}

}  // namespace

void Extractor::note(const Leader& leader) {
  Counts& counts = out_.counts;
  counts.pids |= leader.has_pid;
  counts.brackets |= leader.bracketed;
  counts.relative |= !leader.relative.empty();
  if (!leader.time.empty()) {
    counts.times = true;
    counts.epochs |= leader.time.size() < 3 || leader.time[2] != ':';
  }
}

void Extractor::slow_path(const char* line, const char* end) {
  // Packed, gigabytes of one line that is no call are a few kilobytes.
  if (!unparsed_.empty() && unparsed_number_ + 1 == number_ && view(line, end) == unparsed_) {
    ++unparsed_number_;
    return;
  }
  if (std::memchr(line, '\x1b', static_cast<std::size_t>(end - line)) != nullptr) {
    out_.counts.colors = true;
    out_.side.emplace_back();
    std::string& plain = out_.side.back();
    strip_colors(view(line, end), plain);
    const std::size_t size = plain.size();
    plain.append(kPadding, '\0');
    line = plain.data();
    end = line + size;
  }
  const Line read = read_line(line, end);
  if (read.arguments && !known_leader(line)) {
    std::swap(form_, other_form_);
    form_.learn(line, read.leader);
  }
  general(read, line, end, cut_ && number_ + 1 == out_.newlines.size());
}

void Extractor::general(const Line& read, const char* line, const char* end, bool exact) {
  Counts& counts = out_.counts;
  note(read.leader);
  const char* stop = end > line && end[-1] == '\r' ? end - 1 : end;
  const auto event_of = [&] {
    const auto length = static_cast<unsigned>(read.name.size());
    const std::uint16_t call =
        read.name.empty() ? kUnknownCall : calls_.find(read.name.data(), length);
    Event event = make(line, stop, read.leader.pid, call, read.shape, read.arguments, read.end);
    event.has_pid = read.leader.has_pid;
    event.bracketed = read.leader.bracketed;
    return event;
  };
  switch (read.shape) {
    case Shape::call: {
      Event event = event_of();
      event.result = read_result(read.arguments, read.end, exact);
      if (!event.result.present) {
        if (const std::string_view end_of_it = superseded_in(view(line, stop));
            !end_of_it.empty()) {
          ++counts.calls;
          event.shape = Shape::exit;
          event.text = end_of_it;
          event.call = kUnknownCall;
          event.op = Op::none;
          out_.events.push_back(event);
          return;
        }
        if (!joining_) {
          open_ = line;
          open_end_ = stop;
          open_number_ = number_;
        }
        ++counts.calls;
        return;
      }
      open_ = nullptr;
      ++counts.calls;
      finish(event);
      if (died_in(event)) {
        Begun& slot = out_.begun.at(event.pid);
        slot = {event.pid, number_, line, stop, event.arguments, Half::here, true, event.has_pid};
        slot.interrupted = event.result.interrupted();
        out_.interrupted += slot.interrupted;
      }
      return;
    }
    case Shape::entry:
    case Shape::detached: {
      counts.detached |= read.shape == Shape::detached;
      remember(line, stop, read.arguments, read.leader.pid, read.leader.has_pid);
      Event event = event_of();
      event.shape = Shape::entry;
      emit_begun(event);
      return;
    }
    case Shape::resumed:
    case Shape::dead: {
      Event event = event_of();
      Begun& slot = out_.begun.at(event.pid);
      take_half(event, slot);
      ++counts.calls;
      if (read.shape == Shape::dead) return;  // it stays begun: that is what the task died in
      event.result = read_result(read.arguments, read.end, exact);
      finish(event);
      leave(slot, event.result, stop);
      return;
    }
    case Shape::signal:
    case Shape::exit: {
      Event event = event_of();
      event.text = view(read.leader.body, read.end);
      ++(read.shape == Shape::exit ? counts.exits : counts.signals);
      if (read.shape == Shape::exit) {
        open_ = nullptr;
        Begun& slot = out_.begun.at(event.pid);
        take_half(event, slot);
        slot.half = Half::none;
      }
      if (event.text.starts_with("--- SIGABRT ")) out_.aborted = {true, event.pid, number_};
      event.call = kUnknownCall;
      event.op = Op::none;
      out_.events.push_back(event);
      return;
    }
    case Shape::trace:
    case Shape::summary:
    case Shape::notice:
    case Shape::dump:
    case Shape::diagnostic:
    case Shape::empty:
      counts.traces |= read.shape == Shape::trace;
      counts.summary |= read.shape == Shape::summary;
      ++counts.remarks;
      return;
    case Shape::rest:
    case Shape::text:
    case Shape::open:
      if (!joining_ && (rejoin(line, stop) || glue(line, stop))) return;
      break;
  }
  unparsed_ = view(line, end);
  unparsed_number_ = number_;
  if (out_.first_unparsed.empty()) {
    out_.first_unparsed.assign(line,
                               std::min<std::size_t>(200, static_cast<std::size_t>(end - line)));
    out_.first_unparsed_number = number_;
  }
}

// Two parts of a line in one place, where as much may be read behind them as behind a block.
const std::string& Extractor::side_by_side(std::string_view head, std::string_view rest) {
  std::string& whole = out_.side.emplace_back(head);
  whole.append(rest).append(kPadding, '\0');
  return whole;
}

// Takes a call that nothing of its end follows for one in which its task still is: strace was
// killed in the middle of its line, or the text around the log goes on there.
void Extractor::keep_open() {
  if (!open_) return;
  const Line read = read_line(open_, open_end_);
  const bool exact = cut_ && open_number_ + 1 == number_;
  const auto length = static_cast<unsigned>(read.name.size());
  if (read.shape != Shape::call || read_result(read.arguments, read.end, exact).present) return;
  if (!exact && calls_.find(read.name.data(), length) == kUnknownCall) return;  // prose
  const std::uint32_t pid = read.leader.pid;
  out_.begun.at(pid) = {pid,  open_number_,        open_, open_end_, read.arguments, Half::here,
                        true, read.leader.has_pid, false, true};
  out_.counts.halves = true;
}

// Puts a call together that strace -z and its likes (--status) kept back until it had ended, and
// marked as unfinished when another task came in between: the line behind it is its rest, without a
// leader and without `<... name resumed>`.
bool Extractor::rejoin(const char* line, const char* end) {
  constexpr std::string_view kMark = " <unfinished ...>";
  if (number_ == 0) return false;
  Begun& slot = out_.begun.at(begun_pid_);
  if (slot.half != Half::here || slot.number + 1 != number_) return false;
  std::string_view head = view(slot.line, slot.end);
  if (!head.ends_with(kMark)) return false;
  head.remove_suffix(kMark.size());
  // More arguments may follow on a comma, but in what is mixed with output they may be that.
  const bool more = (head.ends_with(", ") || head.ends_with('(')) && !out_.counts.brackets;
  if (!more && !starts(line, end, ")") && !starts(line, end, ", ")) return false;
  const std::string& whole = side_by_side(head, view(line, end));
  const Line read = read_line(whole.data(), end_of(whole));
  if (read.shape != Shape::call || !read_result(read.arguments, read.end).present) {
    out_.side.pop_back();
    return false;
  }
  const std::uint32_t first = slot.number;
  while (!out_.events.empty() && out_.events.back().number == first) out_.events.pop_back();
  slot.half = Half::none;
  joined(whole, first);
  return true;
}

// Puts a call together into which something was written: `…SIGCHLDstrace: Process 7 attached`, then
// the rest on a line of its own; or output of the program, which may have lines too.
bool Extractor::glue(const char* line, const char* end) {
  if (!open_ || number_ - open_number_ > kGlueLines) return false;
  const char* rest = line;
  const bool plain = starts(line, end, ")") || starts(line, end, ", ") ||
                     starts(line, end, " <unfinished ...>") || starts(line, end, " <detached ...>");
  if (!plain) {
    // Output of the program in front of the rest: `hello) = 6`.
    const Result result = read_result(line, end, false);
    if (!result.present) return false;
    const void* last = nullptr;
    for (const char* p = end - 1; p > line; --p) {
      if (*p == ')' && (p[1] == ' ' || p[1] == '=')) {
        last = p;
        if (contains(view(p, end), "= ")) break;
      }
    }
    if (!last) return false;
    rest = static_cast<const char*>(last);
  }
  std::string_view head = view(open_, open_end_);
  for (const std::string_view word : {" attached", " detached"}) {
    if (head.ends_with(word)) head = without_notice(head);
  }
  const std::string& whole = side_by_side(head, view(rest, end));
  const Line read = read_line(whole.data(), end_of(whole));
  if (read.shape != Shape::call && read.shape != Shape::entry && read.shape != Shape::detached) {
    out_.side.pop_back();
    return false;
  }
  joined(whole, open_number_);
  return true;
}

// Takes a call that was put together of what began on line `first` and of the line here.
void Extractor::joined(const std::string& whole, std::uint32_t first) {
  const char* const end = end_of(whole);
  out_.counts.output += number_ - first;  // this line, and those between
  const std::uint32_t here = number_;
  number_ = first;
  joining_ = true;
  --out_.counts.calls;  // the first half was counted as one
  general(read_line(whole.data(), end), whole.data(), end, false);
  joining_ = false;
  number_ = here;
  open_ = nullptr;
}

}  // namespace pm::strace
