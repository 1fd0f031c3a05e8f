// What a replay leaves of a log: hits, processes, files and failures, as a report takes them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "strace/descriptors.h"
#include "strace/shared.h"
#include "strace/summary_records.h"

namespace pm::strace {

// The last ones of many: the oldest gives its room to the newest.
template <class T, std::size_t most>
class Ring {
 public:
  T& add() {
    if (kept_.size() < most) return kept_.emplace_back();
    T& oldest = kept_[next_];
    next_ = (next_ + 1) % most;
    return oldest;
  }
  std::size_t size() const noexcept { return kept_.size(); }
  T* newest() {
    return kept_.empty() ? nullptr : &kept_[(next_ + kept_.size() - 1) % kept_.size()];
  }

  // The oldest first.
  class Iterator {
   public:
    Iterator(const Ring& ring, std::size_t at) : ring_(ring), at_(at) {}
    const T& operator*() const { return ring_.kept_[(ring_.next_ + at_) % ring_.kept_.size()]; }
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    bool operator!=(const Iterator& other) const { return at_ != other.at_; }

   private:
    const Ring& ring_;
    std::size_t at_;
  };
  Iterator begin() const { return {*this, 0}; }
  Iterator end() const { return {*this, size()}; }

 private:
  std::vector<T> kept_;
  std::size_t next_ = 0;
};

// What a call was about, and how sure that is.
enum class Origin : std::uint8_t { unknown, tracked, annotated, argument };

std::string_view word_of(Kind kind) noexcept;      // "file", "socket", …
std::string_view word_of(Origin origin) noexcept;  // "tracked", "annotated", …

struct Target {
  std::string path;
  Kind kind = Kind::unknown;
  Origin origin = Origin::unknown;
  bool deleted = false;
  bool nameless = false;  // a file of O_TMPFILE: `path` is the directory it is in
  bool guessed = false;
  std::optional<Opened> opened;
  std::string flags;
  std::optional<Opened> given;  // the dup, fork-inherited open, or message that gave this number
  std::uint64_t written_bytes = 0;
  std::uint64_t read_bytes = 0;
  std::string label;
};

// Who made a call, as it was then.
struct Caller {
  std::uint32_t pid = 0;
  std::uint32_t parent = 0;
  std::uint32_t thread_of = 0;
  SharedWords argv;         // it may call exec later
  SharedWords environment;  // RANK=3
};

struct Match {
  Place place;
  std::uint64_t entry_line = 0;  // where the call began, 0 if on the same line
  Caller task;
  double time = -1;
  std::string syscall;  // or the signal
  std::string text;     // the call in full
  std::string error;
  std::int64_t fd = -1;
  Target target;
  bool injected = false;
  bool inferred = false;          // SIGBUS: no errno was returned, but a mapped page had no room
  std::uint64_t nanoseconds = 0;  // that the call took; 0 if not known
  // What was open, and how often, when no more descriptors could be had: the most first.
  std::vector<std::pair<std::string, std::uint64_t>> holders;
};

// A task that has the other end of what somebody waits for.
struct Holder {
  std::uint32_t pid = 0;
  std::int64_t fd = -1;
};

// One descriptor that a blocked call waits for.
struct Awaited {
  std::int64_t fd = -1;
  Target target;
  bool paired = false;  // the other end is known, whether or not anybody holds it
  std::vector<Holder> holders;
  std::uint64_t holder_count = 0;
};

struct Blocked {
  Place place;
  std::string syscall;
  std::string text;
  std::optional<Target> target;
  double since = -1;
  std::vector<Awaited> awaited;
  std::optional<FutexUse> futex;
};

struct Ending {
  std::optional<int> code;
  std::string signal;
  bool core = false;
  Place place;
  std::uint32_t sender = 0;  // of the signal, if the log shows it
  std::string fault;         // what a signal that the processor raised tells: {si_signo=…, …}
  double time = -1;
  bool told = true;  // false: by its call to exit(), the log has no line for its end (strace -qq)
};

struct ExitCall {
  int code = 0;
  Place place;
};

// One task from its start to its end; a pid that comes back is another one.
struct Process {
  std::uint32_t pid = 0;
  std::uint32_t parent = 0;
  std::uint32_t thread_of = 0;  // 0: it is no thread
  SharedWords argv;
  bool argv_known = false;
  std::optional<Ending> ending;
  std::unique_ptr<Blocked> blocked;  // large, and most wait for nothing
  std::optional<ExitCall> exit_call;
  double began = -1;
  bool recorded = false;    // the log has a line of it
  SharedWords environment;  // RANK=3, SLURM_PROCID=3, … of it
  std::vector<TaskCall> calls;
  std::vector<Interruption> interruptions;
  Ring<LastFailure, kMostLastFailures> last_failures;  // of its threads too
  Ring<LastWord, kMostLastWords> last_words;           // what was written to descriptor 2
  std::vector<std::string> open_for_writing;           // files, when it ended badly
  std::string stopped;  // by which signal, where nothing has made it go on since
  Place traceback;      // where Python began to print one: it looks for its sources then
};

// Files that are counted; what comes after is left out of the totals by file.
constexpr std::size_t kMostFiles = 50'000;
constexpr std::size_t kLongestText = 4096;  // of a call that an answer quotes

struct FileCount {
  std::uint64_t opens = 0;
  std::uint64_t read_bytes = 0;
  std::uint64_t written_bytes = 0;
  std::uint64_t errors = 0;
  std::uint64_t reads = 0;
  std::uint64_t writes = 0;
};

// A call that took long.
struct SlowCall {
  Match call;
  Pace pace = Pace::work;
};

struct Failure {  // of one (error, call, target)
  std::string error;
  std::string syscall;
  std::string path;
  Kind kind = Kind::unknown;
  std::uint64_t count = 0;
  std::uint64_t injected = 0;
  Place first;
  std::uint32_t pid = 0;
  bool found_later = false;
};

// How the file tables fared against the annotations of -y.
struct Check {
  std::uint64_t uses = 0;
  std::uint64_t right = 0;
  std::uint64_t wrong = 0;
  std::uint64_t unknown = 0;
  std::vector<std::string> examples;
};

}  // namespace pm::strace
