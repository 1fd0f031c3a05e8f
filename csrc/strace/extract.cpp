#include "strace/extract.h"

#include <algorithm>

namespace pm::strace {
namespace {

constexpr std::uint64_t kCloexec = 02000000;  // O_CLOEXEC and its likes, on all but alpha, sparc
constexpr double kLongestCall = 1e9;          // seconds
constexpr std::size_t kGlueLines = 200;       // most lines of output within one call

// Behind the string that opens at `at`; `text` is what is between the quotes.
const char* take_string(const char* at, const char* end, std::string_view& text) noexcept {
  const char* p = at + 1;
  for (;;) {
    p = find(p, end, '"');
    const char* back = p;
    while (back > at + 1 && back[-1] == '\\') --back;
    if (p >= end || (p - back) % 2 == 0) break;
    ++p;
  }
  text = view(at + 1, p);
  return p < end ? p + 1 : end;
}

class Extractor {
 public:
  Extractor(const Wanted& wanted, Extract& out) : wanted_(wanted), out_(out) {
    hit_calls_.resize(calls_.size());
    for (const std::uint16_t call : wanted.calls) hit_calls_[call] = true;
    if (wanted.statistics) out.statistics.resize(calls_.size());
    errors_only_ = !wanted.statistics && !wanted.uses && !wanted.every && wanted.calls.empty();
  }

  void run(const char* begin, const char* end) {
    find_newlines(begin, end, out_.newlines);
    if (begin < end && end[-1] != '\n') {
      out_.newlines.push_back(static_cast<std::uint32_t>(end - begin));
      cut_ = true;
    }
    begin_ = begin;
    const auto count = static_cast<std::uint32_t>(out_.newlines.size());
    out_.counts.lines = count;
    const char* line = begin;
    for (number_ = 0; number_ < count; ++number_) {
      const char* const stop = begin + out_.newlines[number_];
      if (!quick(line, stop)) slow(line, stop);
      line = stop + 1;
    }
    out_.counts.unparsed = out_.counts.lines - std::min(out_.counts.lines, accounted());
  }

 private:
  std::uint64_t accounted() const {
    const Counts& c = out_.counts;
    return c.calls + c.signals + c.exits + c.remarks + c.output;
  }

  // The lines of which a log is full: `pid [time] name(` and `pid [time] <... name resumed>`.
  bool quick(const char* line, const char* end) {
    if (end - line < 12 || end[-1] == '\r' || (cut_ && number_ + 1 == out_.newlines.size())) {
      return false;
    }
    const char* p = line;
    std::uint32_t pid = 0;
    while (is_digit(*p)) pid = pid * 10 + static_cast<unsigned>(*p++ - '0');
    if (*p != ' ' || p == line || p - line > 7) return false;
    while (*p == ' ') ++p;
    if (is_digit(*p)) {
      const unsigned length = find_in_32(p, ' ');
      if (length < 8 || length == 32) return false;
      if (!leader_noted_) slow_leader(line, end);
      p += length;
      while (*p == ' ') ++p;
    }
    if (p >= end) return false;
    if (*p == '<') {
      if (!starts(p, end, "<... ")) return false;
      const char* const name = p + 5;
      const unsigned length = find_in_32(name, ' ');
      const char* const behind = name + length + 9;
      if (behind >= end || !starts(name + length, end, " resumed>") || *behind == '\x1b') {
        return false;
      }
      if (starts(behind, end, " <unfinished ...>)")) return false;
      resumed(line, end, pid, name, length, behind);
      return true;
    }
    if (!is_lower(*p)) return false;
    const unsigned length = find_in_32(p, '(');
    const char* const arguments = p + length + 1;
    if (length == 32 || arguments > end) return false;
    const std::uint16_t call = calls_.find(p, length);
    if (call == kUnknownCall) return false;
    if (end[-1] == '>' && end - arguments >= 14 && end[-2] == '.')
      return begun(line, end, pid, call, arguments);
    return complete(line, end, pid, call, arguments);
  }

  bool begun(const char* line, const char* end, std::uint32_t pid, std::uint16_t call,
             const char* arguments) {
    if (!ends(arguments, end, "<unfinished ...>")) return false;
    remember(line, end, pid, true);
    const Call& what = calls_.at(call);
    if (what.op != Op::none || wanted_.uses) {
      const char* stop = end - 16;
      if (stop > arguments && stop[-1] == ' ') --stop;
      Event event = make(line, end, pid, call, Shape::entry, arguments, stop);
      emit_begun(event);
    }
    return true;
  }

