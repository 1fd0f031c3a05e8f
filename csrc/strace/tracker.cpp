#include "strace/tracker.h"

#include <algorithm>

#include "strace/task.h"

namespace pm::strace {
namespace {

// Beyond this, the records of processes that ended well make room for new ones.
constexpr std::size_t kMostProcesses = 20'000;
constexpr std::size_t kLongestText = 4096;

constexpr std::uint64_t kCloneFs = 0x200;
constexpr std::uint64_t kCloneFiles = 0x400;
constexpr std::uint64_t kCloneVm = 0x100;
constexpr std::uint64_t kCloneThread = 0x10000;

// Calls whose arguments are read again when they end, because they matter rarely.
bool keeps_arguments(Op op) noexcept {
  switch (op) {
    case Op::fork:
    case Op::exec:
    case Op::pair:
    case Op::recvmsg:
    case Op::mmap:
    case Op::mremap:
    case Op::rename:
    case Op::renameat:
    case Op::linkat:
    case Op::unshare:
    case Op::pidfd_getfd:
    case Op::readlink:
    case Op::getcwd:
    case Op::memfd:
    case Op::unlinkat:
      return true;
    default:
      return false;
  }
}

}  // namespace

Tracker::Tracker(TrackerOptions options) : options_(std::move(options)) {
  descriptions_.context = this;
  if (options_.statistics) {
    descriptions_.on_gone = [](void* context, const Description& one) {
      static_cast<Tracker*>(context)->gone(one);
    };
  }
}

Tracker::~Tracker() {
  descriptions_.on_gone = nullptr;
  tasks_.clear();
}

void Tracker::announce(const std::vector<std::pair<std::uint32_t, std::uint32_t>>& forks) {
  for (const auto& [parent, child] : forks) upcoming_[child] = parent;
}

void Tracker::replay(const Extract& block, std::uint32_t file, std::uint64_t first_line,
                     std::uint32_t file_pid) {
  for (const Event& event : block.events) apply(event, file, first_line, file_pid);
  keep_begun(block, file, first_line, file_pid);
}

// The task that a line is of. Without a pid it is the only one there is (strace leaves the prefix
// out while it traces a single one), or the one that the file is of.
Task& Tracker::task_of(const Event& event, const Context& context) {
  std::uint32_t pid = event.has_pid ? event.pid : context.file_pid;
  if (pid == 0) {
    if (anonymous_ && anonymous_->live) return *anonymous_;
    Task* only = nullptr;
    for (auto& [number, task] : tasks_) {
      if (task->live && (!only || task->process < only->process)) only = task.get();
    }
    anonymous_ = only ? only : &start(0, nullptr, false, false, false, false);
    return *anonymous_;
  }
  if (last_ && last_->pid == pid && last_->live) return *last_;
  const auto found = tasks_.find(pid);
  if (found != tasks_.end() && found->second->live) {
    last_ = found->second.get();
    return *last_;
  }
  if (Task* const parent = parent_waiting_for(pid)) {
    Task& child = start(pid, parent, false, false, false, false);
    parent->fork_started = true;
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

// The task whose fork has begun and will return this pid; if nobody knows, the one that has waited
// longest.
Task* Tracker::parent_waiting_for(std::uint32_t pid) {
  const auto announced = upcoming_.find(pid);
  if (announced != upcoming_.end()) {
    const auto parent = tasks_.find(announced->second);
    upcoming_.erase(announced);
    if (parent != tasks_.end() && parent->second->pending.op == Op::fork)
      return parent->second.get();
  }
  for (const std::uint32_t waiting : forking_) {
    const auto parent = tasks_.find(waiting);
    if (parent == tasks_.end()) continue;
    Task& task = *parent->second;
    if (task.pending.is && task.pending.op == Op::fork && !task.fork_started) return &task;
  }
  return nullptr;
}

Task& Tracker::start(std::uint32_t pid, Task* parent, bool thread, bool share_table,
                     bool share_directory, bool share_memory) {
  auto made = std::make_unique<Task>();
  made->pid = made->leader = pid;
  made->named = pid != 0;
  Process process;
  process.pid = pid;
  if (parent) {
    if (parent->pending.is && parent->pending.op == Op::fork) {  // its flags are known from there
      const std::string_view flags = parent->pending.arguments;
      share_table |= contains(flags, "CLONE_FILES");
      share_directory |= contains(flags, "CLONE_FS");
      share_memory |= contains(flags, "CLONE_VM");
      thread |= contains(flags, "CLONE_THREAD");
    }
    const auto& table = parent->fork_table ? parent->fork_table : parent->table;
    const auto& directory = parent->fork_directory ? parent->fork_directory : parent->directory;
    made->table = share_table ? parent->table : std::make_shared<Table>(*table);
    made->directory = share_directory ? parent->directory : std::make_shared<Directory>(*directory);
    if (!share_directory && !directory->known)
      made->directory = std::make_shared<Directory>(Directory{"", false, directory});
    made->memory = share_memory ? parent->memory : std::make_shared<Memory>(*parent->memory);
    if (thread) made->leader = parent->leader;
    process.parent = thread ? processes_[parent->process].parent : parent->leader;
    process.thread_of = thread ? parent->leader : 0;
    process.argv = processes_[parent->process].argv;
    process.argv_known = processes_[parent->process].argv_known;
  } else {
    made->table = std::make_shared<Table>(&descriptions_);
    made->directory = std::make_shared<Directory>();
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
  }
  slot = std::move(made);
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
  if (options_.observer && event.shape != Shape::entry) {
    options_.observer->seen(*this, task, event, file, first_line);
  }
  if (event.shape == Shape::signal) return signalled(task, event, context);
  if (event.shape == Shape::exit) return exited(task, event, context);
  if (event.shape == Shape::entry) return began(task, event, context);
  if (event.hit) hit(task, event, context);
  if (options_.statistics && event.result.failed()) failed(task, event, context);
  ended(task, event, context);
}

// What takes effect when a call begins: close, since the number is free from then on; and a fork,
// whose child has what there was then.
void Tracker::began(Task& task, const Event& event, const Context& context) {
  Pending& pending = task.pending;
  pending.is = true;
  pending.op = event.op;
  pending.call = event.call;
  pending.a = event.a;
  pending.b = event.b;
  pending.cloexec = event.cloexec;
  pending.text.assign(event.text);
  pending.flags.assign(event.flags);
  pending.by = {{context.file, context.first_line + event.number}, task.pid, event.call};
  const std::string_view arguments = view(event.arguments, event.arguments_end);
  pending.arguments.assign(keeps_arguments(event.op) ? arguments : std::string_view{});
  switch (event.op) {
    case Op::close:
      task.table->clear(event.a);
      break;
    case Op::close_range:
      effect(task, event, pending.by);
      break;
    case Op::sendmsg:
      sent(task, arguments);
      break;
    case Op::connect:
    case Op::bind:
    case Op::kill:
      effect(task, event, pending.by);
      break;
    case Op::fork: {
      const bool shares = contains(arguments, "CLONE_FILES");
      task.fork_table = shares ? nullptr : std::make_shared<Table>(*task.table);
      task.fork_directory = std::make_shared<Directory>(*task.directory);
      if (!task.directory->known)
        task.fork_directory = std::make_shared<Directory>(Directory{"", false, task.directory});
      task.fork_started = false;
      forking_.push_back(task.pid);
      break;
    }
    default:
      break;
  }
}

void Tracker::ended(Task& task, const Event& event, const Context& context) {
  if (event.op == Op::none) return;
  const Opened by{{context.file, context.first_line + event.number}, task.pid, event.call};
  if (event.shape != Shape::resumed) {
    if (event.op == Op::sendmsg) {
      sent(task, view(event.arguments, event.arguments_end));
    } else {
      effect(task, event, by);
    }
    return;
  }
  Pending& pending = task.pending;
  if (!pending.is || pending.call != event.call) {
    lone_halves_ += event.half == Half::none || (event.half == Half::elsewhere && !task.begun);
    pending.is = false;
    return;
  }
  switch (event.op) {  // those have had their effect
    case Op::close:
    case Op::close_range:
    case Op::sendmsg:
    case Op::connect:
    case Op::bind:
    case Op::kill:
      pending.is = false;
      return;
    default:
      break;
  }
  Event whole = event;
  whole.a = pending.a;
  whole.b = pending.b;
  whole.text = pending.text;
  whole.flags = pending.flags;
  whole.cloexec |= pending.cloexec;
  if (keeps_arguments(event.op)) {
    pending.arguments.append(view(event.arguments, event.arguments_end));
    whole.arguments = pending.arguments.data();
    whole.arguments_end = whole.arguments + pending.arguments.size();
  }
  Opened began_by = pending.by;
  effect(task, whole, began_by);
  pending.is = false;
  if (event.op == Op::fork) {
    task.fork_table.reset();
    task.fork_directory.reset();
    std::erase(forking_, task.pid);
  }
}

void Tracker::effect(Task& task, const Event& event, const Opened& by) {
  const Result& result = event.result;
  const bool worked = result.known && result.error.empty() && result.value >= 0;
  switch (event.op) {
    case Op::open:
    case Op::openat:
    case Op::creat:
      if (worked) opened(task, event, by);
      return;
    case Op::close:  // also when it fails with EINTR or EIO: Linux has freed the number by then
      if (worked || result.error != "EBADF") task.table->clear(event.a);
      return;
    case Op::dup: {
      if (!worked) return;
      const std::int32_t one = task.table->at(event.a);
      if (result.value == event.a) return;
      descriptions_.use(one);
      task.table->set(result.value, one, event.cloexec, by);
      return;
    }
    case Op::fcntl:
    case Op::ioctl: {
      if (!worked) return;
      if (event.op == Op::fcntl && event.b == 1) {
        const std::int32_t one = task.table->at(event.a);
        descriptions_.use(one);
        task.table->set(result.value, one, event.cloexec, by);
      } else if (task.table->at(event.a) != kNone) {
        task.table->slots[static_cast<std::size_t>(event.a)].cloexec = event.cloexec;
      }
      return;
    }
    case Op::pair:
      if (worked) pair(task, event, by);
      return;
    case Op::iouring:
      io_uring_ = true;
      [[fallthrough]];
    case Op::create:
    case Op::socket:
    case Op::memfd:
    case Op::accept:
    case Op::pidfd_open:
      if (worked) created(task, event, by);
      return;
    case Op::pidfd_getfd: {
      if (!worked) return;
      const std::string_view all = view(event.arguments, event.arguments_end);
      const std::int32_t handle = task.table->at(read_fd(argument_at(all, 0)).number);
      std::int32_t one = kNone;
      if (handle != kNone) {
        const auto from = tasks_.find(descriptions_.at(handle).target_pid);
        if (from != tasks_.end())
          one = from->second->table->at(read_fd(argument_at(all, 1)).number);
      }
      descriptions_.use(one);
      task.table->set(result.value, one, true, by);
      return;
    }
    case Op::close_range: {
      if (result.present && !worked) return;
      const std::int64_t last = event.b < 0 ? Table::kMostNumbers : event.b;
      if (event.flags.find("UNSHARE") != std::string_view::npos && task.table.use_count() > 1) {
        task.table = std::make_shared<Table>(*task.table);
      }
      if (!event.cloexec) {
        task.table->clear_range(event.a, last);
      } else {
        auto& slots = task.table->slots;
        for (std::size_t i = 0; i < slots.size(); ++i) {
          const auto number = static_cast<std::int64_t>(i);
          if (number >= event.a && number <= last) slots[i].cloexec = true;
        }
      }
      return;
    }
    case Op::fork:
      if (worked && result.value > 0) forked(task, event);
      return;
    case Op::exec:
      if (worked) executed(task, event);
      return;
    case Op::unshare: {
      if (!worked) return;
      const std::string_view flags = argument_at(view(event.arguments, event.arguments_end), 0);
      if (has_flag(flags, "CLONE_FILES", kCloneFiles))
        task.table = std::make_shared<Table>(*task.table);
      if (has_flag(flags, "CLONE_FS", kCloneFs)) {
        task.directory = std::make_shared<Directory>(*task.directory);
      }
      return;
    }
    case Op::chdir: {
      if (!worked) return;
      std::shared_ptr<Directory> base;
      FdArgument here{true, kWorkingDirectory, {}, false};
      std::string path = resolve(task, here, event.text, &base);
      *task.directory = {std::move(path), !base,
                         base ? std::make_shared<Directory>(*base) : nullptr};
      return;
    }
    case Op::fchdir: {
      if (!worked) return;
      const std::int32_t one = task.table->at(event.a);
      if (one == kNone || descriptions_.at(one).path.empty()) {
        *task.directory = {};
      } else {
        const Description& to = descriptions_.at(one);
        *task.directory = {to.path, !to.base, to.base};
      }
      return;
    }
    case Op::getcwd: {
      bool quoted;
      const std::string_view raw =
          quoted_part(argument_at(view(event.arguments, event.arguments_end), 0), quoted);
      if (!worked || !quoted || !raw.starts_with('/')) return;
      std::string path;
      unescape(raw, path);
      // In place: whoever was opened relative to it, before it was known, learns it too.
      Directory* where = task.directory.get();
      while (!where->known && where->path.empty() && where->below) where = where->below.get();
      where->path = path;
      where->known = true;
      if (where != task.directory.get()) *task.directory = {path, true, nullptr};
      return;
    }
    case Op::self: {
      Task& self = task;
      if (self.named || !worked || result.value <= 0) return;
      const auto pid = static_cast<std::uint32_t>(result.value);
      if (tasks_.contains(pid)) return;
      auto node = tasks_.extract(self.pid);
      node.key() = pid;
      tasks_.insert(std::move(node));
      self.pid = self.leader = pid;
      self.named = true;
      processes_[self.process].pid = pid;
      return;
    }
    case Op::sendmsg:
      sent(task, view(event.arguments, event.arguments_end));
      return;
    case Op::recvmsg:
      if (worked) received(task, view(event.arguments, event.arguments_end), by);
      return;
    case Op::connect:
    case Op::bind: {
      const std::string_view all = view(event.arguments, event.arguments_end);
      const std::int32_t one = task.table->at(read_fd(argument_at(all, 0)).number);
      if (one == kNone) return;
      const std::string address(argument_at(all, 1));
      descriptions_.at(one).label = address;
      return;
    }
    case Op::mmap:
      if (result.known && result.error.empty()) mapped(task, event);
      return;
    case Op::munmap: {
      const std::string_view all = view(event.arguments, event.arguments_end);
      const std::string_view start = argument_at(all, 0);
      if (task.memory->mappings.empty() || start.empty()) return;
      const std::string_view length = argument_at(all, 1);
      const char* at = start.data();
      const char* size = length.data();
      if (length.empty()) return;
      unmapped(task, static_cast<std::uint64_t>(read_number(at, at + start.size())),
               static_cast<std::uint64_t>(read_number(size, size + length.size())));
      return;
    }
    case Op::mremap:
      if (result.known && result.error.empty()) mapped(task, event);
      return;
    case Op::rename:
    case Op::renameat:
    case Op::linkat:
      if (worked) renamed(task, event);
      return;
    case Op::unlink:
    case Op::rmdir:
      if (worked) unlinked(task, kWorkingDirectory, event.text);
      return;
    case Op::unlinkat:
      if (worked) unlinked(task, event.a, event.text);
      return;
    case Op::kill:
      killed(task, event);
      return;
    case Op::read:
    case Op::write:
      if (worked) transferred(task, event);
      return;
    default:
      return;
  }
}

void Tracker::forked(Task& task, const Event& event) {
  const std::string_view arguments = view(event.arguments, event.arguments_end);
  const auto child = static_cast<std::uint32_t>(event.result.value);
  upcoming_.erase(child);
  const auto known = tasks_.find(child);
  if (task.fork_started && known != tasks_.end() && known->second->live) return;
  std::uint64_t raw = 0;
  const std::string_view first = argument_at(arguments, 0);
  if (!first.empty() && is_digit(first[0])) {
    const char* at = first.data();
    raw = static_cast<std::uint64_t>(read_number(at, at + first.size()));
  }
  const auto shares = [&](std::string_view name, std::uint64_t bit) {
    return contains(arguments, name) || (raw & bit) != 0;
  };
  start(child, &task, shares("CLONE_THREAD", kCloneThread), shares("CLONE_FILES", kCloneFiles),
        shares("CLONE_FS", kCloneFs), shares("CLONE_VM", kCloneVm));
}

void Tracker::executed(Task& task, const Event& event) {
  if (task.table.use_count() > 1) task.table = std::make_shared<Table>(*task.table);
  task.table->clear_cloexec();
  task.memory = std::make_shared<Memory>(&descriptions_);
  const std::string_view all = view(event.arguments, event.arguments_end);
  const bool at = event.call != kUnknownCall && call_at(event.call).name == "execveat";
  Process& process = processes_[task.process];
  process.argv.clear();
  std::string_view list = argument_at(all, at ? 2 : 1);
  process.argv_known = list.starts_with('[');
  if (!process.argv_known) {  // raw: at least the program may be known
    bool quoted;
    const std::string_view path = quoted_part(argument_at(all, at ? 1 : 0), quoted);
    if (quoted) {
      process.argv.emplace_back();
      unescape(path, process.argv.back());
    }
    return;
  }
  list.remove_prefix(1);
  Arguments words(list.data(), list.data() + list.size());
  std::string_view word;
  while (process.argv.size() < 256 && words.next(word) && !word.starts_with(']')) {
    bool quoted;
    const std::string_view raw = quoted_part(word, quoted);
    if (!quoted) break;
    std::string plain;
    unescape(raw, plain);
    if (word.ends_with("...")) plain += "…";
    process.argv.push_back(std::move(plain));
  }
}

void Tracker::signalled(Task& task, const Event& event, const Context& context) {
  const std::string_view body = event.text;  // --- SIGBUS {si_signo=SIGBUS, …} ---
  const std::size_t name_end = body.find(' ', 4);
  const std::string_view name =
      body.substr(4, name_end == std::string_view::npos ? 0 : name_end - 4);
  const auto field = [&](std::string_view key) -> std::uint64_t {
    const std::size_t at = body.find(key);
    if (at == std::string_view::npos) return 0;
    const char* p = body.data() + at + key.size();
    return static_cast<std::uint64_t>(read_number(p, body.data() + body.size()));
  };
  if (body.find("si_code=SI_USER") != std::string_view::npos ||
      body.find("si_code=SI_TKILL") != std::string_view::npos) {
    task.fatal_sender = static_cast<std::uint32_t>(field("si_pid="));
  } else {
    task.fatal_sender = 0;
  }
  const bool asked =
      std::find(options_.signals.begin(), options_.signals.end(), name) != options_.signals.end();
  const bool bus = name == "SIGBUS" && body.find("BUS_ADRERR") != std::string_view::npos;
  Target target;
  if (bus) {
    const std::uint64_t address = field("si_addr=");
    const auto& mappings = task.memory->mappings;
    auto above = mappings.upper_bound(address);
    if (above != mappings.begin()) {
      --above;
      if (address < above->second.end && above->second.description != kNone) {
        const Description& one = descriptions_.at(above->second.description);
        target.path = one.whole_path();
        target.kind = one.kind;
        target.deleted = one.deleted;
        target.nameless = one.nameless;
        target.origin = Origin::tracked;
        target.opened = one.opened;
        target.flags = one.flags;
        target.label = one.label;
      }
    }
  }
  const bool inferred = bus && options_.infer_sigbus && !asked;
  if (!asked && !inferred) return;
  ++match_count_;
  if (matches_.size() >= options_.most_matches) return;
  Match match;
  match.place = {context.file, context.first_line + event.number};
  match.pid = task.pid;
  match.time = seconds_of(read_leader(event.line, event.end).time);
  match.syscall = std::string(name);
  match.text = std::string(body.substr(0, kLongestText));
  match.target = std::move(target);
  match.inferred = inferred;
  match.argv = processes_[task.process].argv;
  match.parent = processes_[task.process].parent;
  match.thread_of = processes_[task.process].thread_of;
  matches_.push_back(std::move(match));
}

void Tracker::exited(Task& task, const Event& event, const Context& context) {
  const std::string_view body = event.text;
  constexpr std::string_view kSuperseded = "+++ superseded by execve in pid ";
  if (body.starts_with(kSuperseded)) {
    const char* at = body.data() + kSuperseded.size();
    superseded(task, static_cast<std::uint32_t>(read_number(at, body.data() + body.size())));
    return;
  }
  Ending ending;
  ending.place = {context.file, context.first_line + event.number};
  constexpr std::string_view kExited = "+++ exited with ";
  constexpr std::string_view kKilled = "+++ killed by ";
  if (body.starts_with(kExited)) {
    const char* at = body.data() + kExited.size();
    ending.code = static_cast<int>(read_number(at, body.data() + body.size()));
  } else if (body.starts_with(kKilled)) {
    const std::string_view rest = body.substr(kKilled.size());
    ending.signal = std::string(rest.substr(0, rest.find(' ')));
    ending.core = rest.find("core dumped") != std::string_view::npos;
    ending.sender = task.fatal_sender;
    const auto killer = killers_.find(task.leader);
    if (ending.sender == 0 && killer != killers_.end() && killer->second.first == ending.signal) {
      ending.sender = killer->second.second;
    }
  }
  Process& process = processes_[task.process];
  process.ending = ending;
  if (ending.code != 0) {
    if (event.half == Half::here) {
      process.blocked = blocked_in(task, view(event.entry, event.entry_end),
                                   {context.file, context.first_line + event.entry_number});
    } else if (event.half == Half::elsewhere && task.begun) {
      process.blocked = blocked_in(task, task.begun_line, task.begun_place);
    }
  }
  if (ending.code == 0) spent_.push_back(task.process);
  release(task);
}

void Tracker::release(Task& task) {
  task.live = false;
  task.begun = false;
  task.pending.is = false;
  std::erase(forking_, task.pid);
  task.table = std::make_shared<Table>(&descriptions_);
  task.memory = std::make_shared<Memory>(&descriptions_);
  task.fork_table.reset();
  if (anonymous_ == &task) anonymous_ = nullptr;
  if (last_ == &task) last_ = nullptr;
}

// execve() in a thread other than the first: it takes over the pid of its process, and the first
// thread is gone.
void Tracker::superseded(Task& task, std::uint32_t by) {
  const auto found = tasks_.find(by);
  if (found == tasks_.end() || found->second.get() == &task) return;
  Task& taker = *found->second;
  task.table = taker.table;
  task.directory = taker.directory;
  task.memory = taker.memory;
  task.pending = taker.pending;
  task.begun = taker.begun;
  task.begun_line = taker.begun_line;
  task.begun_place = taker.begun_place;
  release(taker);
}

void Tracker::keep_begun(const Extract& block, std::uint32_t file, std::uint64_t first_line,
                         std::uint32_t file_pid) {
  for (const Begun& begun : block.begun.slots()) {
    if (!begun.used || begun.half == Half::elsewhere) continue;
    const auto found = tasks_.find(begun.pid ? begun.pid : file_pid);
    Task* const task = found != tasks_.end() ? found->second.get() : anonymous_;
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
  for (auto& [pid, task] : tasks_) {
    if (!task->live || !task->begun) continue;
    processes_[task->process].blocked = blocked_in(*task, task->begun_line, task->begun_place);
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
  }
}

}  // namespace pm::strace
