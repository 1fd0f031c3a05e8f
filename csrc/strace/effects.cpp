// What a call does, once it takes effect, and which class keeps it.
#include "strace/tracker.h"

namespace pm::strace {

void Tracker::effect(Task& task, const Event& event, const Opened& by) {
  const Result& result = event.result;
  const bool worked = result.worked();
  switch (event.op) {
    case Op::open:
    case Op::openat:
    case Op::creat:
      if (worked) files_.opened(task, event, by);
      return;
    case Op::close:  // also when it fails with EINTR or EIO: Linux has freed the number by then
      if (worked || result.error != "EBADF") task.table->clear(event.a);
      return;
    case Op::dup:
      if (worked && result.value != event.a) files_.duplicated(task, event, by);
      return;
    case Op::fcntl:
    case Op::ioctl:
      if (!worked) return;
      if (event.op == Op::fcntl && event.b == 1) {
        files_.duplicated(task, event, by);
      } else {
        task.table->set_cloexec(event.a, event.cloexec);
      }
      return;
    case Op::pair:
      if (worked) files_.pair(task, event, by);
      return;
    case Op::iouring:
      if (worked) files_.ring_made(task, event, by);
      return;
    case Op::iouring_enter:
      files_.ring_entered(task, event.a, event.b, result);
      return;
    case Op::create:
    case Op::socket:
    case Op::memfd:
    case Op::accept:
    case Op::pidfd_open: {
      if (!worked) return;
      const std::int32_t made = files_.created(task, event, by);
      if (event.op == Op::accept) sockets_.accepted(task, event, made, by);
      task.table->set(result.value, made, event.cloexec, by);
      return;
    }
    case Op::pidfd_getfd:
      if (worked) files_.taken_from_other(task, event, by);
      return;
    case Op::close_range:
      if (!result.present || worked) files_.closed_range(task, event);
      return;
    case Op::fork:
      if (worked && result.value > 0) processes_.forked(task, event);
      return;
    case Op::exec:
      if (worked) processes_.executed(task, event);
      return;
    case Op::unshare:
    case Op::setns:
      processes_.unshared(task, event);
      return;
    case Op::chroot:
      if (worked) files_.changed_root(task, event);
      return;
    case Op::chdir:
    case Op::fchdir:
      if (worked) files_.changed_directory(task, event);
      return;
    case Op::getcwd:
      if (worked) files_.learned_directory(task, event);
      return;
    case Op::self:
      if (worked && result.value > 0) processes_.named_itself(task, event);
      return;
    case Op::sendmsg:
      sockets_.sent(task, view(event.arguments, event.arguments_end));
      return;
    case Op::recvmsg:
      if (worked) sockets_.received(task, view(event.arguments, event.arguments_end), by);
      return;
    case Op::connect:
      sockets_.addressed(task, event);
      if (event.shape != Shape::entry) sockets_.connected(task, event, by);
      return;
    case Op::bind:
      sockets_.addressed(task, event);
      return;
    case Op::getsockopt:
      if (worked) sockets_.told_error(task, event);
      return;
    case Op::getsockname:
      if (worked) sockets_.told_address(task, event);
      return;
    case Op::watch:
      if (worked) sockets_.watched(task, event);
      return;
    case Op::aio_submit:
      if (worked) files_.requests().submitted(task.leader, event);
      return;
    case Op::aio_events:
      files_.requests().reaped(task.leader, event);
      return;
    case Op::exit:
      processes_.record_of(task).exit_call = {static_cast<int>(event.a & 0xff), by.place};
      return;
    case Op::mmap:
    case Op::mremap:
      if (result.known && result.error.empty()) files_.mapped(task, event);
      return;
    case Op::munmap:
      files_.unmapped(task, event);
      return;
    case Op::rename:
    case Op::renameat:
    case Op::linkat:
      if (worked) files_.renamed(task, event);
      return;
    case Op::unlink:
    case Op::rmdir:
      if (worked) files_.unlinked(task, kWorkingDirectory, event.text);
      return;
    case Op::unlinkat:
      if (worked) files_.unlinked(task, event.a, event.text);
      return;
    case Op::kill:
      processes_.sent_signal(task, event);
      return;
    case Op::read:
    case Op::write:
      if (!worked) return;
      if (event.a == 2 && event.op == Op::write && options_.statistics) {
        summary_.said(task, event, by.place);
      }
      sockets_.transferred(task, event, by.place);
      return;
    default:
      return;
  }
}

}  // namespace pm::strace
