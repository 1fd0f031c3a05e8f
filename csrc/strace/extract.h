// First phase: a block of lines to the few events that the tracker needs. It looks at one block
// alone, so that many run at once; what a line means in the history of its task is for replay.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "strace/calls.h"
#include "strace/line.h"
#include "strace/result.h"
#include "strace/tallies.h"

namespace pm::strace {

// Calls that are asked for: all that is set must hold. Of a list one is enough.
struct Query {
  std::vector<std::string> errors;  // errno names
  std::vector<std::string> calls;   // names of calls
  std::int64_t pid = -1;
  std::int64_t fd = -1;
  std::string path;              // a pattern of glob(7) in which * stands for / too
  std::uint64_t slower = 0;      // nanoseconds
  std::vector<bool> call_holds;  // by index; filled by prepare()
  // Whether a call may be a hit, by all that is known without what came before.
  bool may_hold(const struct Event& event) const noexcept;
};

// What the reader of a log is asked for.
struct Wanted {
  std::vector<Query> queries;
  bool statistics = false;          // count every call, follow every byte
  std::vector<std::string> errors;  // of all queries
  bool only_errors = true;          // no query asks for a call that worked
  bool durations = false;           // a query asks how long calls took
  bool every = false;               // every call that ended is an event
  bool uses = false;                // every annotated descriptor, for the check of the tracker
  void prepare();
};

// Where the other half of a call is, as far as this block can tell.
enum class Half : std::uint8_t { elsewhere, none, here };

struct Event {
  const char* line = nullptr;
  const char* end = nullptr;        // of the line
  const char* arguments = nullptr;  // behind the bracket or behind `resumed>`
  const char* arguments_end = nullptr;
  const char* entry = nullptr;  // the line on which this call began, if in this block
  const char* entry_end = nullptr;
  const char* entry_arguments = nullptr;
  std::string_view text;   // raw path
  std::string_view flags;  // of an open
  Result result;
  std::uint64_t nanoseconds = 0;  // that the call took; 0 if the log does not tell
  std::int64_t a =
      -1;  // what decode_first_args() reads of the arguments, by the call: a descriptor, …
  std::int64_t b = -1;
  std::uint32_t pid = 0;
  std::uint32_t number = 0;  // of the line in its block, from 0
  std::uint32_t entry_number = 0;
  std::uint16_t call = kUnknownCall;
  Op op = Op::none;
  Shape shape = Shape::text;
  Half half = Half::elsewhere;
  bool has_pid = false;
  bool bracketed = false;
  bool cloexec = false;
  bool hit = false;
  bool use = false;     // an annotated descriptor: a is its number, text its annotation
  bool slow = false;    // among the longest of its block
  bool folder = false;  // looks up a path below a descriptor, to be counted
  bool timed = true;    // false: how long it took can only be told by the line it began on
};

// The last call of a task that began in a block; `half` is `none` where it ended in it too.
struct Begun {
  std::uint32_t pid = 0;
  std::uint32_t number = 0;
  const char* line = nullptr;
  const char* end = nullptr;
  const char* arguments = nullptr;
  Half half = Half::elsewhere;
  bool used = false;
  bool has_pid = false;
  bool idle = false;  // neither its begin nor its end changes anything
  bool open = false;  // its line has no end, and the block goes no further
  // It ended with ERESTART…: its task is in it until it makes another one.
  bool interrupted = false;
};

// The last begun call of each task: an open table, reset for each block.
class BegunTable {
 public:
  BegunTable() { slots_.resize(64); }
  void reset() noexcept;
  Begun& at(std::uint32_t pid) {
    Begun& first = slots_[home(pid)];
    return first.used && first.pid == pid ? first : find(pid);
  }
  const std::vector<Begun>& slots() const noexcept { return slots_; }

 private:
  std::size_t home(std::uint32_t pid) const noexcept {
    return (pid * 2654435761U) & (slots_.size() - 1);
  }
  std::size_t place(std::uint32_t pid) const noexcept;
  Begun& find(std::uint32_t pid);
  std::vector<Begun> slots_;
  std::size_t used_ = 0;
};

struct CallCount {
  std::uint64_t calls = 0;
  std::uint64_t errors = 0;
  std::uint64_t nanoseconds = 0;
};

// How many lines were of each kind, and what the log was recorded with.
struct Counts {
  std::uint64_t lines = 0;
  std::uint64_t calls = 0;
  std::uint64_t signals = 0;
  std::uint64_t exits = 0;
  std::uint64_t remarks = 0;  // strace's own words, stack traces, dumps, tables
  std::uint64_t output = 0;   // lines of the program between the halves of a glued call
  std::uint64_t unparsed = 0;
  bool pids = false;
  bool brackets = false;
  bool times = false;
  bool relative = false;
  bool epochs = false;
  bool durations = false;
  bool detached = false;  // strace let go of a task
  bool cut = false;       // the log ends in the middle of a line
  bool annotations = false;
  bool colors = false;
  bool traces = false;
  bool summary = false;
  bool halves = false;
  void add(const Counts& other) noexcept;
  std::uint64_t understood() const noexcept { return calls + signals + exits; }
};

// The last task that was told of SIGABRT and made no call after it, in this block.
struct Aborted {
  bool is = false;
  std::uint32_t pid = 0;
  std::uint32_t number = 0;
  void called(std::uint32_t by) noexcept { is &= by != pid; }
};

struct Extract {
  std::vector<Event> events;
  std::deque<std::string> side;  // lines that were put together or freed of colours
  BegunTable begun;
  Counts counts;
  Tallies tallies;
  Aborted aborted;
  std::uint32_t interrupted = 0;                               // slots of `begun` that are
  std::vector<std::pair<std::string, CallCount>> other_calls;  // by name
  std::vector<std::pair<std::uint32_t, std::uint32_t>> forks;  // parent, child, of resumed forks
  std::vector<std::uint32_t> newlines;                         // scratch
  std::string first_unparsed;
  std::uint32_t first_unparsed_number = 0;
  void called(std::uint32_t by) {
    aborted.called(by);
    if (interrupted == 0) return;
    Begun& slot = begun.at(by);
    if (!slot.interrupted) return;
    slot.interrupted = false;
    slot.half = Half::none;
    --interrupted;
  }
  void reset();
};

// Fills `out` from [begin, end), whole lines; the last may lack its newline if the log ends there.
// kPadding bytes behind `end` must be readable.
void extract(const char* begin, const char* end, const Wanted& wanted, Extract& out);

// Offsets of the newlines in [begin, end).
void find_newlines(const char* begin, const char* end, std::vector<std::uint32_t>& out);

}  // namespace pm::strace
