// Tasks and their pids: who made whom, what each of them is, and when it was gone.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "strace/task.h"
#include "strace/tracker_options.h"

namespace pm::strace {

// What a new task has in common with its parent.
struct Shares {
  bool thread = false;
  bool table = false;
  bool directory = false;
  bool memory = false;
};

// Who sent a signal to a process, or to a group of them.
struct Killer {
  std::string signal;
  std::uint32_t sender = 0;
  bool group = false;
};

class Processes {
 public:
  // That are told of. Beyond them, records of those that ended well make room for new ones, and of
  // those that still wait nobody asks for what.
  static constexpr std::size_t kMostTold = 20'000;

  // After the last line: a log may have tens of thousands of tasks, and rows are made next.
  void forget_tasks() {
    anonymous_ = last_ = nullptr;
    living_.clear();
    tasks_.clear();
  }

  // `only`: the process that counts; 0 for all.
  Processes(Descriptions& descriptions, std::uint32_t only)
      : descriptions_(descriptions), only_(only) {}

  // The task that a line is of. Without a pid it is the only one there is (strace leaves the prefix
  // out while it traces a single one), or the one that the file is of.
  Task& task_of(const Event& event, std::uint32_t file_pid);
  // The task with this pid; null if none has been seen, or forked, yet.
  Task* find(std::uint32_t pid) const;
  // The same of what was counted of a block, in which a pid of 0 is that of the file.
  Task* find(std::uint32_t pid, std::uint32_t file_pid) const;
  const std::unordered_map<std::uint32_t, std::unique_ptr<Task>>& tasks() const { return tasks_; }

  Process& record_of(const Task& task) { return records_[task.process]; }
  const Process& record_of(const Task& task) const { return records_[task.process]; }
  // The process that a task is of; the task's own where its first thread is gone.
  Process& leader_record_of(const Task& task);
  const std::deque<Process>& records() const noexcept { return records_; }
  // Processes that ended well and are not among them, since there were too many.
  std::uint64_t forgotten() const noexcept { return forgotten_; }
  bool counted(const Task& task) const noexcept {
    return only_ == 0 || task.pid == only_ || task.leader == only_;
  }
  // The log's number for a pid that a task names; 0 if a namespace hides it.
  std::uint32_t log_pid(const Task& task, std::uint32_t number) const;

  // Forks, as parent and child, that return in the next block or soon after it.
  void announce(const std::vector<std::pair<std::uint32_t, std::uint32_t>>& forks);
  // A child has what there was when its fork began.
  void begin_fork(Task& task, std::string_view arguments);
  void end_fork(Task& task);
  void forked(Task& task, const Event& event);
  void executed(Task& task, const Event& event);
  // Of a task whose clone3() does not tell whether it made a thread: what it does first does.
  void resolve_clone(Task& task, Op first);
  void unshared(Task& task, const Event& event);
  // A call that returns the caller's own pid.
  void named_itself(Task& task, const Event& event);
  // Gives a task its pid, if it has none yet; false if it has.
  bool named_itself(Task& task, std::uint32_t pid);
  // kill(pid, signal) and its likes: who sent what is asked when the victim ends.
  void sent_signal(Task& task, const Event& event);
  std::uint32_t killer_of(const Task& task, std::string_view signal) const;
  // execve() in a thread other than the first: it takes over the pid of its process, and the first
  // thread is gone.
  void superseded(Task& task, std::uint32_t by);
  // Gives a task the end that it had.
  void ended(Task& task, Ending ending);
  // The same for a child without lines of its own, as its parent was told: by SIGCHLD, or by what
  // it waited with.
  void child_ended(Task& parent, std::uint32_t pid, std::string_view told, const Event& event,
                   Place place);
  void reaped(Task& parent, const Event& event, Place place);
  void release(Task& task);

 private:
  Task& start(std::uint32_t pid, Task* parent, Shares shares);
  Task* parent_waiting_for(std::uint32_t pid);
  Task* pending_child(std::uint32_t pid);
  void rename(Task& task, std::uint32_t pid);
  void note_inner_pid(const Task& task);
  static bool hides_flags(std::uint16_t call, std::string_view arguments);
  bool is_orphan(const Task& task) const;
  void leave_fork_order(Task& task);

  Descriptions& descriptions_;
  std::uint32_t only_;
  std::unordered_map<std::uint32_t, std::unique_ptr<Task>> tasks_;
  std::unordered_map<std::uint32_t, std::uint32_t> upcoming_;  // child to parent
  std::map<std::uint64_t, std::uint32_t> forking_;             // in the order of their forks
  std::uint64_t next_fork_ = 1;
  std::map<std::uint32_t, Task*> living_;  // by their place in `records_`
  // Children by their numbers in a pid namespace, not yet seen.
  std::vector<std::uint32_t> pending_children_;
  std::uint32_t next_pending_child_ = 0;
  std::unordered_map<std::uint32_t, std::uint32_t> inner_pids_;  // in a namespace, to the log's
  Task* anonymous_ = nullptr;                                    // lines without a pid are its
  Task* last_ = nullptr;
  std::deque<Process> records_;       // many, which a vector would copy to grow
  std::vector<std::uint32_t> spent_;  // of processes that ended well
  std::uint64_t forgotten_ = 0;
  std::unordered_map<std::uint32_t, Killer> killers_;  // by victim, or by the head of a group
};

}  // namespace pm::strace
