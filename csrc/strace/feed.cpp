#include "strace/feed.h"

#include <algorithm>

namespace pm::strace {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kDay = 86'400 * kSecond;
constexpr std::int64_t kLongest = 1'000'000 * kSecond;  // of a call; more is no duration

// The stamp of a line whose end may be near the end of its block.
std::string_view stamp_of(std::string_view line, std::string& copy) {
  copy.assign(line.substr(0, 256));
  const std::size_t size = copy.size();
  copy.append(kPadding, '\0');
  return read_leader(copy.data(), copy.data() + size).time;
}

bool never_returns(std::string_view call) noexcept {
  return call == "exit" || call == "exit_group";
}

bool same_place(const Place& a, const Place& b) noexcept {
  return a.file == b.file && a.line == b.line;
}

}  // namespace

std::int64_t nanoseconds_of(std::string_view stamp) noexcept {
  const char* p = stamp.data();
  const char* const end = p + stamp.size();
  std::uint64_t whole = 0;
  if (stamp.empty() || !read_digits(p, end, whole)) return kNoTime;
  for (unsigned part = 0; part < 2 && p < end && *p == ':'; ++part) {
    std::uint64_t more = 0;
    if (whole > 1'000'000 || !read_digits(++p, end, more) || more > 60) return kNoTime;
    whole = whole * 60 + more;
  }
  if (whole > 9'000'000'000ULL) return kNoTime;
  std::uint64_t fraction = 0;
  if (p < end && *p == '.') {
    unsigned digits = 0;
    for (++p; p < end && is_digit(*p) && digits < 9; ++p, ++digits) {
      fraction = fraction * 10 + static_cast<unsigned>(*p - '0');
    }
    for (; digits < 9; ++digits) fraction *= 10;
  }
  return static_cast<std::int64_t>(whole) * kSecond + static_cast<std::int64_t>(fraction);
}

std::int64_t Clock::at(std::string_view stamp) noexcept {
  std::int64_t time = nanoseconds_of(stamp);
  if (time == kNoTime) return kNoTime;
  if (stamp.size() > 2 && stamp[2] == ':') {
    time += days_;
    if (latest_ != kNoTime && time < latest_ - kDay / 2) {
      days_ += kDay;
      time += kDay;
    } else if (time > latest_ + kDay / 2 && days_ > 0) {
      time -= kDay;  // a call that began before midnight
    }
  }
  latest_ = std::max(latest_, time);
  return time;
}

std::int64_t CallRecord::bytes() const noexcept {
  if (call == kUnknownCall || !result.known || result.value < 0) return 0;
  const Op op = call_at(call).op;
  if (op != Op::read && op != Op::write && op != Op::sendmsg && op != Op::recvmsg) return 0;
  return name.ends_with("mmsg") ? 0 : result.value;  // those count messages
}

void CallRecord::look() const {
  if (looked_) return;
  looked_ = true;
  if (!event_) {
    const Blocked blocked = tracker_->waits().blocked_in(*task_, begun_line_, place);
    arguments_ = blocked.text;
    if (blocked.target) target_ = *blocked.target;
    return;
  }
  if (call == kUnknownCall) return;
  const Call& what = call_at(call);
  if (what.role == Role::none) return;
  std::string_view arguments;
  if (event_->shape == Shape::resumed) {
    arguments_ = full_arguments(*task_, *event_);
    arguments = arguments_;
  } else {
    arguments = view(event_->arguments, event_->arguments_end);
  }
  // What the annotations say against it is told of failures alone, as without an export.
  FileTables& files = tracker_->files();
  const FileTables::QuietCheck quiet(files);
  target_ = files.target_of(*task_, what, arguments, *event_, fd_);
}

const Target& CallRecord::target() const {
  look();
  return target_;
}

std::int64_t CallRecord::fd() const {
  look();
  return fd_;
}

std::string CallRecord::text() const {
  std::string whole;
  if (!event_) {
    look();
    whole = arguments_;
  } else {
    whole = std::string(name) + "(";
    whole += event_->shape == Shape::resumed ? full_arguments(*task_, *event_)
                                             : view(event_->arguments, event_->arguments_end);
  }
  if (whole.size() > kLongestText) {
    whole =
        whole.substr(0, kLongestText / 2) + " … " + whole.substr(whole.size() - kLongestText / 2);
  }
  return whole;
}

const std::string& MaskedTexts::operator()(const std::string& text) {
  if (!mask_ || text.empty()) return text;
  const auto found = known_.find(text);
  if (found != known_.end()) return found->second;
  if (known_.size() >= kMost) known_.clear();
  return known_.emplace(text, mask_(text)).first->second;
}

std::string target_words(const Target& target) {
  if (target.path.empty()) return target.label;
  if (target.nameless) return "a nameless file in " + target.path;
  return target.deleted ? target.path + " (deleted)" : target.path;
}

Feed::Feed(LogLabel label, std::vector<Sink*> sinks, Learn learn)
    : label_(std::move(label)), sinks_(std::move(sinks)), learn_(std::move(learn)) {
  for (Sink* const sink : sinks_) sink->begin(label_);
}

void Feed::seen(Tracker& tracker, Task& task, const Event& event, const BlockOrigin& origin) {
  const Place place = origin.place(event.number);
  if (learn_ && !executed_.empty() && executed_.erase(task.process)) {
    learn_(tracker.processes().record_of(task).argv);
  }
  if (event.shape == Shape::signal || event.shape == Shape::exit) {
    if (event.shape == Shape::exit) ended(tracker, task, event, origin);
    if (event.text.starts_with("+++ superseded")) return;
    const SignalRecord record{place, task.pid, task.process,
                              clock_.at(read_leader(event.line, event.end).time), event.text};
    for (Sink* const sink : sinks_) {
      event.shape == Shape::exit ? sink->ended(record, tracker) : sink->signal(record, tracker);
    }
    return;
  }
  CallRecord record;
  record.tracker_ = &tracker;
  record.task_ = &task;
  record.event_ = &event;
  record.place = place;
  record.pid = task.pid;
  record.process = task.process;
  record.call = event.call;
  record.name =
      event.call != kUnknownCall ? call_at(event.call).name : read_line(event.line, event.end).name;
  record.result = event.result;
  const std::int64_t stamp = clock_.at(read_leader(event.line, event.end).time);
  record.duration = nanoseconds_of(event.result.seconds);
  if (record.duration > kLongest) record.duration = kNoTime;
  if (event.shape != Shape::resumed) {
    record.began = place.line;
    record.start = stamp;
  } else {
    std::string_view entry;
    if (event.half == Half::here) {
      entry = view(event.entry, event.entry_end);
      record.began = origin.first_line + event.entry_number;
    } else if (event.half == Half::elsewhere && task.begun) {
      entry = task.begun_line;
      record.began = task.begun_place.line;
    }
    std::string copy;
    if (!entry.empty()) record.start = clock_.at(stamp_of(entry, copy));
    if (record.duration == kNoTime && record.start != kNoTime && stamp >= record.start) {
      record.duration = stamp - record.start;
    } else if (record.start == kNoTime && stamp != kNoTime) {
      record.start = stamp - std::max<std::int64_t>(record.duration, 0);
    }
  }
  // `= ?`: its task was killed in it. The calls by which a task ends never return either.
  record.unfinished =
      !record.result.known && record.result.error.empty() && !never_returns(record.name);
  if (!record.result.known) told_[task.pid] = {origin.file, record.began};
  for (Sink* const sink : sinks_) sink->call(record, tracker);
  if (learn_ && event.op == Op::exec && !record.failed()) executed_.insert(task.process);
}

void Feed::ended(Tracker& tracker, Task& task, const Event& event, const BlockOrigin& origin) {
  if (event.half == Half::here) {
    unfinished(tracker, task, view(event.entry, event.entry_end), origin.place(event.entry_number));
  } else if (event.half == Half::elsewhere && task.begun) {
    unfinished(tracker, task, task.begun_line, task.begun_place);
  }
  told_.erase(task.pid);
}

void Feed::unfinished(Tracker& tracker, Task& task, std::string_view line, Place place) {
  const auto told = told_.find(task.pid);
  if (told != told_.end() && same_place(told->second, place)) return;
  std::string padded(line);
  padded.append(kPadding, '\0');
  std::string plain;
  std::string_view text(padded.data(), line.size());
  if (line.find('\x1b') != std::string_view::npos) {
    strip_colors(line, plain);
    text = {plain.data(), plain.size()};
    plain.append(kPadding, '\0');
    text = {plain.data(), text.size()};
  }
  const Line read = read_line(text.data(), text.data() + text.size());
  if (!read.arguments) return;
  CallRecord record;
  record.tracker_ = &tracker;
  record.task_ = &task;
  record.begun_line_ = line;
  record.place = place;
  record.began = place.line;
  record.pid = task.pid;
  record.process = task.process;
  record.call = find_call(read.name.data(), read.name.size());
  record.name = record.call != kUnknownCall ? call_at(record.call).name : read.name;
  record.start = clock_.at(read.leader.time);
  record.unfinished = !never_returns(record.name);
  for (Sink* const sink : sinks_) sink->call(record, tracker);
}

void Feed::finished(Tracker& tracker) {
  std::vector<Task*> left;
  for (const auto& [pid, task] : tracker.processes().tasks()) {
    if (task->live && task->begun) left.push_back(task.get());
  }
  std::sort(left.begin(), left.end(), [](const Task* a, const Task* b) { return a->pid < b->pid; });
  for (Task* const task : left) {
    unfinished(tracker, *task, task->begun_line, task->begun_place);
  }
  for (Sink* const sink : sinks_) sink->finish(tracker);
}

}  // namespace pm::strace
