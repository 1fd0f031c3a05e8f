"""HTCondor's user log: what became of each of its jobs, as their last events say.

``log =`` of a submit file names it. The jobs of many submissions may share one; each event begins
with ``012 (CLUSTER.PROC.SUBPROC) TIME TEXT`` and ends with ``...`` (src/condor_utils/
condor_event.cpp).
"""

import re
from collections.abc import Iterable, Iterator

from postmortem.facts.batch_jobs import BatchJob, JobState
from postmortem.facts.source import Problem
from postmortem.readers.ranklogs.statuses import ended
from postmortem.readers.signatures import Signatures
from postmortem.records import replace

_EVENT = re.compile(rb"(\d{3}) \((\d{1,18})\.(\d{1,9})\.\d{1,9}\) \d[\d/-]*[ T]\d\d:\d\d:\d\d ")
_NEXT = re.compile(rb"\n" + _EVENT.pattern)
_END = re.compile(r"\((?:1\) \D*?(?P<code>-?\d{1,9})|0\) \D*(?P<signal>\d{1,3}))\)$")
"""``(1) Normal termination (return value 0)``, ``(0) Abnormal termination (signal 9)``."""
_SUBMITTED, _STARTED, _ENDED, _REMOVED, _HELD = b"000", b"001", b"005", b"009", b"012"
_EXCEPTION = b"007"
_RELEASED = b"013"
_BACK = (b"004", _EXCEPTION, _RELEASED, b"024")
"""Evicted, an exception of its shadow, released, lost: it waits for a start again."""
_MEMORY_CODE = "Code 34 "
_MEMORY = "condor-memory"
_MOST_BODY = 8
_MOST_TEXT = 1000
_MOST_JOBS = 100_000
_MIB = 1 << 20


def has_events(head: bytes) -> bool:
    """Return whether the beginning of a log holds an event."""
    return bool(_EVENT.match(head) or _NEXT.search(head))


class UserLog:
    """Takes the events out of a text, and keeps what they say of jobs."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._jobs: dict[str, BatchJob] = {}
        self._open: set[str] = set()
        self._run = -1
        self._line = 0
        self._event: tuple[bytes, str, int] | None = None
        self._body: list[str] = []
        self._left = 0

    @property
    def jobs(self) -> tuple[BatchJob, ...]:
        """The jobs, in the order in which they came."""
        return tuple(self._jobs.values())

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What was not kept."""
        if not self._left:
            return ()
        what = f"events of jobs after the first {_MOST_JOBS:,} were left out: {self._left:,}"
        return (Problem(self._file, what, "cut the file to see them"),)

    def without_events(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """Yield a text piece by piece; lines of events are left empty: all keep their numbers."""
        rest = b""
        for piece in pieces:
            lines = (rest + piece).split(b"\n")
            rest = lines.pop()
            if len(rest) > _MIB:
                yield rest  # no event has such a line
                rest = b""
            yield b"".join(b"\n" if self._take(line) else line + b"\n" for line in lines)
        if rest and not self._take(rest):
            yield rest
        self._close()

    def _take(self, line: bytes) -> bool:
        """Return whether a line belongs to an event."""
        self._line += 1
        found = _EVENT.match(line)
        if found:
            self._close()
            job = f"{int(found[2])}.{int(found[3])}"
            self._event = found[1], job, self._line
            return True
        if self._event is None:
            return False
        if line.rstrip() == b"...":
            self._close()
            return True
        inside = not line.strip() or line[:1].isspace()
        if not inside:
            self._close()
        elif len(self._body) < _MOST_BODY:
            self._body.append(line[:_MOST_TEXT].decode("utf-8", "replace").strip())
        return inside

    def _close(self) -> None:
        if self._event is not None:
            self._apply(*self._event)
        self._event, self._body = None, []

    def _apply(self, code: bytes, name: str, line: int) -> None:
        old = self._jobs.get(name)
        if old is None and len(self._jobs) >= _MOST_JOBS:
            self._left += 1
            return
        if old is None or code == _SUBMITTED:
            self._run += not self._open
            old = BatchJob(name, max(self._run, 0), JobState.WAITING, self._file, line)
        new = self._after(code, replace(old, line=line), held=old.line)
        self._jobs[name] = new if new is not None else old
        (self._open.add if self._jobs[name].open else self._open.discard)(name)

    def _after(self, code: bytes, job: BatchJob, *, held: int) -> BatchJob | None:
        """Return what an event makes of a job; None where it goes on as it was.

        `held` is the line of the event before, which may be a hold.
        """
        reason = self._body[0].rstrip(".") if self._body else ""
        if code == _STARTED or code in _BACK:
            state = JobState.RUNNING if code == _STARTED else JobState.WAITING
            over = code == _EXCEPTION and _is_memory(reason)
            still = job.memory and code == _RELEASED
            return replace(job, state=state, reason=reason if over else "", memory=over or still)
        if code == _ENDED:
            said = _END.match(reason)
            if said is None:
                return replace(job, state=JobState.ENDED, reason=reason)
            status = int(said["code"]) if said["code"] else -int(said["signal"])
            number, signal = ended(status) if status < 0 else (status, None)
            return replace(job, state=JobState.ENDED, code=number, signal=signal)
        if code == _REMOVED:
            removed = replace(job, state=JobState.REMOVED, reason=reason)
            if job.memory and job.state is JobState.WAITING:  # its shadow says why, right above
                return replace(removed, reason=job.reason, hold_line=held)
            if job.state is not JobState.HELD:
                return removed
            return replace(removed, held=job.reason or "HTCondor does not say why", hold_line=held)
        if code == _HELD:
            by_code = any(one.startswith(_MEMORY_CODE) for one in self._body)
            memory = by_code or _is_memory(reason)
            return replace(
                job, state=JobState.HELD, reason=reason, memory=memory, holds=job.holds + 1
            )
        return None


def _is_memory(reason: str) -> bool:
    return any(match.id == _MEMORY for match in Signatures.load("line").matches([reason])[0])
