// What nobody asked for by name: where time went, which folders were searched, and what processes
// failed at and said last.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "strace/file_tables.h"
#include "strace/sockets.h"
#include "strace/waits.h"

namespace pm::strace {

class Summary {
 public:
  Summary(const TrackerOptions& options, Processes& processes, FileTables& files, Sockets& sockets,
          const Waits& waits)
      : options_(options), processes_(processes), files_(files), sockets_(sockets), waits_(waits) {}

  // Adds what was counted of a block, behind its replay.
  void absorb(const Extract& block, const BlockOrigin& origin);
  // Where the first half is in another block, the stamps of both lines say how long a call took.
  void measure(const Task& task, Event& event);
  // The pace at which a call was too slow for those that are kept; nothing if it was not.
  std::optional<Pace> makes_room_for(const Task& task, const Event& event);
  void keep_slow(SlowCall call) { slow_.push_back(std::move(call)); }
  // A path below a descriptor: its folder is known only here.
  void looked_up(const Task& task, const Event& event);
  // A wait that came back with nothing.
  void timed_out(const Task& task, const Event& event, Place place);
  // `path` and `flags` are those of the file that it is about.
  void failed(Task& task, std::string_view name, const Event& event, std::string_view path,
              std::string_view flags, Place place);
  // A call that a signal ended: the signal is on the next line of the task.
  void interrupted(Task& task, const Event& event);
  void signalled(Task& task, std::string_view name, Place place);
  // What a process wrote to its standard error: its own word on why it ended.
  void said(const Task& task, const Event& event, Place place);

  const std::vector<SlowCall>& slow() const noexcept { return slow_; }
  const std::vector<Timeout>& timeouts() const noexcept { return timeouts_; }
  const std::unordered_map<std::string, FolderCount>& folders() const noexcept { return folders_; }
  // By call: of halves in different blocks.
  const std::vector<std::uint64_t>& late_nanoseconds() const noexcept { return late_nanoseconds_; }
  double first_time() const noexcept { return first_time_; }
  double last_time() const noexcept { return last_time_; }

 private:
  FolderCount& folder(std::string path);
  // Null where a task has too many kinds of calls.
  TaskCall* tallied(const Task& task, const Tally& tally);

  const TrackerOptions& options_;
  Processes& processes_;
  FileTables& files_;
  Sockets& sockets_;
  const Waits& waits_;
  std::vector<SlowCall> slow_;
  std::vector<Timeout> timeouts_;
  std::unordered_map<std::string, std::size_t> timeout_index_;
  std::unordered_map<std::string, FolderCount> folders_;
  std::vector<std::uint64_t> late_nanoseconds_;
  double first_time_ = -1;
  double last_time_ = -1;
};

}  // namespace pm::strace
