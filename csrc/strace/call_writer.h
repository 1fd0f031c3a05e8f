// Every call of a log as lines of CSV or JSON.
#pragma once

#include "strace/feed.h"
#include "strace/output.h"

namespace pm::strace {

enum class CallForm : std::uint8_t { csv, ndjson };

class CallWriter final : public Sink {
 public:
  // `texts`: with the call in full. It may hold anything, so it is for those who mask nothing.
  CallWriter(int descriptor, CallForm form, Mask mask, bool texts);

  void begin(const LogLabel& label) override;
  void call(const CallRecord& call, const Tracker& tracker) override;
  void close() override { out_.flush(); }
  std::uint64_t calls() const noexcept { return calls_; }

 private:
  void number(std::string_view name, std::int64_t value);
  void seconds(std::string_view name, std::int64_t nanoseconds);
  void text(std::string_view name, std::string_view value);
  void nothing(std::string_view name);
  void key(std::string_view name);

  OutputFile out_;
  CallForm form_;
  MaskedTexts masked_;
  bool texts_;
  std::vector<std::string> files_;
  std::string line_;
  std::uint64_t calls_ = 0;
};

}  // namespace pm::strace
