#include "strace/summary.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace pm::strace {
namespace {

constexpr std::size_t kLongestWords = 400;
constexpr std::size_t kLongestFolder = 1024;
constexpr std::uint64_t kLinesOfTraceback = 400;
constexpr std::uint64_t kVain = 100'000'000;  // ns that a call must have waited for its EAGAIN

// Failures that are a way to ask, or to wait: no process ends of them.
bool is_noise(std::string_view error, std::string_view name) noexcept {
  constexpr std::string_view kErrors[] = {"EAGAIN", "EINTR",       "EINPROGRESS", "ENOTTY",
                                          "ECHILD", "EWOULDBLOCK", "EALREADY",    "ESPIPE"};
  constexpr std::string_view kCalls[] = {"futex",      "lseek",  "prctl",       "readlink",
                                         "readlinkat", "access", "getpeername", "getsockname"};
  // A lock that somebody else has; and FICLONE between two file systems, a device that fails.
  if (name == "flock" || name.starts_with("fcntl")) return error == "EINVAL" || error == "EINTR";
  if (name == "ioctl" && error == "EINVAL") return true;
  return error.starts_with("ERESTART") ||
         std::find(std::begin(kErrors), std::end(kErrors), error) != std::end(kErrors) ||
         std::find(std::begin(kCalls), std::end(kCalls), name) != std::end(kCalls);
}

std::string words_of(const Target& target) {
  if (!target.path.empty()) return target.path;
  if (!target.label.empty()) return target.label;
  return target.kind == Kind::pipe ? "a pipe" : target.kind == Kind::socket ? "a socket" : "";
}

// All that one write has for its reader: the string of write(), or those of writev()'s vector,
// whose last is looked for no further than `limit`. Marks with … what -s cut.
std::string words_written(std::string_view arguments, std::size_t limit) {
  const std::string_view data = argument_at(arguments, 1);
  const char* const end = data.data() + data.size();
  std::string words;
  std::string part;
  std::string_view rest = data;
  while (words.size() < limit) {
    bool quoted;
    const std::string_view raw = quoted_part(rest, quoted);
    if (!quoted) return words;
    const std::size_t room = limit - words.size();
    unescape(raw.substr(0, room), part);
    words += part;
    const char* const close = raw.data() + raw.size();
    if (starts(close, end, "\"...") || raw.size() > room) words += "…";
    if (close >= end) return words;
    rest = view(close + 1, end);
  }
  return words;
}

}  // namespace

void FolderCount::widen(double time) noexcept {
  constexpr double kHalfDay = 43'200;  // stamps without a date start again at midnight
  if (time < 0) return;
  if (first_time < 0) {
    first_time = last_time = time;
  } else if (time < first_time && first_time - time < kHalfDay) {
    first_time = time;
  } else if (time > last_time || last_time - time > kHalfDay) {
    last_time = time;
  }
}

TaskCall* Summary::tallied(const Task& task, const Tally& tally) {
  auto& calls = processes_.record_of(task).calls;
  auto found = std::find_if(calls.begin(), calls.end(),
                            [&](const TaskCall& one) { return one.call == tally.call; });
  if (found == calls.end()) {
    if (calls.size() >= kMostTalliesOfTask) return nullptr;
    found = calls.emplace(calls.end());
    found->call = tally.call;
  }
  found->calls += tally.calls;
  found->nanoseconds += tally.nanoseconds;
  return &*found;
}

FolderCount& Summary::folder(std::string path) {
  if (path.size() > kLongestFolder) path.resize(kLongestFolder);
  while (folders_.size() >= kMostFolders && path.size() > 1 && !folders_.contains(path)) {
    const std::size_t slash = path.rfind('/');
    path = slash == std::string::npos || slash == 0 ? "/" : path.substr(0, slash);
  }
  return folders_[path];
}