  void emit_begun(Event& event) {
    uses(event);
    if (wanted_op(event.op) && fill(event)) out_.events.push_back(event);
  }

  void remember(const char* line, const char* end, std::uint32_t pid, bool has_pid) {
    ++out_.counts.calls;
    out_.counts.halves = true;
    out_.begun.at(pid) = {pid, number_, line, end, Half::here, true, has_pid};
  }

  bool complete(const char* line, const char* end, std::uint32_t pid, std::uint16_t call,
                const char* arguments) {
    const Call& what = calls_.at(call);
    const bool op = wanted_op(what.op);
    if (!op && errors_only_ && !may_be_hit(arguments, end)) {
      open_ = line;
      open_end_ = end;
      open_number_ = number_;
      ++out_.counts.calls;
      return true;
    }
    Event event = make(line, end, pid, call, Shape::call, arguments, end);
    event.result = read_result(arguments, end);
    if (!event.result.present) return false;
    ++out_.counts.calls;
    open_ = nullptr;
    finish(event);
    return true;
  }

  // Whether a line may end in an errno that is asked for: `= -1 ENOSPC (No space left on device)`,
  // with a duration or `(INJECTED)` behind it. False only where it surely does not.
  bool may_be_hit(const char* begin, const char* end) const noexcept {
    const char* q = end;
    if (q[-1] == '>') {
      q -= 2;
      while (is_digit(*q) || *q == '.') --q;
      if (*q != '<') return true;
      --q;
    }
    if (q[-1] != ')') return q[-1] == '>';
    if (q[-2] == 'D') return true;
    const char* const limit = q - begin > 100 ? q - 100 : begin;
    while (q > limit && *q != '(') --q;
    const char* word = q - 1;
    if (q == limit) return true;
    while (word > begin && is_word(word[-1])) --word;
    const std::string_view name = view(word, q - 1);
    if (name.size() < 2 || name[0] != 'E' || word[-1] != ' ') return true;
    for (const std::string& wanted : wanted_.errors) {
      if (name == wanted) return true;
    }
    return false;
  }

  void resumed(const char* line, const char* end, std::uint32_t pid, const char* name,
               unsigned length, const char* rest) {
    ++out_.counts.calls;
    const std::uint16_t call = calls_.find(name, length);
    Begun& slot = out_.begun.at(pid);
    const Op op = call == kUnknownCall ? Op::none : calls_.at(call).op;
    const bool hit_call = call != kUnknownCall && hit_calls_[call];
    if (wanted_op(op) || hit_call || !errors_only_ || may_be_hit(rest, end)) {
      Event event = make(line, end, pid, call, Shape::resumed, rest, end);
      take_half(event, slot);
      event.result = read_result(rest, end);
      finish(event);
    }
    if (end[-1] != '?') slot.half = Half::none;  // `= ?`: the task died inside the call
  }

  static void take_half(Event& event, const Begun& slot) {
    event.half = slot.half;
    if (slot.half != Half::here) return;
    event.entry = slot.line;
    event.entry_end = slot.end;
    event.entry_number = slot.number;
  }

  // A call that has ended: counts it, and keeps it if anybody wants it.
  void finish(Event& event) {
    const Result& result = event.result;
    out_.counts.annotations |= !result.annotation.empty();
    if (event.op == Op::fork && event.shape == Shape::resumed && result.value > 0) {
      out_.forks.emplace_back(event.pid, static_cast<std::uint32_t>(result.value));
    }
    if (wanted_.statistics) count(event);
    event.hit = is_hit(event);
    uses(event);
    const bool kept = wanted_op(event.op) && fill(event);
    const bool error = wanted_.statistics && result.failed();
    if (!kept) event.op = Op::none;  // it changes nothing: its arguments were not read
    if (kept || event.hit || error || wanted_.every) out_.events.push_back(event);
  }

  bool is_hit(const Event& event) const {
    if (event.call != kUnknownCall && hit_calls_[event.call]) return true;
    if (event.result.error.empty()) return false;
    return std::any_of(wanted_.errors.begin(), wanted_.errors.end(),
                       [&](const std::string& name) { return name == event.result.error; });
  }

