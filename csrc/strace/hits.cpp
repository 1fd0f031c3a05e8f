#include "strace/hits.h"

#include <fnmatch.h>

#include <algorithm>

namespace pm::strace {
namespace {

constexpr std::size_t kMostFailures = 20'000;
constexpr std::size_t kMostTallies = 4;

std::string_view name_of(const Event& event) {
  return event.call != kUnknownCall ? call_at(event.call).name
                                    : read_line(event.line, event.end).name;
}

Caller caller(const Task& task, const Process& process) {
  return {task.pid, process.parent, process.thread_of, process.argv, process.environment};
}

}  // namespace

// A call with all that a reader of the report will ask of it.
Match Hits::match_of(const Task& task, const Event& event, const BlockOrigin& origin) {
  Match match;
  match.place = origin.place(event.number);
  if (event.shape == Shape::resumed) {
    if (event.half == Half::here) {
      match.entry_line = origin.first_line + event.entry_number;
    } else if (event.half == Half::elsewhere && task.begun) {
      match.entry_line = task.begun_place.line;
    }
  }
  match.task = caller(task, processes_.record_of(task));
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
    match.target = files_.target_of(task, call_at(event.call), arguments, event, match.fd);
  }
  return match;
}

// Whether a query holds, now that the target is known too.
bool Hits::asked(const Match& match, const Event& event) const {
  return std::any_of(options_.queries.begin(), options_.queries.end(), [&](const Query& query) {
    return query.may_hold(event) && (query.pid < 0 || query.pid == match.task.pid) &&
           (query.fd < 0 || query.fd == match.fd) &&
           (query.slower == 0 || event.nanoseconds >= query.slower) &&
           (query.path.empty() ||
            (!match.target.path.empty() &&
             fnmatch(query.path.c_str(), match.target.path.c_str(), FNM_NOESCAPE) == 0));
  });
}

void Hits::may_be_asked(const Task& task, const Event& event, const BlockOrigin& origin) {
  if (!processes_.counted(task)) return;
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
  Match match = match_of(task, event, origin);
  if (!asked(match, event)) return;
  ++match_count_;
  ++kept;
  if (event.result.error == "EMFILE" && kept <= kMostTallies) match.holders = files_.held_by(task);
  if (matches_.size() < options_.most_matches) matches_.push_back(std::move(match));
}

void Hits::failed(Task& task, const Event& event, const BlockOrigin& origin) {
  if (!processes_.counted(task)) return;
  const std::string_view name = name_of(event);
  Target target;
  const Description* const plain = files_.plain_file(task, event);
  if (!plain && event.call != kUnknownCall) {
    std::int64_t fd = -1;
    std::string room;
    const std::string_view arguments = full_arguments(task, event, room);
    target = files_.target_of(task, call_at(event.call), arguments, event, fd);
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
    failure.first = origin.place(event.number);
    failure.pid = task.pid;
    failures_.push_back(std::move(failure));
  }
  const std::string_view flags = plain ? plain->flags : target.flags;
  summary_.failed(task, name, event, path, event.flags.empty() ? flags : event.flags,
                  origin.place(event.number));
}

void Hits::record_signal(const Task& task, const Event& event, Place place, std::string_view name,
                         Target target, bool inferred) {
  if (!processes_.counted(task)) return;
  ++match_count_;
  if (matches_.size() >= options_.most_matches) return;
  Match match;
  match.place = place;
  match.task = caller(task, processes_.record_of(task));
  match.time = seconds_of(read_leader(event.line, event.end).time);
  match.syscall = std::string(name);
  match.text = std::string(event.text.substr(0, kLongestText));
  match.target = std::move(target);
  match.inferred = inferred;
  matches_.push_back(std::move(match));
}

void Hits::failed_within(Task& task, const Event& event, const BlockOrigin& origin) {
  std::string room;
  const std::vector<AioEnd>& ends = files_.requests().take_apart(full_arguments(task, event, room));
  Event one = event;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (ends[i].error.empty()) continue;
    one.b = static_cast<std::int64_t>(i);
    one.result.error = ends[i].error;
    if (event.hit) may_be_asked(task, one, origin);
    if (options_.statistics) failed(task, one, origin);
  }
}

void Hits::slow(const Task& task, const Event& event, const BlockOrigin& origin) {
  if (const auto pace = summary_.makes_room_for(task, event)) {
    summary_.keep_slow({match_of(task, event, origin), *pace});
  }
}

}  // namespace pm::strace