void Summary::absorb(const Extract& block, const BlockOrigin& origin) {
  const Tallies& tallies = block.tallies;
  if (first_time_ < 0) first_time_ = tallies.first_time;
  if (tallies.last_time >= 0 && (origin.file == 0 || tallies.last_time > last_time_)) {
    last_time_ = tallies.last_time;
  }
  if (!options_.statistics) return;
  tallies.calls.each([&](const Tally& tally) {
    const Task* task = processes_.find(tally.pid, origin.file_pid);
    if (!task) {  // all that the block has of it is nobody's event
      Event event;
      event.pid = tally.pid;
      event.has_pid = tally.pid != 0;
      task = &processes_.task_of(event, origin.file_pid);
    }
    processes_.record_of(*task).recorded = true;
    TaskCall* const call = tallied(*task, tally);
    if (!call) return;
    call->brought += tally.brought;
    call->again += tally.again;
    if (tally.last.empty()) return;
    call->last = origin.place(tally.last_number);
    const bool asks = pace_of(tally.call) != Pace::work || call_at(tally.call).name == "ioctl";
    if (!asks) return;
    const char* const end = tally.last.data() + tally.last.size();
    const Line read = read_line(tally.last.data(), end);  // blocks are padded
    call->text =
        view(read.arguments ? read.name.data() : tally.last.data(), end).substr(0, kLongestWords);
  });
  tallies.folders.each([&](const FolderTally& tally) {
    std::string path;
    unescape(tally.folder, path);
    if (tally.pid != kAbsolute) {
      const Task* const task = processes_.find(tally.pid, origin.file_pid);
      if (task && task->directory->known) {
        std::string whole = task->directory->path.get();
        whole += '/';
        whole += path;
        path = std::move(whole);
      }
      if (path.empty()) path.assign(1, '.');
    }
    FolderCount& count = folder(normal_path(std::move(path)));
    count.calls += tally.calls;
    count.errors += tally.errors;
    count.nanoseconds += tally.nanoseconds;
    if (!block.counts.times) return;
    // A stamp is short, and blocks are padded.
    count.widen(time_of(tally.first, tally.first + kPadding));
    count.widen(time_of(tally.last, tally.last + kPadding));
  });
}

void Summary::looked_up(const Task& task, const Event& event) {
  const std::string arguments = full_arguments(task, event);
  bool quoted;
  const FdArgument under = read_fd(argument_at(arguments, 0));
  const std::string_view raw = quoted_part(argument_at(arguments, 1), quoted);
  if (!quoted || raw.empty()) return;
  std::string path = files_.resolve(task, under, raw);
  const std::size_t slash = path.rfind('/');
  path = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  FolderCount& count = folder(std::move(path));
  ++count.calls;
  count.errors += event.result.failed();
  count.nanoseconds += event.nanoseconds;
  count.widen(time_of(event.line, event.end));
}

void Summary::measure(const Task& task, Event& event) {
  if (!task.begun || event.half != Half::elsewhere) return;
  const char* const line = task.begun_line.data();
  const double from = time_of(line, line + task.begun_line.size());
  const double to = time_of(event.line, event.end);
  if (from < 0 || to < 0) return;
  event.nanoseconds = nanoseconds_between(from, to);
  event.timed = true;
  if (!options_.statistics || event.call == kUnknownCall) return;
  Tally tally;
  tally.call = event.call;
  tally.nanoseconds = event.nanoseconds;
  tallied(task, tally);
  late_nanoseconds_.resize(call_count());
  late_nanoseconds_[event.call] += event.nanoseconds;
  event.slow = event.nanoseconds >= 1'000'000;
}

// The longest calls of each pace are kept. What reads from a pipe or socket waits for somebody.
std::optional<Pace> Summary::makes_room_for(const Task& task, const Event& event) {
  if (!processes_.counted(task)) return std::nullopt;
  Pace pace = pace_of(event.call);
  if (pace == Pace::reading) {
    std::int64_t fd = -1;
    const std::string arguments = full_arguments(task, event);
    const Kind kind = files_.target_of(task, call_at(event.call), arguments, event, fd).kind;
    if (kind == Kind::file) pace = Pace::work;
  }
  auto shortest = slow_.end();
  std::size_t count = 0;
  for (auto at = slow_.begin(); at != slow_.end(); ++at) {
    if (at->pace != pace) continue;
    ++count;
    if (shortest == slow_.end() || at->call.nanoseconds < shortest->call.nanoseconds) shortest = at;
  }
  if (count < kMostSlow) return pace;
  if (shortest->call.nanoseconds >= event.nanoseconds) return std::nullopt;
  slow_.erase(shortest);
  return pace;
}

