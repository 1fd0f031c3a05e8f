#include "strace/tracker.h"

#include <algorithm>
#include <utility>

#include "strace/task.h"

namespace pm::strace {
namespace {}  // namespace

Tracker::Tracker(TrackerOptions options) : options_(std::move(options)) {
  descriptions_.context = this;
  if (options_.statistics) {
    descriptions_.on_gone = [](void* context, const Description& one) {
      static_cast<Tracker*>(context)->gone(one);
    };
  }
}

Tracker::~Tracker() { forget_tasks(); }

void Tracker::forget_tasks() {
  descriptions_.on_gone = nullptr;
  anonymous_ = last_ = nullptr;
  living_.clear();
  tasks_.clear();
}

void Tracker::announce(const std::vector<std::pair<std::uint32_t, std::uint32_t>>& forks) {
  for (const auto& [parent, child] : forks) upcoming_[child] = parent;
}

void Tracker::replay(const Extract& block, std::uint32_t file, std::uint64_t first_line,
                     std::uint32_t file_pid) {
  for (const Event& event : block.events) apply(event, file, first_line, file_pid);
  keep_begun(block, file, first_line, file_pid);
  absorb(block, file, first_line, file_pid);
}

// The task that a line is of. Without a pid it is the only one there is (strace leaves the prefix
// out while it traces a single one), or the one that the file is of.
Task& Tracker::task_of(const Event& event, const Context& context) {
  std::uint32_t pid = event.has_pid ? event.pid : context.file_pid;
  if (pid == 0) {
    if (anonymous_ && anonymous_->live) return *anonymous_;
    Task* const only = living_.empty() ? nullptr : living_.begin()->second;
    anonymous_ = only ? only : &start(0, nullptr, false, false, false, false);
    return *anonymous_;
  }
  if (last_ && last_->pid == pid && last_->live) return *last_;
  const auto found = tasks_.find(pid);
  if (found != tasks_.end() && found->second->live) {
    last_ = found->second.get();
    return *last_;
  }
  if (Task* const child = unborn(pid)) {
    last_ = child;
    return *child;
  }
  if (Task* const parent = parent_waiting_for(pid)) {
    Task& child = start(pid, parent, false, false, false, false);
    parent->fork_started = true;
    forks_no_more(*parent);
    last_ = &child;
    return child;
  }
  // A prefix for the task that had none so far.
  if (anonymous_ && anonymous_->live && !anonymous_->named && event.bracketed) {
    auto node = tasks_.extract(anonymous_->pid);
    node.key() = pid;
    tasks_.erase(pid);
    tasks_.insert(std::move(node));
    anonymous_->pid = pid;
    anonymous_->named = true;
    anonymous_->leader = pid;
    processes_[anonymous_->process].pid = pid;
    return *anonymous_;
  }
  last_ = &start(pid, nullptr, false, false, false, false);
  return *last_;
}

// The child that a fork within a pid namespace returned, when the log's number for it shows up: the
// one that has waited longest, as both are in the order of the forks.
Task* Tracker::unborn(std::uint32_t pid) {
  if (unborn_.empty() || upcoming_.contains(pid)) return nullptr;
  const std::uint32_t number = unborn_.front();
  unborn_.erase(unborn_.begin());
  auto node = tasks_.extract(number);
  if (node.empty()) return nullptr;
  node.key() = pid;
  tasks_.erase(pid);
  Task& child = *tasks_.insert(std::move(node)).position->second;
  if (child.leader == child.pid) child.leader = pid;
  child.pid = pid;
  processes_[child.process].pid = pid;
  if (inner_pids_.size() < 100'000) inner_pids_[child.inner_pid] = pid;
  return &child;
}

std::uint32_t Tracker::log_pid(const Task& task, std::uint32_t number) const {
  if (!task.inner) return number;
  const auto known = inner_pids_.find(number);
  return known == inner_pids_.end() ? 0 : known->second;
}

// The task whose fork has begun and will return this pid; if nobody knows, the one that has waited
// longest.
Task* Tracker::parent_waiting_for(std::uint32_t pid) {
  const auto announced = upcoming_.find(pid);
  if (announced != upcoming_.end()) {
    const auto parent = tasks_.find(announced->second);
    upcoming_.erase(announced);
    if (parent != tasks_.end() && parent->second->pending.op == Op::fork && !parent->second->inner)
      return parent->second.get();
  }
  while (!forking_.empty()) {
    const auto parent = tasks_.find(forking_.begin()->second);
    if (parent != tasks_.end() && parent->second->fork_number == forking_.begin()->first) {
      Task& task = *parent->second;
      if (task.pending.is && task.pending.op == Op::fork && !task.fork_started) return &task;
    }
    forking_.erase(forking_.begin());
  }
  return nullptr;
}

void Tracker::forks(Task& task) {
  forks_no_more(task);
  task.fork_number = next_fork_++;
  forking_.emplace(task.fork_number, task.pid);
}

void Tracker::forks_no_more(Task& task) {
  if (task.fork_number) forking_.erase(std::exchange(task.fork_number, 0));
}

Task& Tracker::start(std::uint32_t pid, Task* parent, bool thread, bool share_table,
                     bool share_directory, bool share_memory) {
  auto made = std::make_unique<Task>();
  made->pid = made->leader = pid;
  made->named = pid != 0;
  Process process;
  process.pid = pid;
  if (parent) {
    bool new_namespace = false;
    if (parent->pending.is && parent->pending.op == Op::fork) {  // its flags are known from there
      new_namespace = clone_shares(parent->pending.arguments, kCloneNewPid);
      const std::string_view flags = parent->pending.arguments;
      share_table |= clone_shares(flags, kCloneFiles);
      share_directory |= clone_shares(flags, kCloneFs);
      share_memory |= clone_shares(flags, kCloneVm);
      thread |= clone_shares(flags, kCloneThread);
      if (hides_flags(parent->pending.call, flags)) made->perhaps_thread_of = parent->pid;
    }
    const auto& table = parent->fork_table ? parent->fork_table : parent->table;
    const auto& directory = parent->fork_directory ? parent->fork_directory : parent->directory;
    made->table = share_table ? parent->table : std::make_shared<Table>(*table);
    made->root = share_directory ? parent->root : std::make_shared<SharedText>(*parent->root);
    made->directory = share_directory ? parent->directory : std::make_shared<Directory>(*directory);
    if (!share_directory && !directory->known)
      made->directory = std::make_shared<Directory>(SharedText(), false, directory);
    made->memory = share_memory ? parent->memory : std::make_shared<Memory>(*parent->memory);
    if (thread) made->leader = parent->leader;
    made->inner = parent->inner || parent->inner_children || new_namespace;
    made->inner_children = thread && parent->inner_children;
    process.parent = thread ? processes_[parent->process].parent : parent->leader;
    process.thread_of = thread ? parent->leader : 0;
    process.argv = processes_[parent->process].argv;
    process.argv_known = processes_[parent->process].argv_known;
    process.rank = processes_[parent->process].rank;
  } else {
    made->table = std::make_shared<Table>(&descriptions_);
    made->directory = std::make_shared<Directory>();
    made->root = std::make_shared<SharedText>();
    made->memory = std::make_shared<Memory>(&descriptions_);
  }
  if (processes_.size() >= kMostProcesses && !spent_.empty()) {
    made->process = spent_.back();
    spent_.pop_back();
    processes_[made->process] = std::move(process);
    ++forgotten_;
  } else {
    made->process = static_cast<std::uint32_t>(processes_.size());
    processes_.push_back(std::move(process));
  }
  auto& slot = tasks_[pid];
  if (slot) {
    if (anonymous_ == slot.get()) anonymous_ = nullptr;
    if (last_ == slot.get()) last_ = nullptr;
    forks_no_more(*slot);
    const auto known = living_.find(slot->process);
    if (known != living_.end() && known->second == slot.get()) living_.erase(known);
  }
  slot = std::move(made);
  living_[slot->process] = slot.get();
  return *slot;
}

void Tracker::apply(const Event& event, std::uint32_t file, std::uint64_t first_line,
                    std::uint32_t file_pid) {
  const Context context{file, first_line, file_pid};
  Task& task = task_of(event, context);
  if (event.use) {
    checked(task, event);
    return;
  }
  Process& process = processes_[task.process];
  if (!process.seen) {
    process.seen = true;
    process.began = time_of(event.line, event.end);
  }
  if (task.perhaps_thread_of != 0 && event.op != Op::none) settle(task, event.op);
  if (!event.timed) {
    Event measured = event;
    measure(task, measured);
    measured.timed = true;
    apply_call(task, measured, context);
    return;
  }
  apply_call(task, event, context);
}

void Tracker::apply_call(Task& task, const Event& event, const Context& context) {
  if (options_.observer && event.shape != Shape::entry) {
    options_.observer->seen(*this, task, event, context.file, context.first_line);
  }
  if (event.shape == Shape::signal) return signalled(task, event, context);
  if (event.shape == Shape::exit) return exited(task, event, context);
  if (event.shape == Shape::entry) return began(task, event, context);
  if (event.result.within) {
    failed_within(task, event, context);
  } else if (event.hit) {
    hit(task, event, context);
  }
  if (options_.statistics) {
    if (event.result.failed() && !event.result.within) failed(task, event, context);
    if (!event.result.known && !event.result.error.empty()) interrupted(task, event);  // ERESTART…
    if (event.slow) slow(task, event, context);
    if (event.folder) looked_up(task, event, context);
    if (event.op == Op::wait) return waited(task, event, context);
  }
  ended(task, event, context);
}

void Tracker::keep_begun(const Extract& block, std::uint32_t file, std::uint64_t first_line,
                         std::uint32_t file_pid) {
  for (const Begun& begun : block.begun.slots()) {
    if (!begun.used || begun.half == Half::elsewhere) continue;
    const auto found = tasks_.find(begun.pid ? begun.pid : file_pid);
    Task* task = found != tasks_.end() ? found->second.get() : anonymous_;
    if (found == tasks_.end() && begun.half == Half::here) {
      // All that the log has of it so far is a call that is nobody's event: a wait, mostly.
      Event event;
      event.pid = begun.pid;
      event.has_pid = begun.has_pid;
      task = &task_of(event, {file, first_line, file_pid});
      Process& process = processes_[task->process];
      process.seen = true;
      if (process.began < 0) process.began = time_of(begun.line, begun.end);
    }
    if (!task || !task->live) continue;
    task->begun = begun.half == Half::here;
    if (!task->begun) continue;
    task->begun_line.assign(
        begun.line,
        std::min<std::size_t>(kLongestText, static_cast<std::size_t>(begun.end - begun.line)));
    task->begun_place = {file, first_line + begun.number};
  }
}

void Tracker::finish() {
  if (options_.observer) options_.observer->finished(*this);
  std::unordered_map<std::uint32_t, ExitCall> exits;  // of processes: exit_group() ends all threads
  for (auto& [pid, task] : tasks_) {
    if (task->live && processes_[task->process].exit_call) {
      exits[task->leader] = *processes_[task->process].exit_call;
    }
  }
  for (auto& [pid, task] : tasks_) {
    if (!task->live) continue;
    if (const Pending& begun = task->pending; begun.is && begun.op == Op::iouring_enter)
      ring_entered(*task, begun.a, begun.b, {});
    Process& process = processes_[task->process];
    const auto left = exits.find(task->leader);
    if (left != exits.end()) {
      process.ending = Ending{left->second.code, "", false, left->second.place, 0, -1, false};
    } else if (task->begun && task->process < kMostProcesses) {
      process.blocked =
          std::make_unique<Blocked>(blocked_in(*task, task->begun_line, task->begun_place));
    }
  }
  if (io_uring_) {
    for (const Description& one : descriptions_.all()) {
      if (!one.live || one.kind != Kind::file || writable_.size() >= 20) continue;
      if (contains(one.flags, "O_WRONLY") || contains(one.flags, "O_RDWR")) {
        writable_.push_back(one.whole_path());
      }
    }
  }
  if (options_.statistics) {
    for (const Description& one : descriptions_.all()) {
      if (one.live) gone(one);
    }
    failed_on_files();
  }
  forget_tasks();  // before anything is made of what they were: a log may have tens of thousands
}

}  // namespace pm::strace
