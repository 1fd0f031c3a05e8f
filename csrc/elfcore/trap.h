// The signal that a processor exception becomes, from what the kernel leaves of it in a signal
// frame: all there is where the handler was installed without SA_SIGINFO, as by signal(2).
#pragma once

#include <optional>

#include "elfcore/modules.h"

namespace pm::elfcore {

struct Trap {
  // x86-64: vector, error code and %cr2 (struct sigcontext). aarch64: no vector; the syndrome
  // register (struct esr_context) and the fault address.
  std::uint64_t vector = 0, error = 0, address = 0;
};

// Nothing where the trap fits no signal, or the instruction at the pc. The kernel keeps the last
// trap of a thread, so that a later signal from outside shows an old one: the instruction has to
// be one that can have done it. `number` is the signal if it is known.
std::optional<SignalInfo> signal_of_trap(const Memory& memory, const Registers& registers,
                                         const Trap& trap, std::optional<std::int32_t> number);

}  // namespace pm::elfcore