  void count(const Event& event) {
    CallCount* counter = nullptr;
    if (event.call != kUnknownCall) {
      counter = &out_.statistics[event.call];
    } else {
      const std::string_view name = read_line(event.line, event.end).name;
      auto& others = out_.other_calls;
      auto found = std::find_if(others.begin(), others.end(),
                                [&](const auto& row) { return row.first == name; });
      if (found == others.end() && others.size() < 64) {
        others.emplace_back(name, CallCount{});
        found = others.end() - 1;
      }
      if (found == others.end()) return;
      counter = &found->second;
    }
    ++counter->calls;
    counter->errors += event.result.failed();
    if (!event.result.seconds.empty()) {
      out_.counts.durations = true;
      // A log may say anything: <-1.0> and <1e300> are no durations.
      const double seconds = seconds_of(event.result.seconds);
      if (seconds >= 0 && seconds < kLongestCall) {
        counter->nanoseconds += static_cast<std::uint64_t>(seconds * 1e9);
      }
    }
  }

  bool wanted_op(Op op) const noexcept {
    if (op == Op::none) return false;
    return op != Op::read || wanted_.statistics;
  }

  Event make(const char* line, const char* end, std::uint32_t pid, std::uint16_t call, Shape shape,
             const char* arguments, const char* stop) const {
    Event event;
    event.line = line;
    event.end = end;
    event.arguments = arguments;
    event.arguments_end = stop;
    event.pid = pid;
    event.has_pid = true;
    event.number = number_;
    event.call = call;
    event.op = call == kUnknownCall ? Op::none : calls_.at(call).op;
    event.shape = shape;
    return event;
  }

  // Annotated descriptors of a call, for the check: the first of its arguments, and the returned
  // one.
  void uses(const Event& event) {
    if (!wanted_.uses || event.call == kUnknownCall || event.shape == Shape::resumed) return;
    const Call& call = calls_.at(event.call);
    if (call.role != Role::fd && call.role != Role::at && call.role != Role::peer) return;
    if (event.op == Op::none && event.shape == Shape::open) return;
    const std::string_view all = view(event.arguments, event.arguments_end);
    const FdArgument fd = read_fd(argument_at(all, call.first));
    if (!fd.valid || fd.annotation.empty() || fd.number < 0) return;
    Event use = event;
    use.use = true;
    use.hit = false;
    use.op = Op::none;
    use.a = fd.number;
    use.text = fd.annotation;
    use.b = fd.deleted;
    out_.events.push_back(use);
  }

  bool fill(Event& event) const;
  bool fill_first(Event& event) const;
  void slow(const char* line, const char* end);
  void slow_leader(const char* line, const char* end);
  void general(const Line& read, const char* line, const char* end, bool exact);
  bool glue(const char* line, const char* end);
  void note(const Leader& leader);

