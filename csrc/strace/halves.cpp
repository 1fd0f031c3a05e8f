// When calls take effect: at their begin or their end, and which part of the tracker does it.
#include "strace/task.h"
#include "strace/tracker.h"

namespace pm::strace {
namespace {

constexpr std::size_t kLongestAddress = 512;

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
    case Op::setns:
    case Op::pidfd_getfd:
    case Op::readlink:
    case Op::getcwd:
    case Op::memfd:
    case Op::unlinkat:
    case Op::getsockopt:
    case Op::getsockname:
    case Op::accept:
    case Op::aio_submit:
    case Op::aio_events:
    case Op::iouring:
    case Op::kill:
      return true;
    default:
      return false;
  }
}

}  // namespace

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
    case Op::exit:
      effect(task, event, pending.by);
      break;
    case Op::fork: {
      const bool shares = clone_shares(arguments, kCloneFiles);
      task.fork_table = shares ? nullptr : std::make_shared<Table>(*task.table);
      task.fork_directory = std::make_shared<Directory>(*task.directory);
      if (!task.directory->known)
        task.fork_directory = std::make_shared<Directory>(SharedText(), false, task.directory);
      task.fork_started = false;
      forks(task);
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
    case Op::bind:
    case Op::exit:
      pending.is = false;
      return;
    case Op::kill:
      if (event.result.failed()) break;  // it takes back what its begin said
      pending.is = false;
      return;
    case Op::connect: {
      pending.is = false;
      Event whole = event;
      whole.a = pending.a;
      connected(task, whole, pending.by);
      return;
    }
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
    forks_no_more(task);
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
      } else {
        task.table->set_cloexec(event.a, event.cloexec);
      }
      return;
    }
    case Op::pair:
      if (worked) pair(task, event, by);
      return;
    case Op::iouring:
      if (worked) ring_made(task, event, by);
      return;
    case Op::iouring_enter:
      ring_entered(task, event.a, event.b, result);
      return;
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
        task.table->set_cloexec(event.a, last);
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
      if (has_flag(flags, kCloneFiles.name, kCloneFiles.bit))
        task.table = std::make_shared<Table>(*task.table);
      if (has_flag(flags, kCloneFs.name, kCloneFs.bit)) {
        task.directory = std::make_shared<Directory>(*task.directory);
        task.root = std::make_shared<SharedText>(*task.root);
      }
      task.inner_children |= has_flag(flags, kCloneNewPid.name, kCloneNewPid.bit);
      return;
    }
    case Op::setns: {
      const std::string_view kind = argument_at(view(event.arguments, event.arguments_end), 1);
      task.inner_children |= worked && has_flag(kind, kCloneNewPid.name, kCloneNewPid.bit);
      return;
    }
    case Op::chroot: {
      if (!worked) return;
      std::string path = resolve(task, {true, kWorkingDirectory, {}, false}, event.text);
      if (path.starts_with('/')) *task.root = path == "/" ? std::string() : std::move(path);
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
        *task.directory = {SharedText(to.path), !to.base, to.base};
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
      if (!task.root->empty()) path = below(task.root->get(), path);
      // In place: whoever was opened relative to it, before it was known, learns it too.
      Directory* where = task.directory.get();
      while (!where->known && where->path.empty() && where->below) where = where->below.get();
      where->path = SharedText(std::move(path));
      where->known = true;
      if (where != task.directory.get()) *task.directory = {where->path, true, nullptr};
      return;
    }
    case Op::self: {
      Task& self = task;
      if (!worked || result.value <= 0) return;
      if (self.named) {  // getpid() of a thread gives another number by nature
        const bool own = event.call != kUnknownCall && call_at(event.call).name != "getpid";
        if (!own || result.value == self.pid || result.translated) return;
        self.inner = true;
        self.inner_pid = static_cast<std::uint32_t>(result.value);
        if (inner_pids_.size() < 100'000) inner_pids_[self.inner_pid] = self.pid;
        return;
      }
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
      const std::int32_t one = task.table->at(event.a);
      if (one == kNone) return;
      const std::string_view all = view(event.arguments, event.arguments_end);
      descriptions_.at(one).label.assign(argument_at(all, 1).substr(0, kLongestAddress));
      if (event.op == Op::bind) return;
      announce_connect(one);
      if (event.shape != Shape::entry) connected(task, event, by);
      return;
    }
    case Op::getsockopt:
      if (worked) socket_error(task, event);
      return;
    case Op::getsockname: {
      // bind() to port 0 lets the kernel choose one; here it says which.
      const std::int32_t one = task.table->at(event.a);
      if (!worked || one == kNone || !contains(descriptions_.at(one).label, "htons(0)")) return;
      const std::string_view all = view(event.arguments, event.arguments_end);
      descriptions_.at(one).label.assign(argument_at(all, 1).substr(0, kLongestAddress));
      return;
    }
    case Op::watch:
      if (worked) watched(task, event);
      return;
    case Op::aio_submit:
      if (worked) submitted(task, event);
      return;
    case Op::aio_events:
      reaped(task, event);
      return;
    case Op::exit:
      processes_[task.process].exit_call = {static_cast<int>(event.a & 0xff), by.place};
      return;
    case Op::mmap:
      if (result.known && result.error.empty()) mapped(task, event);
      return;
    case Op::munmap: {
      if (task.memory->mappings().empty()) return;
      if (event.shape == Shape::call && event.b >= 0) {
        unmapped(task, static_cast<std::uint64_t>(event.a), static_cast<std::uint64_t>(event.b));
        return;
      }
      const std::string_view all = view(event.arguments, event.arguments_end);
      const std::string_view start = argument_at(all, 0);
      if (start.empty()) return;
      const std::string_view length = argument_at(all, 1);
      if (length.empty()) return;
      unmapped(task, static_cast<std::uint64_t>(number_in(start)),
               static_cast<std::uint64_t>(number_in(length)));
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
      if (worked) transferred(task, event, by);
      return;
    default:
      return;
  }
}

}  // namespace pm::strace
