// What the summary of a log holds beside hits, failures and tasks. All of it is bounded.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "strace/descriptors.h"
#include "strace/tallies.h"

namespace pm::strace {

// How much is kept; what comes after is only counted, or not at all where that is said.
constexpr std::size_t kMostConnections = 20'000;
constexpr std::size_t kMostTimeouts = 2'000;
constexpr std::size_t kMostFolders = 20'000;   // more are counted with the folder above them
constexpr std::size_t kMostSlow = 40;          // of each pace
constexpr std::size_t kMostLastFailures = 24;  // of a process
constexpr std::size_t kMostLastWords = 12;
constexpr std::size_t kMostInterruptions = 4;
constexpr std::size_t kMostNameMessages = 400;
constexpr std::size_t kMostTalliesOfTask = 96;

// A connection that a process made or took.
struct Connection {
  std::uint32_t pid = 0;
  std::int64_t fd = -1;
  std::string peer;
  std::string result;  // "connected", "accepted", an errno name, "EINPROGRESS", "timeout"
  Place place;
  std::uint64_t nanoseconds = 0;  // of the call, or of the wait in which it timed out
  bool in_progress = false;       // connect() itself said EINPROGRESS
  bool name_server = false;       // port 53
  bool asked = false;             // something was sent since something came last
  // Waits for it that came back with nothing since something came last.
  std::uint32_t silent_waits = 0;
  std::uint64_t silent_nanoseconds = 0;
  Place silent;             // the last of them
  std::string silent_text;  // the last of them
};

// What a process wrote to descriptor 2.
struct LastWord {
  std::string words;
  Place place;
};

// What was sent to a name server, or came from it.
struct NameMessage {
  std::uint32_t pid = 0;
  Place place;
  bool answer = false;
  std::string data;  // as strace wrote it, without its quotes
  std::string peer;  // to whom or from whom, where the call itself says so
};

// Waits that came back with nothing: no call failed, but time was lost.
struct Timeout {
  std::string syscall;
  std::string target;  // what it waited for, in words; empty if that is not known
  std::string text;    // of the first
  std::uint64_t count = 0;
  std::uint64_t nanoseconds = 0;
  Place first;
  std::uint32_t pid = 0;
};

struct FolderCount {
  std::uint64_t calls = 0;
  std::uint64_t errors = 0;
  std::uint64_t nanoseconds = 0;
  double first_time = -1;
  double last_time = -1;
  // Takes in a time at which one was made; negative is none.
  void widen(double time) noexcept;
};

// Who did what last with a futex.
struct FutexUse {
  std::uint32_t woken_by = 0;
  Place woken;
  std::uint32_t passed_by = 0;
  Place passed;
};

// A failed call of a process, kept in case it is what the process ended of.
struct LastFailure {
  std::string error;
  std::string syscall;
  std::string path;
  Place place;
  std::uint32_t pid = 0;
  bool direct = false;  // of a file that was, or was to be, opened with O_DIRECT
};

// A signal that asks a process to end, and the call that it got it out of.
struct Interruption {
  std::string signal;
  std::uint32_t sender = 0;  // 0: the terminal or the kernel
  Place place;
  std::uint32_t pid = 0;
  std::string syscall;  // empty: it was in no call, or in one that just went on
  std::string target;
  std::uint64_t nanoseconds = 0;
};

// What a task spent its time with.
struct TaskCall {
  std::uint16_t call = kUnknownCall;
  std::uint64_t calls = 0;
  std::uint64_t nanoseconds = 0;
  std::uint64_t brought = 0;  // those that returned a number above 0
  std::uint64_t again = 0;    // those that failed with EAGAIN
  Place last;                 // the last wait that found something, or other that brought nothing
  std::string text;           // as the log has that, of what reads or waits
};

}  // namespace pm::strace
