"""A rank died of a signal, or said that it aborts.

What it means
    It ended without Python: a bad pointer, a failed check in C++, or somebody's kill. Its
    peers see their connections close.
How to be sure
    Its launcher gives a signal that it did not send itself, or the rank wrote Fatal Python
    error, terminate called, or a message of the C library.
What to do
    Read its core. SIGKILL with no sender is mostly the kernel's OOM killer: look into dmesg
    for the pid.
"""

from typing import assert_never

from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks import phrases
from postmortem.diagnose.ranks.attribution import Attribution, Suspect
from postmortem.diagnose.ranks.causes import (
    Crashed,
    HostMemory,
    MaybeMemory,
    MemoryLimit,
    SaidMemory,
)
from postmortem.diagnose.rule import Finding, Findings, rule
from postmortem.facts.crash import CRASH_SIGNALS
from postmortem.facts.exits import RUN, LogExit
from postmortem.knowledge.lookup import OutsideEnd, outside_end
from postmortem.knowledge.messages import CODE_ENDS, MPI_ENDS

_STEPS = {
    "SIGBUS": (
        "df -h /dev/shm  on that host: full, it ends DataLoader workers and NCCL like this; in a "
        "container raise --shm-size",
    ),
    "SIGILL": ("a library built for a newer processor? compare lscpu of the hosts",),
}
"""What is worth a look by the signal alone."""

_TERMINATED = (
    "who sends it: journalctl of that host (earlyoom, systemd-oomd, a service that ends), a "
    "shell's history"
)
"""Of one rank alone: at a time limit all are ended."""
_BY_WHOM = "who sends it? a scheduler's --signal, a timer or a kill: it has no handler for it"
"""Of what leaves no core and is no kill."""


@rule("https://man7.org/linux/man-pages/man7/signal.7.html")
def rank_crashed(blame: Attribution) -> Findings:
    crash = blame.cause
    if not isinstance(crash, Crashed) or not blame.first:
        return
    party = blame.first[0]
    if party.failure is not None and party.failure.match(*MPI_ENDS):
        return  # mpi_ended_job
    who = phrases.ranks_words(blame.first)
    end = party.exit
    signal = end.signal if end is not None else None
    host = f", all ranks of {blame.whole_host}" if blame.whole_host else ""
    killed = signal == "SIGKILL" and party.failure is None
    steps = ["postmortem core explains its core file; none? ulimit -c unlimited, and run again"]
    if end is not None and (outside := from_outside(end)) is not None:
        steps = [*outside.steps]
    elif killed:
        steps = [
            "dmesg -T | grep -i -E 'killed process|out of memory'  on that host, for its pid",
            "sacct -o JobID,State,MaxRSS -j JOB  tells whether Slurm's memory limit was hit",
        ]
    elif party.failure is None and signal is not None and signal not in CRASH_SIGNALS:
        sender = outside_end("signal", signal)
        steps = [*sender.steps] if sender is not None else [_BY_WHOM]
        if signal == "SIGTERM":
            steps = [_TERMINATED]
    elif party.failure is None:
        steps += _STEPS.get(signal or "", ())
        steps.append("PYTHONFAULTHANDLER=1 makes it print its Python stack next time")
    elif end is not None and end.signal is None and end.code:
        steps = ["read what stands around its word: it ended with a code, which leaves no core"]
    it = "it" if len(blame.first) == 1 else "they"
    cause = f"{it.capitalize()} did not end by a Python error{host}."
    if party.failure is not None:
        cause = f"{'Its' if len(blame.first) == 1 else 'Their'} own last words say so{host}."
        cause += phrases.in_call(party.failure)
    if signal is None and party.failure is not None and party.failure.match(*CODE_ENDS):
        steps = ["read the stack below its word: the innermost place in your own code"]
        cause = f"Its run-time ended it with an exit code, which leaves no core{host}."
    elif signal is None and party.failure is not None and party.failure.match("rust-panic"):
        steps = ["RUST_BACKTRACE=1 makes it print the stack of the panic", *steps]
        cause = f"A panic of Rust ended it: with a core only if it was built to abort{host}."
    match crash.memory:
        case HostMemory():
            cause += " The kernel's OOM killer chose that process: the host ran out of memory."
        case MemoryLimit():
            limit = from_outside(end) if end is not None else None
            limit = limit or outside_end("limit", RUN)
            assert limit is not None
            cause += f" {limit.means}"
            steps = [*limit.steps]
        case MaybeMemory(kill):
            cause += (
                f" On that host {kill.words}, pid {kill.pid} ({kill.where}). That is not the pid "
                "that its launcher knows; a container counts its own, so it may be the same "
                "process."
            )
        case SaidMemory(_, where):
            cause += (
                f" {where} tells of a kill for memory, and not of which process: most likely of "
                "this one."
            )
        case None:
            if killed:
                cause += (
                    " Nothing in the logs says who sent it; usually it is the kernel's OOM killer."
                )
        case never:
            assert_never(never)
    known = phrases.known_cause(party.failure)
    if known is not None:
        cause += f" {known.cause}"
        steps = [*known.next_steps, *steps]
    certain = isinstance(crash.memory, HostMemory | MemoryLimit)
    why = ", out of memory" if certain else ""
    if isinstance(crash.memory, SaidMemory):
        why = "; a kill for memory is reported"
    title = f"{who} {'was' if len(blame.first) == 1 else 'were'} {_how(party)}{why}"
    title += phrases.at_frame(party.failure)
    yield Finding(
        lead=who,
        title=title,
        verdict=clip(title, 240),
        cause=cause + phrases.torchrun_words(blame),
        confidence=phrases.how_sure(blame),
        next_steps=tuple(steps),
        evidence=phrases.cite(blame),
    )


def from_outside(end: LogExit) -> OutsideEnd | None:
    """Return what is known of an end by a limit of memory, or by what befell a pod."""
    if end.evicted or end.unplaced:
        fate = "refused" if end.refused else "evicted" if end.evicted else "unplaced"
        return outside_end("pod", fate, end.host or "POD")
    return outside_end("limit", end.launcher, end.host or "IP") if end.memory else None


def _how(party: Suspect) -> str:
    end = party.exit
    if end is not None and end.evicted:
        return f"evicted: {end.evicted}"
    if end is not None and end.signal is not None:
        own = party.failure.said if party.failure is not None else None
        words = own.message if own is not None and own.exception == end.signal else ""
        words = words or (own.words if own is not None else "")
        said = f": {words}" if words else ""
        return f"killed by {end.signal}{said}"
    return f"ended by {party.why}"
