"""Signals that end processes, and who sent them."""

from collections.abc import Iterable, Iterator

from postmortem.diagnose.names import clip
from postmortem.diagnose.strace.arguments import argument
from postmortem.diagnose.strace.calls import where, who
from postmortem.facts.syscall_logs import Logs
from postmortem.facts.syscalls import Ending, Match, Task
from postmortem.patterns import Pattern
from postmortem.records import replace
from postmortem.report.model import Evidence
from postmortem.text import counted

CRASHES = {
    "SIGSEGV": "a bad address",
    "SIGBUS": "memory that it could not get",
    "SIGABRT": "it, or the C library, called abort",
    "SIGFPE": "a division or overflow",
    "SIGILL": "an instruction that the processor does not have",
    "SIGTRAP": "a trap of the compiler or a debugger",
    "SIGSYS": "a call that a seccomp filter forbids",
    "SIGSTKFLT": "a fault of the stack",
}
"""Signals by which a program's own fault ends it, in words."""

_FAULTS = {
    "SEGV_MAPERR": "nothing is mapped at {address}",
    "SEGV_ACCERR": "the memory at {address} does not allow it: read-only, or not to be executed",
    "SEGV_BNDERR": "{address} is out of bounds",
    "SEGV_PKUERR": "a protection key forbids {address}",
    "SI_KERNEL": "an address that no pointer can have, or a protected instruction",
    "BUS_ADRALN": "an address that is not aligned",
    "BUS_ADRERR": "no memory behind {address}: a mapped file is too short, or its disk is full",
    "BUS_MCEERR_AR": "the memory hardware reported an error at {address}",
    "FPE_INTDIV": "an integer was divided by zero",
    "FPE_INTOVF": "an integer overflowed",
    "SYS_SECCOMP": "a seccomp filter forbids {call}",
}
_FAULT = Pattern(
    r"si_code=(?P<code>[A-Z_]+), si(?:_call)?_addr=(?P<address>NULL|0x[0-9a-f]{1,16})\b"
    r"(?:, si_syscall=__NR_(?P<call>\w+))?"
)
_BY_SIGPIPE = 128 + 13
_NULL = Pattern(r"NULL|0x[0-9a-f]{1,4}")  # nothing is ever mapped there: vm.mmap_min_addr
_MAIN_STACK = Pattern(r"0x7ff[c-f][0-9a-f]{8}")
"""Where x86-64 has it: within 16 GiB of the end of the address space."""


def crash_words(end: Ending) -> str:
    """Return what is known of a crash: what the processor found, else what its signal means."""
    told = _FAULT.search(end.fault or "")
    words = _FAULTS.get(told["code"]) if told is not None else None
    if told is None or words is None:
        return CRASHES[end.signal or ""]
    if told["code"] == "SEGV_MAPERR" and _NULL.fullmatch(told["address"]):
        words = "a null pointer was followed ({address})"
    elif told["code"] == "SEGV_MAPERR" and _MAIN_STACK.fullmatch(told["address"]):
        words = "a stack overflow? nothing is mapped at {address}, beside the main stack"
    return words.format(address=told["address"], call=told["call"] or "a call")


def had_enough(task: Task, tasks: Iterable[Task]) -> bool:
    """Return whether SIGPIPE ended who wrote for a reader that ended well: yes | head.

    A shell that cares (pipefail) exits with 141 then.
    """
    end = task.ending
    if end is None or end.signal != "SIGPIPE" or task.ppid is None:
        return False
    others = [(one, one.ending) for one in tasks if one.ending is not None]
    if any(one.pid == task.ppid and how.code == _BY_SIGPIPE for one, how in others):
        return False
    return any(
        one.ppid == task.ppid and one.thread_of is None and how.code == 0 for one, how in others
    )


def ended(logs: Logs) -> Iterator[tuple[Task, Ending]]:
    """Yield the processes of which the log has the end; any thread may have taken the signal."""
    took = {
        (task.thread_of, task.ending.signal): task.ending
        for task in logs.tasks()
        if task.thread_of is not None and task.ending is not None
        if task.ending.sender_pid is not None or task.ending.fault is not None
    }
    for task in logs.tasks():
        end = task.ending
        if task.thread_of is not None or end is None or had_enough(task, logs.tasks()):
            continue
        if end.signal and end.sender_pid is None and end.fault is None:
            one = took.get((task.pid, end.signal), end)
            end = replace(end, sender_pid=one.sender_pid, fault=one.fault)
        yield task, end


def passes_on(logs: Logs, task: Task, end: Ending) -> bool:
    """Return whether a process ended as its child did.

    timeout(1), shells and launchers end themselves by the signal that ended their child.
    """
    return any(
        other.ppid == task.pid and other_end.signal == end.signal
        for other, other_end in ended(logs)
    )


def cite_end(task: Task, end: Ending) -> Evidence:
    """Return how a process ended."""
    how = f"exited with {end.code}" if end.signal is None else f"killed by {end.signal}"
    return Evidence(where(end), f"{who(task.pid)} {how}")


def and_more(count: int) -> str:
    """Return how many processes more ended so; nothing for none."""
    return f" and {counted(count, 'more process', 'more processes')}" if count else ""


def process_of(logs: Logs, pid: int) -> Task | None:
    """Return the process with a pid, if the log has it."""
    return logs.first(pid) if pid else None


def sender_words(task: Task) -> str:
    """Return who a sender is, short enough for a title."""
    program = (task.argv or ("",))[0].rpartition("/")[2]
    return f"{who(task.pid)}" + (f" ({clip(program, 30)})" if program else "")


def signal_calls(logs: Logs, victim: int, signal: str, sender: int) -> list[Match]:
    """Return the calls by which a process sent a signal to another one or to its group."""
    calls = logs.asked("kill", "tkill", "tgkill", "pidfd_send_signal", "rt_sigqueueinfo")
    mine = [c for c in calls if (c.task.thread_of or c.pid) == sender and signal in c.arguments]
    to_it = [c for c in mine if argument(c, 0).removeprefix("-") == str(victim)]
    return to_it or [c for c in mine if sent_to_group(c)]


def sent_to_group(call: Match) -> bool:
    """Return whether a signal was sent to a group of processes, not to one."""
    return argument(call, 0) == "0" or argument(call, 0).startswith("-")
