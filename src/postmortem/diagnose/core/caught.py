"""Which signal was the failure, where a handler of the process caught one before the last.

Crash handlers (faulthandler, DataLoader workers, glog, folly, ROOT) catch a fault, print, and raise
the signal again or call abort: siginfo in the core is that of the second signal. The first one is
in the frame that the kernel put on the stack for the handler.
"""

from postmortem.diagnose.core.pointers import is_canonical
from postmortem.diagnose.core.stacks import place
from postmortem.facts.crash import FAULT_SIGNALS, Caught, Fault, Signal
from postmortem.facts.threads import Thread, Threads
from postmortem.records import replace


def failure(
    signal: Signal | None,
    fault: Fault | None,
    caught: Caught | None,
    *,
    exact_registers: bool = True,
) -> tuple[Signal | None, Fault | None]:
    """Return the signal that the failure is, and where the thread stood at it.

    `exact_registers` is False where registers are not those of the instruction (valgrind keeps
    only the program counter and the stack pointer up to date).
    A fault comes before whatever its handler did then. Of other signals only the same one counts:
    a handler of SIGUSR1 or SIGTERM may fail for reasons of its own.
    """
    if signal is None:
        return signal, fault
    if caught is None:
        return _with_address(signal, fault) if exact_registers else (signal, fault)
    first = caught.signal
    is_fault = first.name in FAULT_SIGNALS and (first.code_number or 0) > 0
    if not is_fault and first.number != signal.number:
        return signal, fault
    return replace(first, then=signal), caught.fault


def _with_address(signal: Signal, fault: Fault | None) -> tuple[Signal | None, Fault | None]:
    """Return a SIGSEGV without siginfo with the address that the instruction at the pc touches.

    Only where nothing is mapped there: then the access did fail. Kernels before 3.7, valgrind and
    qemu leave siginfo out.
    """
    is_silent = signal.code_number is None and signal.address is None
    operand = fault.operand if fault is not None else None
    if signal.name != "SIGSEGV" or not is_silent or fault is None or operand is None:
        return signal, fault
    if operand.mapped or not is_canonical(operand.value):
        return signal, fault
    return replace(signal, address=operand.value, inferred=True), replace(fault, address=operand)


def at_failure(threads: Threads, signal: Signal | None, caught: Caught | None) -> Threads:
    """Return the threads as they stood at the failure, not in what handled it."""
    is_first = signal is not None and signal.then is not None
    return beyond_handler(threads) if is_first and caught and caught.in_handler else threads


def beyond_handler(threads: Threads) -> Threads:
    """Return the threads, the crashed one without the frames of its signal handler."""
    items = []
    for thread in threads:
        index = thread.handler_index
        if thread.crashed and index is not None and index + 1 < len(thread.frames):
            thread = replace(thread, frames=thread.frames[index + 1 :], left_out=index + 1)
        items.append(thread)
    return replace(threads, items=tuple(items))


def aftermath(signal: Signal) -> str:
    """Return how the process went on from a signal that it caught, or an empty text."""
    last = signal.then
    if last is None:
        return ""
    if (last.code_number or 0) > 0:
        at = "" if last.address is None else f" at address {last.address:#x}"
        return f"; a handler in the process caught it, and failed itself by {last.name}{at}"
    if last.number == signal.number:
        return "; a handler in the process caught it and raised it again"
    return f"; a handler in the process caught it and ended the process with {last.name}"


def fault_elsewhere(threads: Threads) -> tuple[Thread, int, str] | None:
    """Return a thread that was handling a fault and is not the crashed one, with the frame of the
    fault and words for it: such a process did fail by itself, whatever ended it then.
    """
    for thread in threads:
        index = thread.handler_index
        if thread.crashed or thread.handles is None or index is None:
            continue
        if thread.handles.code_number == 0:
            continue  # another process sent it
        return thread, index + 1, f"{thread.handles.name}{place(thread, index + 1)}"
    return None
