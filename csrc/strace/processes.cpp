#include "strace/processes.h"

#include <algorithm>
#include <utility>

#include "strace/text.h"

namespace pm::strace {
namespace {

constexpr std::size_t kMostInnerPids = 100'000;

}  // namespace

void Processes::announce(const std::vector<std::pair<std::uint32_t, std::uint32_t>>& forks) {
  for (const auto& [parent, child] : forks) upcoming_[child] = parent;
}

Task& Processes::task_of(const Event& event, std::uint32_t file_pid) {
  const std::uint32_t pid = event.has_pid ? event.pid : file_pid;
  if (pid == 0) {
    if (anonymous_ && anonymous_->live) return *anonymous_;
    Task* const only = living_.empty() ? nullptr : living_.begin()->second;
    anonymous_ = only ? only : &start(0, nullptr, {});
    return *anonymous_;
  }
  if (last_ && last_->pid == pid && last_->live) return *last_;
  const auto found = tasks_.find(pid);
  if (found != tasks_.end() && found->second->live) {
    last_ = found->second.get();
    return *last_;
  }
  if (Task* const child = pending_child(pid)) {
    last_ = child;
    return *child;
  }
  if (Task* const parent = parent_waiting_for(pid)) {
    Task& child = start(pid, parent, {});
    parent->fork_started = true;
    leave_fork_order(*parent);
    last_ = &child;
    return child;
  }
  // A prefix for the task that had none so far.
  if (anonymous_ && anonymous_->live && !anonymous_->named && event.bracketed) {
    rename(*anonymous_, pid);
    return *anonymous_;
  }
  last_ = &start(pid, nullptr, {});
  return *last_;
}

// The child that a fork within a pid namespace returned, when the log's number for it shows up: the
// one that has waited longest, as both are in the order of the forks.
Task* Processes::pending_child(std::uint32_t pid) {
  if (pending_children_.empty() || upcoming_.contains(pid)) return nullptr;
  const std::uint32_t number = pending_children_.front();
  pending_children_.erase(pending_children_.begin());
  Task* const child = find(number);
  if (!child) return nullptr;
  rename(*child, pid);
  note_inner_pid(*child);
  return child;
}

void Processes::rename(Task& task, std::uint32_t pid) {
  auto node = tasks_.extract(task.pid);
  node.key() = pid;
  tasks_.erase(pid);
  tasks_.insert(std::move(node));
  if (task.leader == task.pid) task.leader = pid;
  task.pid = pid;
  task.named = true;
  record_of(task).pid = pid;
}

void Processes::note_inner_pid(const Task& task) {
  if (inner_pids_.size() < kMostInnerPids) inner_pids_[task.inner_pid] = task.pid;
}

Task* Processes::find(std::uint32_t pid) const {
  const auto found = tasks_.find(pid);
  return found == tasks_.end() ? nullptr : found->second.get();
}

Task* Processes::find(std::uint32_t pid, std::uint32_t file_pid) const {
  Task* const found = find(pid ? pid : file_pid);
  return found || pid ? found : anonymous_;
}

std::uint32_t Processes::log_pid(const Task& task, std::uint32_t number) const {
  if (!task.inner) return number;
  const auto known = inner_pids_.find(number);
  return known == inner_pids_.end() ? 0 : known->second;
}

// The task whose fork has begun and will return this pid; if nobody knows, the one that has waited
// longest.
Task* Processes::parent_waiting_for(std::uint32_t pid) {
  const auto announced = upcoming_.find(pid);
  if (announced != upcoming_.end()) {
    Task* const parent = find(announced->second);
    upcoming_.erase(announced);
    if (parent && parent->pending.op == Op::fork && !parent->inner) return parent;
  }
  while (!forking_.empty()) {
    Task* const parent = find(forking_.begin()->second);
    if (parent && parent->fork_number == forking_.begin()->first && parent->pending.is &&
        parent->pending.op == Op::fork && !parent->fork_started) {
      return parent;
    }
    forking_.erase(forking_.begin());
  }
  return nullptr;
}

void Processes::begin_fork(Task& task, std::string_view arguments) {
  const bool shares = clone_shares(arguments, kCloneFiles);
  task.fork_table = shares ? nullptr : std::make_shared<Table>(*task.table);
  task.fork_directory = std::make_shared<Directory>(*task.directory);
  if (!task.directory->known)
    task.fork_directory = std::make_shared<Directory>(SharedText(), false, task.directory);
  task.fork_started = false;
  leave_fork_order(task);
  task.fork_number = next_fork_++;
  forking_.emplace(task.fork_number, task.pid);
}

void Processes::end_fork(Task& task) {
  task.fork_table.reset();
  task.fork_directory.reset();
  leave_fork_order(task);
}

void Processes::leave_fork_order(Task& task) {
  if (task.fork_number) forking_.erase(std::exchange(task.fork_number, 0));
}

Task& Processes::start(std::uint32_t pid, Task* parent, Shares shares) {
  auto made = std::make_unique<Task>();
  made->pid = made->leader = pid;
  made->named = pid != 0;
  Process process;
  process.pid = pid;
  if (parent) {
    bool new_namespace = false;
    if (parent->pending.is && parent->pending.op == Op::fork) {  // its flags are known from there
      const std::string_view flags = parent->pending.arguments;
      new_namespace = clone_shares(flags, kCloneNewPid);
      shares.table |= clone_shares(flags, kCloneFiles);
      shares.directory |= clone_shares(flags, kCloneFs);
      shares.memory |= clone_shares(flags, kCloneVm);
      shares.thread |= clone_shares(flags, kCloneThread);
      if (hides_flags(parent->pending.call, flags)) made->perhaps_thread_of = parent->pid;
    }
    const auto& table = parent->fork_table ? parent->fork_table : parent->table;
    const auto& directory = parent->fork_directory ? parent->fork_directory : parent->directory;
    made->table = shares.table ? parent->table : std::make_shared<Table>(*table);
    made->root = shares.directory ? parent->root : std::make_shared<SharedText>(*parent->root);
    made->directory =
        shares.directory ? parent->directory : std::make_shared<Directory>(*directory);
    if (!shares.directory && !directory->known)
      made->directory = std::make_shared<Directory>(SharedText(), false, directory);
    made->memory = shares.memory ? parent->memory : std::make_shared<Memory>(*parent->memory);
    if (shares.thread) made->leader = parent->leader;
    made->inner = parent->inner || parent->inner_children || new_namespace;
    made->inner_children = shares.thread && parent->inner_children;
    const Process& maker = record_of(*parent);
    process.parent = shares.thread ? maker.parent : parent->leader;
    process.thread_of = shares.thread ? parent->leader : 0;
    process.argv = maker.argv;
    process.argv_known = maker.argv_known;
    process.environment = maker.environment;
  } else {
    made->table = std::make_shared<Table>(&descriptions_);
    made->directory = std::make_shared<Directory>();
    made->root = std::make_shared<SharedText>();
    made->memory = std::make_shared<Memory>(&descriptions_);
  }
  if (records_.size() >= kMostTold && !spent_.empty()) {
    made->process = spent_.back();
    spent_.pop_back();
    record_of(*made) = std::move(process);
    ++forgotten_;
  } else {
    made->process = static_cast<std::uint32_t>(records_.size());
    records_.push_back(std::move(process));
  }
  auto& slot = tasks_[pid];
  if (slot) {
    if (anonymous_ == slot.get()) anonymous_ = nullptr;
    if (last_ == slot.get()) last_ = nullptr;
    leave_fork_order(*slot);
    const auto known = living_.find(slot->process);
    if (known != living_.end() && known->second == slot.get()) living_.erase(known);
  }
  slot = std::move(made);
  living_[slot->process] = slot.get();
  return *slot;
}

Process& Processes::leader_record_of(const Task& task) {
  const Task* const leader = task.leader != task.pid ? find(task.leader) : nullptr;
  return record_of(leader ? *leader : task);
}

}  // namespace pm::strace
