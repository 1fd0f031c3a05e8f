#include "strace/tracker.h"

#include <algorithm>
#include <utility>

namespace pm::strace {

Tracker::Tracker(TrackerOptions options)
    : options_(std::move(options)),
      processes_(descriptions_, options_.only),
      files_(options_, descriptions_, processes_),
      sockets_(options_, descriptions_, processes_),
      waits_(processes_, files_, descriptions_),
      summary_(options_, processes_, files_, sockets_, waits_),
      hits_(options_, processes_, files_, summary_) {}

// Nobody counts any more what the tables of the tasks close now.
Tracker::~Tracker() { descriptions_.on_close = nullptr; }

void Tracker::replay(const Extract& block, const BlockOrigin& origin) {
  constexpr std::size_t kAhead = 8;  // events: another core has their text, mostly
  const std::vector<Event>& events = block.events;
  if (Task* const task = open_ ? processes_.find(open_pid_) : nullptr) task->begun = false;
  open_ = false;
  went_on(block, origin);
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (i + kAhead < events.size()) __builtin_prefetch(events[i + kAhead].text.data());
    apply(events[i], origin);
  }
  end_block(block, origin);
}

void Tracker::end_block(const Extract& block, const BlockOrigin& origin) {
  keep_begun(block, origin);
  keep_aborted(block, origin);
  summary_.absorb(block, origin);
  if (options_.statistics) waits_.absorb(block.tallies, origin);
}

void Tracker::apply(const Event& event, const BlockOrigin& origin) {
  Task& task = processes_.task_of(event, origin.file_pid);
  if (event.use) {
    files_.check(task, event);
    return;
  }
  Process& process = processes_.record_of(task);
  if (!process.recorded) {
    process.recorded = true;
    process.began = time_of(event.line, event.end);
  }
  if (task.perhaps_thread_of != 0 && event.op != Op::none) processes_.resolve_clone(task, event.op);
  if (!event.timed) {
    Event measured = event;
    summary_.measure(task, measured);
    measured.timed = true;
    apply_call(task, measured, origin);
    return;
  }
  apply_call(task, event, origin);
}

void Tracker::apply_call(Task& task, const Event& event, const BlockOrigin& origin) {
  if (options_.observer && event.shape != Shape::entry) {
    options_.observer->seen(*this, task, event, origin);
  }
  const Place place = origin.place(event.number);
  if (event.shape == Shape::signal) return signalled(task, event, place);
  if (event.shape == Shape::exit) return exited(task, event, origin);
  if (event.shape == Shape::entry) return began(task, event, place);
  if (event.result.within) {
    hits_.failed_within(task, event, origin);
  } else if (event.hit) {
    hits_.may_be_asked(task, event, origin);
  }
  if (options_.statistics) {
    const Result& result = event.result;
    if (result.failed() && !result.within) hits_.failed(task, event, origin);
    if (result.interrupted()) summary_.interrupted(task, event);
    if (event.slow) hits_.slow(task, event, origin);
    if (event.folder) summary_.looked_up(task, event);
    if (event.op == Op::wait) return summary_.timed_out(task, event, place);
  }
  ended(task, event, place);
}

// Tasks whose interrupted call ended an earlier block are in it no more once they make another one.
void Tracker::went_on(const Extract& block, const BlockOrigin& origin) {
  if (interrupted_.empty()) return;
  block.tallies.calls.each([&](const Tally& tally) {
    Task* const task = processes_.find(tally.pid, origin.file_pid);
    if (task && interrupted_.erase(task->pid) != 0) task->begun = false;
  });
}

// Who calls abort() makes no call after it, though its end may not be in the log.
void Tracker::keep_aborted(const Extract& block, const BlockOrigin& origin) {
  if (abort_) {
    block.tallies.calls.each([&](const Tally& tally) {
      const Task* const task = processes_.find(tally.pid, origin.file_pid);
      if (task && task->process == aborted_) abort_.reset();
    });
  }
  if (!block.aborted.is) return;
  Task* const task = processes_.find(block.aborted.pid, origin.file_pid);
  if (!task || !task->live) return;
  aborted_ = task->process;
  abort_ = Ending{{}, "SIGABRT", false, origin.place(block.aborted.number), task->signals().sender,
                  "", -1,        false};
}

void Tracker::keep_begun(const Extract& block, const BlockOrigin& origin) {
  for (const Begun& begun : block.begun.slots()) {
    if (!begun.used) continue;
    if (begun.half == Half::elsewhere) {
      const Task* const task = begun.interrupted ? processes_.find(begun.pid) : nullptr;
      if (task && task->begun) interrupted_.insert(task->pid);
      continue;
    }
    Task* task = processes_.find(begun.pid ? begun.pid : origin.file_pid);
    if (!task && begun.half != Half::here) task = processes_.find(begun.pid, origin.file_pid);
    if (!task && begun.half == Half::here) {
      // All that the log has of it so far is a call that is nobody's event: a wait, mostly.
      Event event;
      event.pid = begun.pid;
      event.has_pid = begun.has_pid;
      task = &processes_.task_of(event, origin.file_pid);
      Process& process = processes_.record_of(*task);
      process.recorded = true;
      if (process.began < 0) process.began = time_of(begun.line, begun.end);
    }
    if (!task || !task->live) continue;
    task->begun = begun.half == Half::here;
    if (begun.interrupted) {
      interrupted_.insert(task->pid);
    } else {
      interrupted_.erase(task->pid);
    }
    if (!task->begun) continue;
    if (begun.open) {
      open_ = true;
      open_pid_ = task->pid;
    }
    task->begun_line.assign(
        begun.line,
        std::min<std::size_t>(kLongestText, static_cast<std::size_t>(begun.end - begun.line)));
    task->begun_place = origin.place(begun.number);
  }
}

void Tracker::finish() {
  if (options_.observer) options_.observer->finished(*this);
  std::unordered_map<std::uint32_t, ExitCall> exits;  // of processes: exit_group() ends all threads
  for (const auto& [pid, task] : processes_.tasks()) {
    const auto& exit_call = processes_.record_of(*task).exit_call;
    if (task->live && exit_call) exits[task->leader] = *exit_call;
  }
  for (const auto& [pid, task] : processes_.tasks()) {
    if (!task->live) continue;
    if (const Pending& begun = task->pending; begun.is && begun.op == Op::iouring_enter)
      files_.ring_entered(*task, begun.a, begun.b, {});
    Process& process = processes_.record_of(*task);
    const auto left = exits.find(task->leader);
    if (abort_ && task->process == aborted_) {
      process.ending = std::move(abort_);
      abort_.reset();
    } else if (left != exits.end()) {
      process.ending = Ending{left->second.code, "", false, left->second.place, 0, "", -1, false};
    } else if (task->begun && task->process < Processes::kMostTold) {
      process.blocked =
          std::make_unique<Blocked>(waits_.blocked_in(*task, task->begun_line, task->begun_place));
    }
  }
  files_.finish();
  if (options_.statistics) files_.add_errors(hits_.failures());
  descriptions_.on_close = nullptr;  // what their tables close now is counted already
  processes_.forget_tasks();
}

}  // namespace pm::strace
