"""Which kind of end the process met, by definition of the signal and of the address it names.

This is classification, not diagnosis: every branch follows from siginfo (`sigaction(2)`,
include/uapi/asm-generic/siginfo.h) and from what was mapped where. Whose fault it was is a
question for the rules.
"""

from enum import StrEnum

from postmortem.diagnose.core.pointers import (
    is_canonical,
    is_null_based,
    lost_stack_pointer,
    pointer_value,
)
from postmortem.diagnose.core.stack_end import is_stack_overflow
from postmortem.diagnose.names import bare
from postmortem.facts.crash import CRASH_SIGNALS, INSTRUCTION_SIGNALS, Fault, Signal
from postmortem.facts.memory import Address, MappedFile
from postmortem.facts.process import CoreFile, Process
from postmortem.facts.threads import Thread, Threads
from postmortem.patterns import Pattern


class FaultKind(StrEnum):
    """How the process ended."""

    NULL_DEREFERENCE = "null dereference"
    BAD_CALL = "bad call"
    """The program counter itself is the fault: a jump to NULL, to data or to garbage."""
    UNMAPPED = "unmapped address"
    NON_CANONICAL = "non-canonical address"
    NO_PERMISSION = "no permission"
    GENERAL_PROTECTION = "general protection fault"
    """x86 refused the instruction and its operand does not tell why, or no address is known."""
    STACK_OVERFLOW = "stack overflow"
    FILE_TRUNCATED = "file shorter than its mapping"
    FILE_GONE = "mapped file gone"
    FILE_UNREADABLE = "mapped file unreadable"
    NO_SPACE = "no space behind a mapping"
    HARDWARE_MEMORY = "memory hardware error"
    MISALIGNED = "misaligned access"
    BUS_OTHER = "bus error"
    ILLEGAL_INSTRUCTION = "illegal instruction"
    PRIVILEGED_INSTRUCTION = "privileged instruction"
    """Only the kernel may execute it: hlt, in, out, int n, rdmsr."""
    COMPILER_TRAP = "compiler trap"
    ARITHMETIC = "arithmetic fault"
    BREAKPOINT = "breakpoint trap"
    SECCOMP = "forbidden system call"
    ABORT = "abort by itself"
    RERAISED = "raised again by its own handler"
    """A handler in the process caught the signal and sent it again: the siginfo is the copy's."""
    SENT_BY_ITSELF = "sent by the process itself"
    """kill(), pthread_kill() or tgkill() on itself, by the crashed thread or by another one."""
    KILLED_BY_PROCESS = "killed by another process"
    SENT_FROM_ELSEWHERE = "sent from elsewhere, caught and sent again"
    """SIGABRT hit a thread that raised nothing; its handler's copy does not say who sent it."""
    KILLED_BY_KERNEL = "killed by the kernel"
    TIMER = "timer of the process"
    """timer_create(2) with this signal: a watchdog that nobody stopped in time."""
    TERMINAL_QUIT = "quit from the terminal"
    RESOURCE_LIMIT = "resource limit"
    SNAPSHOT = "snapshot"
    UNKNOWN = "unknown"

    @property
    def is_memory_fault(self) -> bool:
        """Whether an instruction touched memory that it may not touch."""
        return self in _MEMORY_FAULTS

    @property
    def is_fault(self) -> bool:
        """Whether the processor stopped the program, so that the innermost frame matters."""
        return self in _MEMORY_FAULTS | _OTHER_FAULTS


