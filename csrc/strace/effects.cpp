// What a call does, once it takes effect, and which class keeps it.
#include "strace/tracker.h"

namespace pm::strace {

void Tracker::effect(Task& task, const Event& event, const Opened& by) {
  if (event.result.worked()) effect_of_success(task, event, by);
  effect_of_any(task, event, by);
}

// Calls that change nothing where they fail.
void Tracker::effect_of_success(Task& task, const Event& event, const Opened& by) {
  const std::int64_t value = event.result.value;
  switch (event.op) {
    case Op::open:
    case Op::openat:
    case Op::creat:
      return files_.opened(task, event, by);
    case Op::dup:
      if (value != event.a) files_.duplicated(task, event, by);
      return;
    case Op::fcntl:
      if (event.b == 1) return files_.duplicated(task, event, by);
      [[fallthrough]];
    case Op::ioctl:
      return task.table->set_cloexec(event.a, event.cloexec);
    case Op::pair:
      return files_.pair(task, event, by);
    case Op::iouring:
      return files_.ring_made(task, event, by);
    case Op::create:
    case Op::socket:
    case Op::memfd:
    case Op::accept:
    case Op::pidfd_open: {
      const std::int32_t made = files_.created(task, event, by);
      if (event.op == Op::accept) sockets_.accepted(task, event, made, by);
      return task.table->set(value, made, event.cloexec, by);
    }
    case Op::pidfd_getfd:
      return files_.taken_from_other(task, event, by);
    case Op::fork:
      if (value > 0) processes_.forked(task, event);
      return;
    case Op::exec:
      return processes_.executed(task, event);
    case Op::chroot:
      return files_.changed_root(task, event);
    case Op::chdir:
    case Op::fchdir:
      return files_.changed_directory(task, event);
    case Op::getcwd:
      return files_.learned_directory(task, event);
    case Op::self:
      if (value > 0) processes_.named_itself(task, event);
      return;
    case Op::recvmsg:
      return sockets_.received(task, view(event.arguments, event.arguments_end), by);
    case Op::getsockopt:
      return sockets_.told_error(task, event);
    case Op::getsockname:
      return sockets_.told_address(task, event);
    case Op::reap:
      return processes_.reaped(task, event, by.place);
    case Op::watch:
      return sockets_.watched(task, event);
    case Op::aio_submit:
      return files_.requests().submitted(task.leader, event);
    case Op::rename:
    case Op::renameat:
    case Op::linkat:
      return files_.renamed(task, event);
    case Op::unlink:
    case Op::rmdir:
      return files_.unlinked(task, kWorkingDirectory, event.text);
    case Op::unlinkat:
      return files_.unlinked(task, event.a, event.text);
    case Op::read:
    case Op::write:
      if (event.a == 2 && event.op == Op::write && options_.statistics) {
        summary_.said(task, event, by.place);
      }
      return sockets_.transferred(task, event, by.place);
    default:
      return;
  }
}

// Calls of which something is known from a failure too, or before they end.
void Tracker::effect_of_any(Task& task, const Event& event, const Opened& by) {
  const Result& result = event.result;
  switch (event.op) {
    case Op::close:  // also when it fails with EINTR or EIO: Linux has freed the number by then
      if (result.error != "EBADF") task.table->clear(event.a);
      return;
    case Op::close_range:
      if (!result.present || result.worked()) files_.closed_range(task, event);
      return;
    case Op::iouring_enter:
      return files_.ring_entered(task, event.a, event.b, result);
    case Op::unshare:
    case Op::setns:
      return processes_.unshared(task, event);
    case Op::sendmsg:
      return sockets_.sent(task, view(event.arguments, event.arguments_end));
    case Op::connect:
      sockets_.addressed(task, event);
      if (event.shape != Shape::entry) sockets_.connected(task, event, by);
      return;
    case Op::bind:
      return sockets_.addressed(task, event);
    case Op::aio_events:
      return files_.requests().reaped(task.leader, event);
    case Op::exit:
      processes_.record_of(task).exit_call = {static_cast<int>(event.a & 0xff), by.place};
      return;
    case Op::mmap:
    case Op::mremap:  // an address may look like a failure
      if (result.known && result.error.empty()) files_.mapped(task, event);
      return;
    case Op::munmap:
      return files_.unmapped(task, event);
    case Op::kill:
      return processes_.sent_signal(task, event);
    default:
      return;
  }
}

}  // namespace pm::strace
