// What a line of a log is, told from the line alone.
#pragma once

#include <string_view>

#include "strace/text.h"

namespace pm::strace {

// The grammar is that of strace 5 to 7: printleader() and print_event_exit() in its strace.c.
enum class Shape : std::uint8_t {
  call,        // name(arguments) = result
  entry,       // name(arguments <unfinished ...>
  detached,    // name(arguments <detached ...>: strace let go of the process
  resumed,     // <... name resumed>rest) = result
  dead,        // <... name resumed> <unfinished ...>) = ?: the task died inside the call
  open,        // name(arguments and nothing more: the log is cut, or something is glued in
  signal,      // --- SIGBUS {…} ---
  exit,        // +++ exited with 0 +++
  notice,      // [ Process PID=7 runs in 32 bit mode. ]
  trace,       //  > library(symbol+0x1) [0x2], of -k
  dump,        //  | 00000  7f 45 …, of -e read= and write=
  summary,     // a row of the table of -c and -C
  diagnostic,  // strace: Process 7 attached
  rest,        // ) = 0, or ` <unfinished ...>`: what follows something glued in
  empty,
  text,  // anything else
};

struct Leader {
  const char* body = nullptr;
  std::uint32_t pid = 0;
  bool has_pid = false;
  std::string_view time;      // of -t, -tt, -ttt
  std::string_view relative;  // of -r
  bool bracketed = false;     // [pid 7]
};

// Reads what stands before the event. kPadding bytes behind `end` must be readable.
Leader read_leader(const char* line, const char* end) noexcept;

struct Line {
  Leader leader;
  Shape shape = Shape::text;
  std::string_view name;            // of the call
  const char* arguments = nullptr;  // behind the bracket, or behind `resumed>`
  const char* end = nullptr;        // of the arguments: before ` <unfinished ...>`
};

// Reads a whole line without its newline. A call is not asked here whether it has a result: that is
// read_result()'s to say.
Line read_line(const char* line, const char* end) noexcept;

// Seconds of a time stamp: since the epoch for -ttt, since midnight for -t and -tt; negative if it
// is none.
double seconds_of(std::string_view time) noexcept;

// From one stamp to a later one. Those of -t and -tt have no date: past midnight they start again.
std::uint64_t nanoseconds_between(double from, double to) noexcept;

// Seconds of the stamp of a line, which may be as long as it wants; negative without one.
double time_of(const char* line, const char* end);

}  // namespace pm::strace