_MEMORY_FAULTS = frozenset(
    {
        FaultKind.NULL_DEREFERENCE,
        FaultKind.BAD_CALL,
        FaultKind.UNMAPPED,
        FaultKind.NON_CANONICAL,
        FaultKind.NO_PERMISSION,
        FaultKind.GENERAL_PROTECTION,
        FaultKind.MISALIGNED,
    }
)
_OTHER_FAULTS = frozenset(
    {
        FaultKind.STACK_OVERFLOW,
        FaultKind.FILE_TRUNCATED,
        FaultKind.FILE_GONE,
        FaultKind.FILE_UNREADABLE,
        FaultKind.NO_SPACE,
        FaultKind.HARDWARE_MEMORY,
        FaultKind.BUS_OTHER,
        FaultKind.ILLEGAL_INSTRUCTION,
        FaultKind.PRIVILEGED_INSTRUCTION,
        FaultKind.COMPILER_TRAP,
        FaultKind.ARITHMETIC,
        FaultKind.BREAKPOINT,
    }
)
_RAISING = Pattern(
    r"(^|[_:.])(abort|raise|gsignal|kill|t(g)?kill|pthread_kill(_\w+)?|_Exit|restore_sigs)$|"
    r"^std::(__)?terminate$|^_?Py_Fatal|^(rust_panic|runtime\.|PROC)"
)
_SENT_CODES = ("SI_USER", "SI_TKILL", "SI_QUEUE")
_DUMPING = CRASH_SIGNALS - {"SIGTRAP"} | {"SIGQUIT", "SIGXCPU", "SIGXFSZ"}
"""Signals whose default is a core (signal(7)), but for SIGTRAP, which is mostly gdb's own."""
_OF_DEBUGGERS = ("TRAP_TRACE", "TRAP_HWBKPT")
"""A single step or a watchpoint that a debugger left behind: no instruction is a trap."""
_SI_KERNEL = 0x80


def classify(
    signal: Signal | None, fault: Fault | None, threads: Threads, core: CoreFile, process: Process
) -> FaultKind:
    """Return how the process ended, as far as the evidence defines it."""
    if core.origin != "kernel" and not _saved_by_debugger(signal):
        return FaultKind.SNAPSHOT
    if signal is None:
        return FaultKind.UNKNOWN
    from_itself = signal.code == "SI_USER" and signal.sender_pid in (0, process.pid)
    if signal.name == "SIGXFSZ" and from_itself:
        return FaultKind.RESOURCE_LIMIT  # send_sig(SIGXFSZ, current, 0) in mm/filemap.c
    crashed = threads.crashed
    if _is_forged(signal, crashed):
        return FaultKind.RERAISED
    if signal.code in _SENT_CODES:
        return _sent(signal, threads, process)
    if signal.code == "SI_TIMER":
        return FaultKind.SENT_BY_ITSELF if is_sending(crashed) else FaultKind.TIMER
    if _is_notice(signal) or signal.code in _OF_DEBUGGERS:
        return FaultKind.UNKNOWN
    if signal.name == "SIGSEGV":
        kind = _segmentation_fault(signal, fault, threads, process.machine)
        return FaultKind.ABORT if _is_end_of_abort(kind, crashed, process) else kind
    if signal.name == "SIGBUS":
        return _bus_error(signal, fault, threads)
    simple = {
        "SIGABRT": FaultKind.ABORT,
        "SIGFPE": FaultKind.ARITHMETIC,
        "SIGTRAP": FaultKind.BREAKPOINT,
        "SIGSYS": FaultKind.SECCOMP,
        "SIGXCPU": FaultKind.RESOURCE_LIMIT,
        "SIGXFSZ": FaultKind.RESOURCE_LIMIT,
    }
    if signal.name == "SIGTRAP" and fault is not None and _jumped_to_data(fault.pc):
        return FaultKind.BAD_CALL  # bytes of 0xcc: int3
    if signal.name == "SIGTRAP" and process.machine == "aarch64":
        return _break_of_aarch64(fault)
    if signal.name in simple:
        return simple[signal.name]
    if signal.name == "SIGILL":
        return _illegal_instruction(fault)
    if signal.code == "SI_KERNEL":
        # Ctrl-\ reaches the foreground group from the terminal driver, which has no pid
        # (n_tty.c: isig -> kill_pgrp); a hang-up of the same kind cannot be told apart.
        return FaultKind.TERMINAL_QUIT if signal.name == "SIGQUIT" else FaultKind.KILLED_BY_KERNEL
    return FaultKind.UNKNOWN


