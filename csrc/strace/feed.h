// Every call of a log with its times and target, made once for all who export it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "strace/observer.h"
#include "strace/tracker.h"

namespace pm::strace {

constexpr std::int64_t kNoTime = -1;  // nanoseconds that the log does not tell

// Nanoseconds of a time stamp of -t, -tt, -ttt, or of -T; kNoTime if it is none.
std::int64_t nanoseconds_of(std::string_view stamp) noexcept;

// Makes one clock of the stamps of a log. Those of -t and -tt have no date: where they fall by
// more than half a day, midnight has passed.
class Clock {
 public:
  std::int64_t at(std::string_view stamp) noexcept;

 private:
  std::int64_t days_ = 0;
  std::int64_t latest_ = kNoTime;
};

class Feed;

// One call. It is good only while the sink is told of it.
class CallRecord {
 public:
  Place place;              // of the line on which it ended, or began if it did not end
  std::uint64_t began = 0;  // line on which it began; 0 if that is not in the log
  std::uint32_t pid = 0;
  std::uint32_t process = 0;  // among Processes::records()
  std::int64_t start = kNoTime;
  std::int64_t duration = kNoTime;
  std::uint16_t call = kUnknownCall;
  std::string_view name;
  Result result;
  bool unfinished = false;  // it never returned: its task died, or the log ends

  bool joined() const noexcept { return began != 0 && began != place.line; }
  bool failed() const noexcept { return result.failed(); }
  // Bytes that it moved: what a read or write returned.
  std::int64_t bytes() const noexcept;
  // What it was about, by the rules of the tracker; followed when it is first asked for.
  const Target& target() const;
  std::int64_t fd() const;
  // The call in full, with the result.
  std::string text() const;

 private:
  friend class Feed;
  void look() const;
  Tracker* tracker_ = nullptr;
  Task* task_ = nullptr;
  const Event* event_ = nullptr;  // null for one that did not end
  std::string_view begun_line_;
  mutable bool looked_ = false;
  mutable std::int64_t fd_ = -1;
  mutable Target target_;
  mutable std::string arguments_;
};

struct SignalRecord {
  Place place;
  std::uint32_t pid = 0;
  std::uint32_t process = 0;
  std::int64_t time = kNoTime;
  std::string_view body;  // --- SIGBUS {…} --- or +++ exited with 0 +++
};

struct LogLabel {
  std::string name;                // of the recording
  std::vector<std::string> files;  // of which it is made
};

// Takes what a feed tells. It may be given to one log after another.
class Sink {
 public:
  Sink() = default;
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;
  virtual ~Sink() = default;
  virtual void begin(const LogLabel&) {}
  virtual void call(const CallRecord& call, const Tracker& tracker) = 0;
  virtual void signal(const SignalRecord&, const Tracker&) {}
  // The end of a task. Its index among the processes may be given to another one afterwards.
  virtual void ended(const SignalRecord&, const Tracker&) {}
  virtual void finish(const Tracker&) {}  // the log is over
  virtual void close() {}                 // there is no other
};

// Masks what looks secret in a text that goes out.
using Mask = std::function<std::string(std::string_view)>;
using Learn = std::function<void(const std::vector<std::string>& argv)>;

// A mask that remembers its answers.
class MaskedTexts {
 public:
  explicit MaskedTexts(Mask mask) : mask_(std::move(mask)) {}
  const std::string& operator()(const std::string& text);

 private:
  static constexpr std::size_t kMost = 100'000;  // then it forgets all
  Mask mask_;
  std::unordered_map<std::string, std::string> known_;
  std::string plain_;
};

// A target in a few words, as the reports call it.
std::string target_words(const Target& target);

class Feed final : public Observer {
 public:
  // `learn` is told of every command line that runs, before the calls behind its execve(): what is
  // secret in it is masked from then on.
  Feed(LogLabel label, std::vector<Sink*> sinks, Learn learn = nullptr);
  void seen(Tracker& tracker, Task& task, const Event& event, const BlockOrigin& origin) override;
  void finished(Tracker& tracker) override;

 private:
  void ended(Tracker& tracker, Task& task, const Event& event, const BlockOrigin& origin);
  void unfinished(Tracker& tracker, Task& task, std::string_view line, Place place);

  LogLabel label_;
  std::vector<Sink*> sinks_;
  Learn learn_;
  std::unordered_set<std::uint32_t> executed_;  // processes whose command line is new
  Clock clock_;
  // Calls that are known never to return, by task: they are told when `= ?` is seen, and not again
  // when the task ends.
  std::unordered_map<std::uint32_t, Place> told_;
};

}  // namespace pm::strace
