// Second phase: replays the events of a log in order. Each kind of fact is kept by a class of its
// own; the tracker says which of them a line concerns.
#pragma once

#include <optional>
#include <unordered_set>

#include "strace/hits.h"
#include "strace/observer.h"

namespace pm::strace {

class Tracker {
 public:
  explicit Tracker(TrackerOptions options);
  ~Tracker();
  Tracker(const Tracker&) = delete;
  Tracker& operator=(const Tracker&) = delete;

  void replay(const Extract& block, const BlockOrigin& origin);
  void apply(const Event& event, const BlockOrigin& origin);
  // Keeps the calls that had begun where a block ends, as its text goes away, and adds what was
  // counted of it.
  void end_block(const Extract& block, const BlockOrigin& origin);
  void finish();

  Processes& processes() noexcept { return processes_; }
  const Processes& processes() const noexcept { return processes_; }
  FileTables& files() noexcept { return files_; }
  const FileTables& files() const noexcept { return files_; }
  const Sockets& sockets() const noexcept { return sockets_; }
  Waits& waits() noexcept { return waits_; }
  const Summary& summary() const noexcept { return summary_; }
  const Hits& hits() const noexcept { return hits_; }
  std::uint64_t unmatched_halves() const noexcept { return lone_halves_; }

 private:
  void apply_call(Task& task, const Event& event, const BlockOrigin& origin);
  void began(Task& task, const Event& event, Place place);
  void ended(Task& task, const Event& event, Place place);
  void effect(Task& task, const Event& event, const Opened& by);
  void effect_of_success(Task& task, const Event& event, const Opened& by);
  void effect_of_any(Task& task, const Event& event, const Opened& by);
  void signalled(Task& task, const Event& event, Place place);
  void exited(Task& task, const Event& event, const BlockOrigin& origin);
  void keep_aborted(const Extract& block, const BlockOrigin& origin);
  void keep_begun(const Extract& block, const BlockOrigin& origin);
  void went_on(const Extract& block, const BlockOrigin& origin);

  TrackerOptions options_;
  Descriptions descriptions_;
  Processes processes_;
  FileTables files_;
  Sockets sockets_;
  Waits waits_;
  Summary summary_;
  Hits hits_;
  std::uint64_t lone_halves_ = 0;
  std::uint32_t open_pid_ = 0;  // in a call whose line the last block broke off
  bool open_ = false;
  std::unordered_set<std::uint32_t> interrupted_;  // tasks whose begun call is to be made again
  std::uint32_t aborted_ = 0;    // the record of a task that SIGABRT was the last that it was told
  std::optional<Ending> abort_;  // its end, if no line tells another one
};

}  // namespace pm::strace