def _is_forged(signal: Signal, crashed: Thread | None) -> bool:
    """Return whether a process sent itself the siginfo of a fault: handlers pass on what they got.

    A fault comes from an instruction, never from the system call that sends signals.
    """
    is_fault = signal.name in INSTRUCTION_SIGNALS and (signal.code_number or 0) > 0
    return is_fault and signal.then is None and is_sending(crashed)


def _is_notice(signal: Signal) -> bool:
    """Return whether the process had asked for this signal at some event (F_SETSIG, mq_notify)."""
    if signal.code in ("SI_MESGQ", "SI_ASYNCIO", "SI_SIGIO"):
        return True
    code = signal.code_number or 0
    sent = ("SIGABRT", "SIGQUIT", "SIGXCPU", "SIGXFSZ")
    return 0 < code < _SI_KERNEL and signal.name in sent


def _saved_by_debugger(signal: Signal | None) -> bool:
    """Return whether a core by gdb is of a process that the signal was about to end.

    `generate-core-file` of a stopped process keeps the signal that it stopped for: SIGSTOP, SIGTRAP
    or SIGINT if gdb itself stopped it, else the one that kills it, with its siginfo.
    """
    if signal is None:
        return False
    # Of an int3 that is not gdb's own, the reader says that the thread crashed.
    return signal.name in _DUMPING or (signal.name, signal.code) == ("SIGTRAP", "SI_KERNEL")


def _sent(signal: Signal, threads: Threads, process: Process) -> FaultKind:
    own = {process.pid, *(thread.tid for thread in threads)}
    from_itself = signal.sender_pid is None or signal.sender_pid in own
    if signal.code == "SI_TKILL" and signal.sender_pid == 0:
        from_itself = True  # pid namespaces: a sender outside of ours reads as 0, tgkill is ours
    if not from_itself:
        return FaultKind.KILLED_BY_PROCESS
    if signal.name == "SIGABRT" and _was_hit(threads.crashed):
        return FaultKind.SENT_FROM_ELSEWHERE
    # abort() sends its signal with tgkill (SI_TKILL), in glibc and in musl.
    if signal.name == "SIGABRT" and signal.code == "SI_TKILL" and not _is_elsewhere(threads):
        return FaultKind.ABORT
    if signal.name in INSTRUCTION_SIGNALS:
        return FaultKind.RERAISED
    return FaultKind.SENT_BY_ITSELF


def _was_hit(crashed: Thread | None) -> bool:
    """Whether a handler stands on code that raised nothing: faulthandler's raises a copy.

    One that calls abort() may have caught any signal.
    """
    index = crashed.handler_index if crashed is not None else None
    if crashed is None or index is None:
        return False
    names = [bare(frame.function) for frame in crashed.frames]
    below = names[index + 1 : index + 9]
    raised = "abort" in names[:index] or any(map(_RAISING.search, below))
    return bool(below) and below[0] != "??" and not raised


def _is_elsewhere(threads: Threads) -> bool:
    """Whether the crashed stack shows that the thread was not raising a signal itself.

    abort() ends in raise() on its own thread; a thread in the middle of something else got the
    signal from another one. Nameless frames could be anything.
    """
    crashed = threads.crashed
    if crashed is None or not crashed.frames or crashed.frames[0].function == "??":
        return False
    if is_sending(crashed):
        return False
    return not any(_RAISING.search(bare(frame.function)) for frame in crashed.frames[:8])