  const Wanted& wanted_;
  Extract& out_;
  const CallTable& calls_ = CallTable::get();
  std::vector<std::uint8_t> hit_calls_;
  bool errors_only_ = false;  // nothing is asked but errors: most lines need no more than their end
  const char* begin_ = nullptr;
  const char* open_ = nullptr;  // the last call whose end nobody has looked at
  const char* open_end_ = nullptr;
  std::uint32_t open_number_ = 0;
  std::uint32_t number_ = 0;
  bool leader_noted_ = false;  // the stamps of one line of a block stand for all
  bool cut_ = false;
  bool joining_ = false;
};

// Reads the arguments that the tracker needs; false if this call changes nothing.
bool Extractor::fill(Event& event) const {
  if (event.shape != Shape::resumed && !fill_first(event)) return false;
  if (event.op == Op::fcntl && event.shape == Shape::resumed && event.result.value < 3)
    return false;
  if (event.op == Op::pair || event.op == Op::create || event.op == Op::socket ||
      event.op == Op::accept || event.op == Op::memfd || event.op == Op::iouring) {
    const std::string_view all = view(event.arguments, event.arguments_end);
    event.cloexec |= contains(all, "CLOEXEC");
  }
  return true;
}

bool Extractor::fill_first(Event& event) const {
  const char* p = event.arguments;
  const char* const end = event.arguments_end;
  Arguments arguments(p, end);
  std::string_view argument;
  const auto number = [&](std::int64_t& value) {
    if (!arguments.next(argument)) return false;
    const FdArgument fd = read_fd(argument);
    value = fd.number;
    return fd.valid;
  };
  switch (event.op) {
    case Op::openat:
    case Op::unlinkat:
      if (starts(p, end, "AT_FDCWD, \"")) {
        event.a = kWorkingDirectory;
        p = take_string(p + 10, end, event.text);
      } else {
        if (!number(event.a) || !arguments.next(argument)) return true;
        bool quoted;
        event.text = quoted_part(argument, quoted);
        p = argument.data() + argument.size();
      }
      event.flags =
          p < end ? view(p, skip_argument(p + 1 < end ? p + 1 : end, end)) : std::string_view{};
      while (!event.flags.empty() && (event.flags[0] == ',' || event.flags[0] == ' ')) {
        event.flags.remove_prefix(1);
      }
      event.cloexec = has_flag(event.flags, "O_CLOEXEC", kCloexec);
      return true;
    case Op::open:
    case Op::creat:
    case Op::chdir:
    case Op::unlink:
    case Op::rmdir: {
      if (!arguments.next(argument)) return true;
      bool quoted;
      event.text = quoted_part(argument, quoted);
      if (event.op == Op::open && arguments.next(event.flags)) {
        event.cloexec = has_flag(event.flags, "O_CLOEXEC", kCloexec);
      }
      return true;
    }
    case Op::close:
    case Op::fchdir:
    case Op::pidfd_open:
    case Op::read:
    case Op::accept:
      return number(event.a);
    case Op::write:
      if (calls_.at(event.call).first == 0) return number(event.a);
      {
        const unsigned index = calls_.at(event.call).first;
        const FdArgument fd = read_fd(argument_at(view(p, end), index));
        event.a = fd.number;
        return fd.valid;
      }
    case Op::dup:
      if (!number(event.a)) return false;
      if (number(event.b) && arguments.next(argument)) {
        event.cloexec = has_flag(argument, "O_CLOEXEC", kCloexec);
      }
      return true;
    case Op::fcntl: {
      if (!number(event.a) || !arguments.next(argument)) return false;
      const char* word = argument.data();
      const std::int64_t raw = read_number(word, argument.data() + argument.size());
      const bool is_raw = word != argument.data();
      if (argument.starts_with("F_DUPFD") || contains(argument, " F_DUPFD") ||
          (is_raw && (raw == 0 || raw == 1030))) {
        event.b = 1;
        event.cloexec = contains(argument, "CLOEXEC") || (is_raw && raw == 1030);
        return true;
      }
      if (argument.starts_with("F_SETFD") || (is_raw && raw == 2)) {
        event.b = 2;
        event.cloexec = arguments.next(argument) && has_flag(argument, "FD_CLOEXEC", 1);
        return true;
      }
      return false;
    }
    case Op::ioctl: {
      if (!number(event.a) || !arguments.next(argument)) return false;
      const bool set = contains(argument, "FIOCLEX") || argument.starts_with("0x5451");
      const bool clear = contains(argument, "FIONCLEX") || argument.starts_with("0x5450");
      event.cloexec = set;
      return set || clear;
    }
    case Op::close_range:
      if (!number(event.a) || !arguments.next(argument)) return false;
      event.b = read_fd(argument).number;  // ~0U, 4294967295, -1: to the last
      if (argument.starts_with("~") || event.b < 0) event.b = -1;
      if (arguments.next(argument)) {
        event.cloexec = has_flag(argument, "CLOSE_RANGE_CLOEXEC", 4);
        event.flags = argument;
      }
      return true;
    case Op::mmap: {
      // The kernel puts an anonymous mapping where nothing is, unless it is told where.
      const std::string_view all = view(p, end);
      if (contains(all, "MAP_ANONYMOUS") && !contains(all, "MAP_FIXED")) return false;
      const std::string_view fd = argument_at(view(p, end), 4);
      const FdArgument read = read_fd(fd);
      event.a = read.valid ? read.number : -1;
      return true;
    }
    case Op::self:
      return event.result.present && event.result.value > 0;
    default:
      return true;
  }
}

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

void Extractor::slow_leader(const char* line, const char* end) {
  const Leader leader = read_leader(line, end);
  note(leader);
  leader_noted_ = true;
}

void Extractor::slow(const char* line, const char* end) {
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
        if (!joining_) {
          open_ = line;
          open_end_ = stop;
          open_number_ = number_;
        }
        ++counts.calls;
        if (exact) {  // strace was killed in the middle of the line: the call had begun
          out_.begun.at(event.pid) = {event.pid,  number_, line,         stop,
                                      Half::here, true,    event.has_pid};
          counts.halves = true;
        }
        return;
      }
      open_ = nullptr;
      ++counts.calls;
      finish(event);
      return;
    }
    case Shape::entry:
    case Shape::detached: {
      remember(line, stop, read.leader.pid, read.leader.has_pid);
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
      if (stop[-1] != '?') slot.half = Half::none;
      return;
    }
    case Shape::signal:
    case Shape::exit: {
      Event event = event_of();
      event.text = view(read.leader.body, read.end);
      ++(read.shape == Shape::exit ? counts.exits : counts.signals);
      if (read.shape == Shape::exit) {
        Begun& slot = out_.begun.at(event.pid);
        take_half(event, slot);
        slot.half = Half::none;
      }
      event.call = kUnknownCall;
      event.op = Op::none;
      out_.events.push_back(event);
      return;
    }
    case Shape::trace:
      counts.traces = true;
      ++counts.remarks;
      return;
    case Shape::summary:
      counts.summary = true;
      ++counts.remarks;
      return;
    case Shape::notice:
    case Shape::dump:
    case Shape::diagnostic:
    case Shape::empty:
      ++counts.remarks;
      return;
    case Shape::rest:
    case Shape::text:
    case Shape::open:
      if (!joining_ && glue(line, stop)) return;
      break;
  }
  if (out_.first_unparsed.empty()) {
    out_.first_unparsed.assign(line,
                               std::min<std::size_t>(200, static_cast<std::size_t>(end - line)));
    out_.first_unparsed_number = number_;
  }
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
    if (!head.ends_with(word)) continue;
    const std::size_t at = head.rfind("strace: Process ");
    if (at != std::string_view::npos) head = head.substr(0, at);
  }
  out_.side.emplace_back(head);
  std::string& whole = out_.side.back();
  whole.append(view(rest, end));
  const std::size_t size = whole.size();
  whole.append(kPadding, '\0');
  const Line read = read_line(whole.data(), whole.data() + size);
  if (read.shape != Shape::call && read.shape != Shape::entry && read.shape != Shape::detached) {
    out_.side.pop_back();
    return false;
  }
  out_.counts.output += number_ - open_number_;  // this line, and those between
  const std::uint32_t here = number_;
  number_ = open_number_;
  joining_ = true;
  --out_.counts.calls;  // the first half was counted as one
  general(read, whole.data(), whole.data() + size, false);
  joining_ = false;
  number_ = here;
  open_ = nullptr;
  return true;
}

}  // namespace

