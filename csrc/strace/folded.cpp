#include "strace/folded.h"

#include <algorithm>

namespace pm::strace {
namespace {

// A frame of a stack: `;` parts frames, a newline stacks.
void append_frame(std::string& out, std::string_view text) {
  const std::size_t from = out.size();
  append_printable(out, text);
  std::replace(out.begin() + static_cast<std::ptrdiff_t>(from), out.end(), ';', ':');
}

}  // namespace

Folded::Folded(int descriptor, Mask mask,
               std::function<std::string(const std::vector<std::string>&)> name)
    : out_(descriptor), masked_(std::move(mask)), name_(std::move(name)) {}

void Folded::begin(const LogLabel&) { heads_.clear(); }

const std::string& Folded::head_of(const CallRecord& call, const Tracker& tracker) {
  const auto found = heads_.find(call.process);
  if (found != heads_.end()) return found->second;
  const Process& process = tracker.processes().records()[call.process];
  const std::uint32_t leader = process.thread_of ? process.thread_of : call.pid;
  std::string head;
  const std::string name = process.argv.empty() ? std::string() : name_(process.argv);
  append_frame(head, name.empty() ? "process" : name);
  if (leader) head.append(" [").append(std::to_string(leader)).append("]");
  head += ";thread";
  if (call.pid) head.append(" ").append(std::to_string(call.pid));
  head.push_back(';');
  return heads_.emplace(call.process, std::move(head)).first->second;
}

void Folded::call(const CallRecord& call, const Tracker& tracker) {
  const bool has_time = call.duration != kNoTime;
  ++calls_;
  timed_calls_ += !call.result.seconds.empty();
  key_ = head_of(call, tracker);
  append_frame(key_, call.name);
  const std::size_t without_target = key_.size();
  const Target& target = call.target();
  if (!target.path.empty() || !target.label.empty()) {
    key_.push_back(';');
    append_frame(key_, masked_(target_words(target)));
  } else if (call.fd() >= 0) {
    key_ += ";an unknown file";
  }
  auto found = stacks_.find(key_);
  if (found == stacks_.end() && stacks_.size() >= kMostStacks) {
    key_.resize(without_target);
    key_ += ";(others)";
    found = stacks_.find(key_);
  }
  Weight& weight = found != stacks_.end() ? found->second : stacks_[key_];
  ++weight.calls;
  if (has_time) weight.nanoseconds += static_cast<std::uint64_t>(call.duration);
  // What runs behind an execve() has another name.
  if (call.call != kUnknownCall && call_at(call.call).op == Op::exec && !call.failed()) {
    heads_.erase(call.process);
  }
}

void Folded::ended(const SignalRecord& record, const Tracker&) { heads_.erase(record.process); }

void Folded::finish(const Tracker&) { heads_.clear(); }

void Folded::close() {
  // Halves of calls have times without -T too, but only theirs: a picture of those would mislead.
  timed_ = timed_calls_ > 0 && 2 * timed_calls_ >= calls_;
  std::vector<const std::pair<const std::string, Weight>*> rows;
  rows.reserve(stacks_.size());
  for (const auto& row : stacks_) rows.push_back(&row);
  std::sort(rows.begin(), rows.end(),
            [](const auto* a, const auto* b) { return a->first < b->first; });
  for (const auto* row : rows) {
    const std::uint64_t weight =
        timed_ ? (row->second.nanoseconds + 500) / 1000 : row->second.calls;
    if (weight == 0) continue;
    out_.add(row->first);
    out_.add(" ");
    out_.add(std::to_string(weight));
    out_.add("\n");
  }
  out_.flush();
}

}  // namespace pm::strace