def _segmentation_fault(
    signal: Signal, fault: Fault | None, threads: Threads, machine: str
) -> FaultKind:
    if fault is not None and is_stack_overflow(signal, fault, threads):
        return FaultKind.STACK_OVERFLOW
    if signal.code == "SI_KERNEL":
        return _general_protection(fault)
    if fault is not None and _is_bad_call(signal, fault):
        return FaultKind.BAD_CALL
    if signal.address is None:  # nor a decoded operand: qemu's cores have no siginfo
        known = fault is not None and not may_be_sending(threads.crashed)
        return FaultKind.GENERAL_PROTECTION if known else FaultKind.UNKNOWN
    if is_null_based(signal.address):
        lost = lost_stack_pointer(fault) is not None and fault is not None and not fault.sp.mapped
        return FaultKind.UNMAPPED if lost else FaultKind.NULL_DEREFERENCE
    if signal.code == "SEGV_MAPERR" and signal.address < 1 << 32 and pointer_value(fault) == 0:
        return FaultKind.NULL_DEREFERENCE  # a member or an element far behind it
    if signal.code in ("SEGV_ACCERR", "SEGV_PKUERR", "SEGV_MTEAERR", "SEGV_MTESERR", "SEGV_CPERR"):
        return FaultKind.NO_PERMISSION
    if not is_canonical(signal.address, machine):
        return FaultKind.NON_CANONICAL
    return FaultKind.UNMAPPED


def _is_end_of_abort(kind: FaultKind, crashed: Thread | None, process: Process) -> bool:
    """Return whether abort() came to its last resort, hlt: its signal has not ended the process.

    The first process of a container has no default actions for what it sends itself
    (pid_namespaces(7)).
    """
    refused = (FaultKind.PRIVILEGED_INSTRUCTION, FaultKind.GENERAL_PROTECTION)
    if kind not in refused or crashed is None or not crashed.frames:
        return False
    inner = crashed.frames[0]
    if inner.function != "??":
        return bare(inner.function) == "abort"
    possible = all(map(is_canonical, (crashed.registers or {}).values()))
    return process.pid == 1 and possible and "/libc" in (inner.module or "")


def _general_protection(fault: Fault | None) -> FaultKind:
    """Tell apart what x86 reports as #GP, without an address (Intel SDM 3A, 6.15)."""
    if fault is None:
        return FaultKind.GENERAL_PROTECTION
    if not is_canonical(fault.pc.value):
        return FaultKind.BAD_CALL
    instruction = fault.instruction
    operand = fault.operand
    if operand is not None and not is_canonical(operand.value):
        return FaultKind.NON_CANONICAL
    if instruction is None:
        return FaultKind.GENERAL_PROTECTION
    if instruction.target is not None and not is_canonical(instruction.target):
        return FaultKind.BAD_CALL  # refused before the jump: the pc still stands at it
    if instruction.feature == "privileged":
        return FaultKind.PRIVILEGED_INSTRUCTION
    # movaps and its like demand 16, 32 or 64 bytes; a stack that a caller left misaligned, or a
    # buffer from an allocator with 8-byte blocks, gives exactly this fault.
    aligned = instruction.alignment or 1
    if operand is not None and operand.mapped and operand.value % aligned:
        return FaultKind.MISALIGNED
    return FaultKind.GENERAL_PROTECTION


_LONGEST_INSTRUCTION = 16


def _is_bad_call(signal: Signal, fault: Fault) -> bool:
    if signal.address is not None:
        if fault.pc.value == signal.address:
            return True
        if not 0 <= signal.address - fault.pc.value < _LONGEST_INSTRUCTION:
            return False  # the code was read; that nothing is mapped there is a gap in the core
    return not fault.pc.mapped or "x" not in (fault.pc.permissions or "x")


