"""The verdict: one sentence from the diagnoses, for a reader who reads nothing else."""

from collections.abc import Sequence

from postmortem.diagnose.core.owners import file_name
from postmortem.diagnose.core.stacks import place, python_index
from postmortem.diagnose.core.waiting_caller import waiting_caller
from postmortem.diagnose.names import clip
from postmortem.facts.crash import Signal
from postmortem.facts.process import Process
from postmortem.facts.threads import Thread, Threads
from postmortem.present.headline.grammar import doubt, hedged
from postmortem.report.model import Diagnosis, Role, Topic, ordered

_ORDER = (Role.ROOT, Role.CASCADE, Role.CONTRIBUTING, Role.CONTEXT)


def headline(
    signal: Signal | None,
    process: Process | None,
    diagnoses: Sequence[Diagnosis],
    *,
    threads: Threads | None = None,
    placed: bool = True,
) -> str:
    """Return what happened, in one sentence: the signal, the rank, and the best diagnosis.

    Where it is `placed` the line of Python stands at its end; on a card that line has its
    own place.

    A cascade or a context is the verdict only while no root is known. Several roots that are all
    merely possible give a sentence that says so and names them.
    """
    usable = [d for d in ordered(diagnoses) if d.topic is not Topic.EVIDENCE]
    taken = next((d for d in usable if d.topic is Topic.SNAPSHOT), None)
    if taken is not None:
        waits = (d for d in usable if d.role is Role.ROOT and d.topic is Topic.WAITS)
        stuck = next(waits, None)
        if stuck is not None:
            return (
                f"{_who(None, process)}{doubt(stuck)}{stuck.title} (a snapshot of a live process)"
            )
        return f"{_who(None, process)}{taken.title}"
    usable.sort(key=lambda diagnosis: diagnosis.topic is Topic.PROCESS)  # the sentence says whose
    for role in _ORDER:
        of_role = [d for d in usable if d.role is role]
        if of_role:
            return _sentence(signal, process, of_role, threads if placed else None)
    name = signal.name if signal is not None else "an unknown signal"
    rank = _rank(process)
    crashed = threads.crashed if threads is not None else None
    stood = place(crashed)
    stopped = f" (it stopped {clip(stood, 120)})" if stood else ""
    where = f" in {rank}" if rank else ""
    return f"{name} ended the process{where}{stopped}; the evidence does not say why"


def _sentence(
    signal: Signal | None,
    process: Process | None,
    diagnoses: Sequence[Diagnosis],
    threads: Threads | None,
) -> str:
    best = diagnoses[0]
    placed = best.role is Role.ROOT and best.topic is not Topic.WAITS
    after = _where(threads, best.title) if placed else ""
    return _who(signal, process) + hedged(diagnoses, after=after)


def _who(signal: Signal | None, process: Process | None) -> str:
    rank = _rank(process)
    if signal is None:
        return f"{rank}: " if rank else ""
    then = signal.then
    name = signal.name
    if then is not None and then.number != signal.number:
        name = f"{name}, then {then.name}"
    return f"{name} in {rank}: " if rank else f"{name}: "


def _rank(process: Process | None) -> str:
    """Return ``rank 3 of 8``, ``a DataLoader worker of rank 3``, or nothing."""
    if process is None:
        return ""
    role = "" if process.role is None else f"a {process.role}"
    if process.rank is None:
        return role
    of = f" of {process.world_size}" if process.world_size is not None else ""
    return f"{role}{' of ' if role else ''}rank {process.rank}{of}"


def _where(threads: Threads | None, said: str) -> str:
    """Return the thread, if it is not the main one, and the innermost Python line."""
    crashed = threads.crashed if threads is not None else None
    if threads is None or crashed is None:
        return ""
    parts = []
    if crashed.called and crashed.tid != threads.main_tid:
        parts.append(f'thread "{crashed.called}"')
    line = _python_line(crashed, said)
    waiting = waiting_caller(threads) if line is None else None
    if waiting is not None:
        line = _python_line(waiting, said)
    if line:
        parts.append(line if waiting is None else f"working for {line}")
    return f" ({', '.join(parts)})" if parts else ""


def _python_line(thread: Thread, said: str) -> str | None:
    index = python_index(thread)
    frame = None if index is None else thread.frames[index]
    if frame is None or not frame.file:
        return None
    place = f"{file_name(frame.file)}:{frame.line}" if frame.line else file_name(frame.file)
    return None if place in said else f"Python: {clip(frame.function, 60)} at {clip(place, 80)}"