void BegunTable::reset() noexcept {
  std::fill(slots_.begin(), slots_.end(), Begun{});
  used_ = 0;
}

std::size_t BegunTable::place(std::uint32_t pid) const noexcept {
  std::size_t at = (pid * 2654435761U) & (slots_.size() - 1);
  while (slots_[at].used && slots_[at].pid != pid) at = (at + 1) & (slots_.size() - 1);
  return at;
}

Begun& BegunTable::at(std::uint32_t pid) {
  if (2 * used_ > slots_.size()) {
    std::vector<Begun> old(2 * slots_.size());
    old.swap(slots_);
    for (const Begun& slot : old) {
      if (slot.used) slots_[place(slot.pid)] = slot;
    }
  }
  Begun& slot = slots_[place(pid)];
  if (!slot.used) {
    ++used_;
    slot.used = true;
    slot.pid = pid;
  }
  return slot;
}

void Counts::add(const Counts& other) noexcept {
  lines += other.lines;
  calls += other.calls;
  signals += other.signals;
  exits += other.exits;
  remarks += other.remarks;
  output += other.output;
  unparsed += other.unparsed;
  pids |= other.pids;
  brackets |= other.brackets;
  times |= other.times;
  relative |= other.relative;
  epochs |= other.epochs;
  durations |= other.durations;
  annotations |= other.annotations;
  colors |= other.colors;
  traces |= other.traces;
  summary |= other.summary;
  halves |= other.halves;
}

void Extract::reset() {
  events.clear();
  side.clear();
  forks.clear();
  begun.reset();
  counts = {};
  statistics.assign(statistics.size(), {});
  other_calls.clear();
  first_unparsed.clear();
  first_unparsed_number = 0;
}

void extract(const char* begin, const char* end, const Wanted& wanted, Extract& out) {
  out.reset();
  Extractor(wanted, out).run(begin, end);
}

}  // namespace pm::strace
