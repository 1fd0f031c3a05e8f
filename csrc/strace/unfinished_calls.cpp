// When calls take effect that were written in two halves: at their begin or at their end.
#include "strace/tracker.h"

namespace pm::strace {
namespace {

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
void Tracker::began(Task& task, const Event& event, Place place) {
  Pending& pending = task.pending;
  pending.is = true;
  pending.op = event.op;
  pending.call = event.call;
  pending.a = event.a;
  pending.b = event.b;
  pending.cloexec = event.cloexec;
  pending.text.assign(event.text);
  pending.flags.assign(event.flags);
  pending.by = {place, task.pid, event.call};
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
      sockets_.sent(task, arguments);
      break;
    case Op::connect:
    case Op::bind:
    case Op::kill:
    case Op::exit:
      effect(task, event, pending.by);
      break;
    case Op::fork:
      processes_.begin_fork(task, arguments);
      break;
    default:
      break;
  }
}

void Tracker::ended(Task& task, const Event& event, Place place) {
  if (event.op == Op::none) return;
  const Opened by{place, task.pid, event.call};
  if (event.shape != Shape::resumed) {
    effect(task, event, by);
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
      sockets_.connected(task, whole, pending.by);
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
  effect(task, whole, Opened(pending.by));
  pending.is = false;
  if (event.op == Op::fork) processes_.end_fork(task);
}

}  // namespace pm::strace
