// The first phase at work on one block: which lines are worth an event. The common lines are told
// in extractor.cpp, the odd ones in slow_path.cpp; decode_args.cpp reads the arguments of what is
// kept.
#pragma once

#include <algorithm>

#include "strace/aio.h"
#include "strace/extract.h"
#include "strace/leader_form.h"

namespace pm::strace {

inline constexpr char kFutex[17] = "futex";
inline constexpr char kYield[23] = "sched_yield";

class Extractor {
 public:
  Extractor(const Wanted& wanted, Extract& out) : wanted_(wanted), out_(out) {
    errors_only_ = !wanted.statistics && !wanted.uses && !wanted.every && wanted.only_errors;
    counts_only_ = wanted.statistics && !wanted.uses && !wanted.every && wanted.only_errors;
  }

  void run(const char* begin, const char* end);

 private:
  std::uint64_t accounted() const {
    const Counts& c = out_.counts;
    return c.calls + c.signals + c.exits + c.remarks + c.output;
  }
  bool quick(const char* line, const char* end);

  // Behind the leader of a line that looks like one of the last two that differed; or null.
  const char* known_leader(const char* line) {
    if (const char* const behind = form_.behind(line)) [[likely]]
      return behind;
    const char* const other = other_form_.behind(line);
    if (other) std::swap(form_, other_form_);
    return other;
  }

  // Whether a line ends with a plain number, with or without the duration of -T behind it: what a
  // call returned that worked.
  static bool worked(const char* begin, const char* end) noexcept {
    if (is_digit(end[-1])) return true;
    return end[-1] == '>' && is_digit(end[-2]) && end - begin > 12 && end[-10] == '<' &&
           end[-8] == '.' && is_digit(end[-12]);
  }

  // Counts a call that nobody needs more of.
  void note_open(const char* line, const char* end) {
    open_ = line;
    open_end_ = end;
    open_number_ = number_;
    ++out_.counts.calls;
  }
  bool begun(const char* line, const char* end, std::uint32_t pid, std::uint16_t call,
             const char* arguments);
  bool emit_begun(Event& event);
  void remember(const char* line, const char* end, const char* arguments, std::uint32_t pid,
                bool has_pid);
  bool complete(const char* line, const char* end, std::uint32_t pid, std::uint16_t call,
                const char* arguments);

  // What the end of a line says where only errors are asked for.
  enum class Outcome : std::uint8_t {
    hit,  // it may be an errno that is asked for: `= -1 ENOSPC (No space left on device)`, with a
          // duration or `(INJECTED)` behind it
    failed,  // another errno, for sure
    other,   // no errno that is asked for
  };
  Outcome outcome_of(const char* begin, const char* end) const noexcept;
  // The last opening bracket between two places of the block, not far before `end`; or null.
  const char* last_bracket(const char* begin, const char* end) const noexcept;
  bool may_be_hit(const char* begin, const char* end) const noexcept {
    return outcome_of(begin, end) == Outcome::hit;
  }
  bool changes(const char* line, const char* end, std::uint32_t pid, std::uint16_t call,
               const char* arguments) const;

  // Takes a call of which no error is asked for, if it ends as nearly all do; else false.
  bool fast_path(const char* line, const char* end, std::uint32_t pid, std::uint16_t call, Op op,
                 const char* arguments);
  void resumed(const char* line, const char* end, std::uint32_t pid, const char* name,
               unsigned length, const char* rest);

  static void take_half(Event& event, const Begun& slot) {
    event.half = slot.half;
    if (slot.half != Half::here) return;
    event.entry = slot.line;
    event.entry_end = slot.end;
    event.entry_arguments = slot.arguments;
    event.entry_number = slot.number;
  }
  void finish(Event& event);

  bool wanted_op(Op op) const noexcept {
    return op != Op::none && (op < Op::read || wanted_.statistics);
  }
  void describe(Event& event, const char* line, const char* end, std::uint32_t pid,
                std::uint16_t call, Shape shape, const char* arguments, const char* stop) const;
  Event make(const char* line, const char* end, std::uint32_t pid, std::uint16_t call, Shape shape,
             const char* arguments, const char* stop) const {
    Event event;
    describe(event, line, end, pid, call, shape, arguments, stop);
    return event;
  }
  void uses(const Event& event);

  // The end of a line whose call worked: ` = 17 <0.000012>`.
  struct Tail {
    std::int64_t value = 0;
    std::uint64_t nanoseconds = 0;
    bool timed = false;
  };
  static bool read_tail(const char* begin, const char* end, Tail& tail) noexcept;

  bool plain(const char* line, const char* end, std::uint32_t pid, std::uint16_t call,
             const char* arguments, const Tail& tail, const Begun* half = nullptr);
  std::uint64_t between(const char* first, const char* first_end, const char* last,
                        const char* last_end) const;
  void time(Event& event) const;
  void count(Event& event);
  bool look_up(const char* line, std::uint32_t pid, const Call& call, const char* arguments,
               const char* end, std::uint64_t nanoseconds, bool failed);
  void futex(std::uint32_t pid, const char* arguments, const char* end, std::int64_t value);
  void note_times(const char* begin);
  bool decode_args(Event& event) const;
  bool decode_first_args(Event& event) const;
  static bool idle(Op op, const char* arguments, const char* end) noexcept;
  void slow_path(const char* line, const char* end);
  void general(const Line& read, const char* line, const char* end, bool exact);
  void keep_open();
  void leave(Begun& slot, const Result& result, const char* end);
  bool rejoin(const char* line, const char* end);
  bool glue(const char* line, const char* end);
  const std::string& side_by_side(std::string_view head, std::string_view rest);
  void joined(const std::string& whole, std::uint32_t first);
  void note(const Leader& leader);
  // Whether a call that returns a number above 0 tells that something is there to be taken.
  bool finds(std::uint16_t call) const noexcept {
    return paces_[call] == Pace::waiting && call != futex_ && call != yield_;
  }

  const Wanted& wanted_;
  Extract& out_;
  const CallTable& calls_ = CallTable::get();
  const Pace* const paces_ = paces();
  const std::uint8_t* const lookups_ = lookups();
  const std::uint16_t futex_ = find_call(kFutex, 5);
  const std::uint16_t yield_ = find_call(kYield, 11);
  bool errors_only_ = false;  // nothing is asked but errors: most lines need no more than their end
  bool counts_only_ = false;  // beside errors all calls are counted
  const char* begin_ = nullptr;
  const char* open_ = nullptr;  // the last call whose end nobody has looked at
  const char* open_end_ = nullptr;
  std::uint32_t open_number_ = 0;
  std::string_view unparsed_;  // the last line that was none of a log
  std::uint32_t unparsed_number_ = 0;
  std::uint32_t number_ = 0;
  std::uint32_t begun_pid_ = 0;  // of the last call that began on a line of its own
  LeaderForm form_;              // of the last line
  LeaderForm other_form_;        // of the last one that was another
  bool cut_ = false;
  bool joining_ = false;
};

}  // namespace pm::strace
