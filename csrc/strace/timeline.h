// A timeline in the protobuf of Perfetto (protos/perfetto/trace in its sources): a track for each
// process and thread, slices for calls, names written once. It opens in ui.perfetto.dev.
#pragma once

#include <unordered_set>

#include "strace/feed.h"
#include "strace/output.h"
#include "strace/protobuf.h"

namespace pm::strace {

struct TimelineOptions {
  bool all = false;                       // every call; else those that are long or failed
  std::int64_t shortest = 1'000'000;      // nanoseconds of a call that is long
  std::unordered_set<std::string> quiet;  // errors that are no failures: EAGAIN
};

class Timeline final : public Sink {
 public:
  using Name = std::function<std::string(const std::vector<std::string>&)>;
  using Words = std::function<std::vector<std::string>(const std::vector<std::string>&)>;

  // Events go to `descriptor`. `words` masks a command line, `name` makes a short name of one.
  Timeline(int descriptor, Mask mask, Name name, Words words, TimelineOptions options);

  void begin(const LogLabel& label) override;
  void call(const CallRecord& call, const Tracker& tracker) override;
  void signal(const SignalRecord& record, const Tracker& tracker) override;
  void ended(const SignalRecord& record, const Tracker& tracker) override;
  void finish(const Tracker& tracker) override;
  void close() override { out_.flush(); }

  // The packets that must stand before all others: clocks, and what each track is.
  std::string head() const;

  struct Counts {
    std::uint64_t calls = 0;
    std::uint64_t written = 0;  // of the calls
    std::uint64_t untimed = 0;  // without a time stamp: they have no place on a timeline
    std::uint64_t without_duration = 0;
    std::uint64_t bytes = 0;
  };
  const Counts& counts() const noexcept { return counts_; }
  // Of each log "epoch", "day" or "none".
  const std::vector<std::string>& clocks() const noexcept { return clocks_; }

 private:
  using Texts = std::unordered_map<std::string, std::uint64_t>;
  struct Slice {
    std::uint64_t name = 0;
    std::uint64_t category = 0;
    std::string annotations;  // fields of the event, ready
  };
  // What is known of a task while it lives.
  struct Lane {
    std::uint64_t track = 0;    // its calls
    std::uint64_t process = 0;  // its process: only of a first thread
    std::uint32_t pid = 0;
    std::uint32_t leader = 0;
    std::uint32_t parent = 0;
    std::int64_t first = kNoTime;
    std::int64_t last = kNoTime;
    std::int64_t busy = kNoTime;  // end of its last slice
    bool used = false;            // it has slices
    SharedWords argv;
    std::string rank;           // its number, empty if its environment does not tell
    std::optional<Slice> open;  // a call that never returned
    std::int64_t open_since = kNoTime;
  };

  Lane& lane_of(std::uint32_t process, std::uint32_t pid, const Tracker& tracker);
  std::int64_t placed(std::int64_t time);
  void touch(Lane& lane, std::int64_t from, std::int64_t to);
  bool wanted(const CallRecord& call) const;
  Slice slice_of(const CallRecord& call);
  void close_lane(Lane& lane, std::int64_t end, std::string_view how);
  static void learn(Lane& lane, const Process& known);
  void describe(const Lane& lane);
  std::uint32_t shown_pid(std::uint32_t pid);

  enum class Type : std::uint8_t { begin = 1, end = 2, instant = 3 };
  void event(std::int64_t time, Type type, std::uint64_t track, const Slice* slice);
  std::uint64_t interned(Texts& texts, std::uint32_t field, std::string_view text);
  void annotate(std::string& to, std::string_view key, std::string_view value);
  void annotate(std::string& to, std::string_view key, std::int64_t value);
  Slice named(std::string_view category, std::string_view name);

  OutputFile out_;
  MaskedTexts masked_;
  Mask mask_;
  Name name_;
  Words words_;
  TimelineOptions options_;
  Counts counts_;
  std::vector<std::string> clocks_;
  std::string head_;
  std::string label_;
  std::vector<std::string> files_;
  std::unordered_map<std::uint32_t, Lane> lanes_;            // by process
  std::unordered_map<std::uint32_t, std::uint32_t> owners_;  // of a pid: the log that had it first
  std::uint64_t next_track_ = 1;
  std::uint32_t log_ = 0;
  std::uint32_t texts_left_ = 0;  // calls that may still be written in full
  std::uint64_t described_ = 0;
  std::int64_t base_first_ = kNoTime;  // of the first log
  bool base_epoch_ = false;
  std::int64_t shift_ = 0;  // of this log
  std::int64_t log_last_ = kNoTime;
  bool first_packet_ = true;
  Texts categories_, names_, keys_, strings_;
  Proto interned_;  // not written yet
};

}  // namespace pm::strace