void Summary::timed_out(const Task& task, const Event& event, Place place) {
  if (!processes_.counted(task)) return;
  const std::string arguments = full_arguments(task, event);
  const std::string name(call_at(event.call).name);
  std::vector<std::int64_t> numbers = waits_.descriptors_of(task, name, arguments);
  if (event.op != Op::wait) numbers = {read_fd(argument_at(arguments, 0)).number};

  std::string target;
  for (const std::int64_t number : numbers) {
    std::string words = words_of(files_.target_of_fd(task, {true, number, {}, false}));
    if (words.empty()) words.append("descriptor ").append(std::to_string(number));
    if (target.size() < kLongestWords) {
      if (!target.empty()) target.append(", ");
      target.append(words);
    }
    const std::int32_t description = task.table->at(number);
    if (description == kNone) continue;
    sockets_.silent(description, event, name + "(" + arguments, place);
  }
  std::string key = name;
  key.append(1, '\n').append(target);
  const auto found = timeout_index_.find(key);
  if (found == timeout_index_.end()) {
    if (timeouts_.size() >= kMostTimeouts) return;
    timeout_index_.emplace(key, timeouts_.size());
    timeouts_.push_back(
        {name, target, name + "(" + arguments.substr(0, kLongestWords), 0, 0, place, task.pid});
  }
  Timeout& one = timeouts_[found == timeout_index_.end() ? timeouts_.size() - 1 : found->second];
  ++one.count;
  one.nanoseconds += event.nanoseconds;
}

void Summary::failed(Task& task, std::string_view name, const Event& event, std::string_view path,
                     std::string_view flags, Place place) {
  const std::string_view error = event.result.error;
  if (error == "EAGAIN" && event.nanoseconds >= kVain && event.op == Op::read) {
    timed_out(task, event, place);
  }
  if (error == "EINTR") interrupted(task, event);
  if (event.result.injected || is_noise(error, name)) return;
  Process& process = processes_.leader_record_of(task);
  const Place& traceback = process.traceback;
  if (error == "ENOENT" && traceback.line != 0 && traceback.file == place.file &&
      place.line - traceback.line < kLinesOfTraceback) {
    return;
  }
  LastFailure& made = process.last_failures.add();
  made.error.assign(error);
  made.syscall.assign(name);
  made.path.assign(path.substr(0, kLongestFolder));
  made.place = place;
  made.pid = task.pid;
  made.direct = contains(flags, "O_DIRECT") && !contains(flags, "O_DIRECTORY");
}

void Summary::interrupted(Task& task, const Event& event) {
  if (event.call == kUnknownCall) return;
  const std::string arguments = full_arguments(task, event);
  const Call& call = call_at(event.call);
  Interruption& broken = task.signals().broken;
  broken = {};
  broken.syscall = std::string(call.name);
  broken.nanoseconds = event.nanoseconds;
  std::vector<std::int64_t> numbers = waits_.descriptors_of(task, call.name, arguments);
  std::int64_t fd = -1;
  Target target;
  if (numbers.empty()) {
    target = files_.target_of(task, call, arguments, event, fd);
  } else {
    target = files_.target_of_fd(task, {true, numbers[0], {}, false});
  }
  std::string& words = broken.target;
  words = words_of(target);
  if (words.size() > kLongestWords) words.resize(kLongestWords);
}

// Keeps the first signals that ask a process to end: a program that handles them may end of
// something else, and its wait was over then.
void Summary::signalled(Task& task, std::string_view name, Place place) {
  constexpr std::string_view kAsking[] = {"SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGXCPU"};
  Signals& signals = task.signals();
  const Interruption broken = std::exchange(signals.broken, {});
  // A timer may tick for ever: only the tick that ends the process counts.
  if (name == "SIGALRM" || name == "SIGVTALRM" || name == "SIGPROF") {
    signals.alarm = broken;
    signals.alarm.signal = std::string(name);
    signals.alarm.place = place;
    signals.alarm.pid = task.pid;
    return;
  }
  if (std::find(std::begin(kAsking), std::end(kAsking), name) == std::end(kAsking)) return;
  auto& all = processes_.leader_record_of(task).interruptions;
  const bool own = signals.sender != 0 && signals.sender == task.leader;
  if (all.size() >= kMostInterruptions || own) return;
  all.push_back(broken);
  all.back().signal = std::string(name);
  all.back().sender = signals.sender;
  all.back().place = place;
  all.back().pid = task.pid;
}

void Summary::said(const Task& task, const Event& event, Place place) {
  if (!event.arguments || !processes_.counted(task)) return;
  std::string words = words_written(full_arguments(task, event), kLongestWords);
  if (words.empty()) return;
  Process& process = processes_.leader_record_of(task);
  if (words.ends_with("…")) words.append("\n");
  if (words.starts_with("Traceback (most recent")) process.traceback = place;
  LastWord* const before = process.last_words.newest();
  // A line that is written letter by letter, or in the parts of a stream's operators.
  if (before && !before->words.ends_with("\n") &&
      before->words.size() + words.size() <= kLongestWords) {
    before->words += words;
    return;
  }
  process.last_words.add() = {std::move(words), place};
}

}  // namespace pm::strace
