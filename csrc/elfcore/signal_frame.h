// What a signal handler of the process was called for: the siginfo and the registers that the
// kernel put on the stack for it (struct rt_sigframe). Where a handler raised the signal again, or
// called abort, the core's own siginfo tells only of that.
#pragma once

#include <optional>

#include "elfcore/modules.h"

namespace pm::elfcore {

struct CaughtSignal {
  SignalInfo info;
  Registers registers;  // where the signal interrupted the thread; segments are left 0
  // Whether the handler still ran. If not, it had returned and the second signal came at once.
  bool in_handler = true;
};

// The signal whose handler was entered through the trampoline with this stack pointer; `pc` is
// where the thread was interrupted, as the unwinder found it. Nothing unless the frame is whole and
// says the same.
std::optional<CaughtSignal> read_signal_frame(const Memory& memory, std::uint64_t sp,
                                              std::uint64_t pc);

// The same for a handler that has returned: raise() in a handler waits until then, because the
// signal is blocked. All registers in the frame must be those that the thread died with, and the
// signal the fatal one. Looked for below the stack pointer, and in a limited part of the writable
// memory for handlers on an alternate stack.
std::optional<CaughtSignal> find_left_signal_frame(const Memory& memory);

// The alternate stack (sigaltstack) that the kernel put this frame on, as its ucontext has it.
struct HandlerStack {
  std::uint64_t start, size;
};
std::optional<HandlerStack> read_handler_stack(const Memory& memory, std::uint64_t sp);

}  // namespace pm::elfcore