def _bus_error(signal: Signal, fault: Fault | None, threads: Threads) -> FaultKind:
    if signal.code in ("BUS_MCEERR_AR", "BUS_MCEERR_AO"):
        return FaultKind.HARDWARE_MEMORY
    if signal.code == "BUS_ADRALN":  # aarch64 refuses a program counter that is no multiple of 4
        is_call = fault is not None and fault.pc.value == signal.address
        return FaultKind.BAD_CALL if is_call else FaultKind.MISALIGNED
    if fault is None or fault.file is None:
        if fault is not None and is_stack_overflow(signal, fault, threads):
            return FaultKind.STACK_OVERFLOW
        # x86 has an exception of its own (#SS) for addresses made of rsp or rbp that are not
        # canonical, which Linux reports as SIGBUS (arch/x86/kernel/traps.c).
        operand = fault.operand if fault is not None else None
        is_odd = operand is not None and not is_canonical(operand.value)
        if signal.code == "SI_KERNEL" and (is_odd or lost_stack_pointer(fault) is not None):
            return FaultKind.NON_CANONICAL
        return FaultKind.BUS_OTHER
    return _bus_error_in_file(fault.file)


def is_memory_backed(file: MappedFile) -> bool:
    """Return whether a file's pages are memory: tmpfs, /dev/shm, hugetlbfs."""
    named = ("/dev/shm/", "/run/shm/", "/memfd:", "/anon_hugepage", "/SYSV")
    kinds = ("tmpfs", "ramfs", "hugetlbfs", "devtmpfs")
    return file.filesystem_type in kinds or file.path.startswith(named)


def _bus_error_in_file(file: MappedFile) -> FaultKind:
    deleted = file.deleted_then or not file.exists
    if not deleted and file.size is not None and file.size <= file.offset:
        return FaultKind.FILE_TRUNCATED
    if file.path.startswith("/memfd:"):
        return FaultKind.FILE_UNREADABLE  # no mount's size limits it, and its own is not known
    if is_memory_backed(file):
        # A page inside the file that could not be given: the file system, or the memory cgroup
        # that pays for it, was full. Space is free again once the process is gone.
        return FaultKind.NO_SPACE
    if file.elsewhere and not file.deleted_then:
        return FaultKind.FILE_UNREADABLE
    if deleted:
        return FaultKind.FILE_GONE
    if file.filesystem_free is not None and file.filesystem_free < 64 * 1024:
        return FaultKind.NO_SPACE
    return FaultKind.FILE_UNREADABLE


def _is_trap(fault: Fault | None) -> bool:
    instruction = fault.instruction if fault is not None else None
    return instruction is not None and instruction.feature == "trap"


def _illegal_instruction(fault: Fault | None) -> FaultKind:
    if _is_trap(fault):
        return FaultKind.COMPILER_TRAP
    if fault is not None and _jumped_to_data(fault.pc):
        return FaultKind.BAD_CALL
    return FaultKind.ILLEGAL_INSTRUCTION


def _break_of_aarch64(fault: Fault | None) -> FaultKind:
    """Tell a compiler's `brk` from a breakpoint: there is no ud2, so traps come as SIGTRAP."""
    return FaultKind.COMPILER_TRAP if _is_trap(fault) else FaultKind.BREAKPOINT


def _jumped_to_data(pc: Address) -> bool:
    """Return whether code ran in memory that is executable but holds no module (heap, stack)."""
    return pc.mapped and (pc.kind or "") in ("heap", "stack", "thread stack")


_SENDING = (62, 129, 200, 234, 297)
"""kill, rt_sigqueueinfo, tkill, tgkill, rt_tgsigqueueinfo on x86-64, whose threads keep the number
of the call that they are in as `orig_rax`."""
_SENDING_AARCH64 = (129, 138, 130, 131, 240)
"""The same on aarch64, by `x8`: also while a handler runs that came in such a call."""


def is_sending(thread: Thread | None) -> bool:
    """Return whether a thread was in kill() or its like; False too where registers do not tell."""
    return thread is not None and thread.register("orig_rax") in _SENDING


def may_be_sending(thread: Thread | None) -> bool:
    """Return the same of aarch64 too, where a handler may run that came in such a call."""
    aarch64 = thread is not None and thread.register("x8") in _SENDING_AARCH64
    return aarch64 or is_sending(thread)
