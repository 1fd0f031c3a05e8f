// Calls that were asked for and calls that failed, each with what it was about.
#include <fnmatch.h>

#include <algorithm>

#include "strace/task.h"
#include "strace/tracker.h"

namespace pm::strace {
namespace {

constexpr std::size_t kMostFailures = 20'000;
constexpr std::size_t kMostTallies = 4;

std::string_view name_of(const Event& event) {
  return event.call != kUnknownCall ? call_at(event.call).name
                                    : read_line(event.line, event.end).name;
}

}  // namespace

// A call with all that a reader of the report will ask of it.
Match Tracker::match_of(Task& task, const Event& event, const Context& context) {
  Match match;
  match.place = {context.file, context.first_line + event.number};
  if (event.shape == Shape::resumed) {
    if (event.half == Half::here) {
      match.entry_line = context.first_line + event.entry_number;
    } else if (event.half == Half::elsewhere && task.begun) {
      match.entry_line = task.begun_place.line;
    }
  }
  const Process& process = processes_[task.process];
  match.pid = task.pid;
  match.argv = process.argv;
  match.rank = process.rank;
  match.parent = process.parent;
  match.thread_of = process.thread_of;
  match.time = time_of(event.line, event.end);
  match.nanoseconds = event.nanoseconds;
  const std::string arguments = full_arguments(task, event);
  match.syscall = std::string(name_of(event));
  match.text = match.syscall + "(" + arguments;
  if (match.text.size() > kLongestText) {
    match.text = match.text.substr(0, kLongestText / 2) + " … " +
                 match.text.substr(match.text.size() - kLongestText / 2);
  }
  match.error = std::string(event.result.error);
  match.injected = event.result.injected;
  if (event.call != kUnknownCall) {
    match.target = target_of(task, call_at(event.call), arguments, event, match.fd);
  }
  return match;
}

// Whether a query holds, now that the target is known too.
bool Tracker::asked(const Match& match, const Event& event) const {
  return std::any_of(options_.queries.begin(), options_.queries.end(), [&](const Query& query) {
    return query.may_hold(event) && (query.pid < 0 || query.pid == match.pid) &&
           (query.fd < 0 || query.fd == match.fd) &&
           (query.slower == 0 || event.nanoseconds >= query.slower) &&
           (query.path.empty() ||
            (!match.target.path.empty() &&
             fnmatch(query.path.c_str(), match.target.path.c_str(), FNM_NOESCAPE) == 0));
  });
}

void Tracker::hit(Task& task, const Event& event, const Context& context) {
  if (!counted(task)) return;
  const bool all =
      std::all_of(options_.queries.begin(), options_.queries.end(),
                  [](const Query& q) { return q.pid < 0 && q.fd < 0 && q.path.empty(); });
  std::string kind(event.result.error);  // failures of one call, or calls asked for by their name
  if (event.call != kUnknownCall) kind += call_at(event.call).name;
  std::size_t& kept = kept_[kind];
  if (all && (matches_.size() >= options_.most_matches || kept >= options_.most_of_one)) {
    ++match_count_;
    return;
  }
  Match match = match_of(task, event, context);
  if (!asked(match, event)) return;
  ++match_count_;
  ++kept;
  if (event.result.error == "EMFILE" && kept <= kMostTallies) match.holders = holders(task);
  if (matches_.size() < options_.most_matches) matches_.push_back(std::move(match));
}

void Tracker::failed(Task& task, const Event& event, const Context& context) {
  if (!counted(task)) return;
  const std::string_view name = name_of(event);
  Target target;
  const Description* const plain = plain_file(task, event);
  if (!plain && event.call != kUnknownCall) {
    std::int64_t fd = -1;
    std::string room;
    const std::string_view arguments = full_arguments(task, event, room);
    target = target_of(task, call_at(event.call), arguments, event, fd);
  }
  const std::string& path = plain ? plain->path : target.path;
  const std::string_view error = event.result.error;
  const std::uint64_t hash = hash_text(hash_text(hash_text(seed_, error), name), path);
  const std::uint32_t found = failure_index_.find(hash, [&](std::uint32_t place) {
    const Failure& failure = failures_[place];
    return failure.path == path && failure.syscall == name && failure.error == error;
  });
  if (found != HashIndex::kNowhere) {
    Failure& failure = failures_[found];
    ++failure.count;
    failure.injected += event.result.injected;
  } else if (failures_.size() < kMostFailures) {
    failure_index_.add(hash, static_cast<std::uint32_t>(failures_.size()));
    Failure failure;
    failure.error = std::string(error);
    failure.syscall = std::string(name);
    failure.path = path;
    failure.kind = plain ? plain->kind : target.kind;
    failure.count = 1;
    failure.injected = event.result.injected;
    failure.first = {context.file, context.first_line + event.number};
    failure.pid = task.pid;
    failures_.push_back(std::move(failure));
  }
  const std::string_view flags = plain ? plain->flags : target.flags;
  last_failed(task, name, event, path, event.flags.empty() ? flags : event.flags, context);
}

// The open file that a failed call is about, where that takes no more than its first argument:
// `ioctl(3, TCGETS, 0x7ffd…) = -1 ENOTTY`. Null where target_of() must look.
const Description* Tracker::plain_file(Task& task, const Event& event) const {
  if (event.call == kUnknownCall || event.shape == Shape::resumed) return nullptr;
  const Call& call = call_at(event.call);
  if (call.role != Role::fd || call.first != 0) return nullptr;
  const char* at = event.arguments;
  std::uint32_t number = 0;
  if (!read_short(at, number) || (*at != ',' && *at != ')')) return nullptr;
  const std::int32_t one = task.table->at(number);
  if (one == kNone) return nullptr;
  const Description& file = descriptions_.at(one);
  return file.kind == Kind::file && !file.base ? &file : nullptr;
}

// Adds to each file what failed on it; one that is not there is none.
void Tracker::failed_on_files() {
  for (const Failure& failure : failures_) {
    if (failure.path.empty() || failure.kind != Kind::file) continue;
    const auto file = files_.find(failure.path);
    if (file != files_.end()) {
      file->second.errors += failure.count;
    } else if (files_.size() < kMostFiles && failure.error != "ENOENT") {
      files_[failure.path].errors += failure.count;
    }
  }
}

}  // namespace pm::strace
