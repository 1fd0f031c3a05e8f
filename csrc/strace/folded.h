// Time by process, thread, call and target, as flamegraph.pl and speedscope read it: one line for
// each stack, `process;thread;syscall;target weight`.
#pragma once

#include "strace/feed.h"
#include "strace/output.h"

namespace pm::strace {

class Folded final : public Sink {
 public:
  Folded(int descriptor, Mask mask,
         std::function<std::string(const std::vector<std::string>&)> name);

  void begin(const LogLabel& label) override;
  void call(const CallRecord& call, const Tracker& tracker) override;
  void ended(const SignalRecord& record, const Tracker& tracker) override;
  void finish(const Tracker& tracker) override;
  void close() override;

  // Whether the weights are microseconds; else the log has no durations (-T), and they are calls.
  bool timed() const noexcept { return timed_; }
  std::size_t stacks() const noexcept { return stacks_.size(); }
  std::uint64_t calls() const noexcept { return calls_; }

 private:
  // Beyond this, targets are put together.
  static constexpr std::size_t kMostStacks = 500'000;
  struct Weight {
    std::uint64_t nanoseconds = 0;
    std::uint64_t calls = 0;
  };
  const std::string& head_of(const CallRecord& call, const Tracker& tracker);

  OutputFile out_;
  MaskedTexts masked_;
  std::function<std::string(const std::vector<std::string>&)> name_;
  std::unordered_map<std::uint32_t, std::string> heads_;  // by process
  std::unordered_map<std::string, Weight> stacks_;
  std::string key_;
  std::uint64_t calls_ = 0;
  std::uint64_t timed_calls_ = 0;  // with -T
  bool timed_ = false;
};

}  // namespace pm::strace
