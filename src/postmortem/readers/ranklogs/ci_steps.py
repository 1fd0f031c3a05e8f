"""The step with which a CI's job failed: others of the job run all the same, and so do other jobs.

GitHub and Azure mark as an error the line with which a step fails, and begin each with its time;
``gh run view --log`` writes the names of the job and of the step before that. What follows a failed
step is work of others: those that always run, and those that tidy up. So it is with the commands
that make, ninja or Snakemake runs side by side.
"""

import re
from collections.abc import Sequence

from postmortem.facts.signature import Hit
from postmortem.patterns import Pattern
from postmortem.readers.ranklogs.last_words import ends, read_like
from postmortem.readers.signatures import Signatures
from postmortem.records import record

_OF_STEP = r"(?:(?P<job>[^\t]{1,200})\t[^\t]{1,300}\t)?(?:\ufeff|∩╗┐|ï»¿)?"
"""What ``gh run view --log`` writes first, the names of the job and of the step; and the byte order
mark with which the runner begins each step, which PowerShell reads in its own way."""
_STAMPED = Pattern(
    rf"^{_OF_STEP}(?:(?P<time>\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z) )?(?P<rest>.*)$"
)
_STAMP = Pattern(
    rf"^{_OF_STEP}"
    r"(?:(?:\d{4}-\d\d-\d\d[T ][\d:.,]+ )?\| [A-Z]+ +\| std(?:err|out) +\| "
    r"|\d{4}-\d\d-\d\d[T ][\d:.,]+Z? |[A-Z][a-z]{2} +\d{1,2} \d\d:\d\d:\d\d "
    r"|(?:<\d>)?\[ *\d+\.\d{6}\](?:\[ *[TC]\d+\])? )(?P<rest>.*)$"
)
"""Before each line of a CI's log, of a kernel's, and of a stream that a logger of FastChat's takes,
whatever it is: how many have it does not matter here."""
_BEGINS = "ci-step-begins"
_ERROR, _FAILED, _CANCELLED = "ci-step-error", "ci-step-failed", "ci-step-cancelled"
_MOST_NAMED, _NEAR = 3, 1000
_PART, _GIVES_UP, _ENDS_ALL = "part-failed", "part-gives-up", "part-ends-all"
_STOPPED, _TARGET = "ninja-stopped", "ninja-failed"
_NEXT_TARGET = re.compile(rb"^(?:\[\d+/\d+\] |ninja: )", re.MULTILINE)


@record
class FailedStep:
    """Where the lines of a step stand that failed, and what became of other jobs."""

    begin: int
    """Byte of its first line."""
    end: int
    """Behind its last one."""
    line: int
    """Of its last one."""
    job: str
    """Empty where no line names it."""
    others: tuple[str, ...] = ()
    """Other jobs that failed, at most a few."""
    jobs: int = 1
    """How many jobs the log is of."""
    later: int = 0
    """How many steps of the same job began behind it."""


@record
class _Mark:
    """A line with which a step begins, or that tells of an error in one."""

    id: str
    begin: int
    end: int
    line: int
    job: str
    time: str


def failed_step(data: bytes) -> FailedStep | None:
    """Return the step that failed first, by the clock, of all jobs; None where none did.

    Jobs that were cancelled were so for one that failed, if one did. Of a job the last step with an
    exit code counts: one before it was let go on.
    """
    hits = Signatures.load("ci step").find(data)
    marks = _marks(data, [hit for hit in hits if hit.id.startswith("ci-")])
    failed: dict[str, int] = {}
    for at, mark in enumerate(marks):
        if not _ends_step(data, marks, at):
            continue
        before = failed.get(mark.job)
        if before is None or _rank(mark) >= _rank(marks[before]) > 0:
            failed[mark.job] = at
    if not failed:
        return _failed_target(data, hits)
    ends = sorted(failed.values(), key=lambda at: (not _rank(marks[at]), marks[at].time))
    first = marks[ends[0]]
    others = [marks[at].job for at in ends[1:] if _rank(marks[at])]
    return FailedStep(
        _begin_of(data, marks, ends[0]),
        first.end,
        first.line,
        first.job,
        tuple(others[:_MOST_NAMED]),
        len({mark.job for mark in marks}),
        sum(one.id == _BEGINS and one.job == first.job for one in marks[ends[0] :]),
    )


def _failed_target(data: bytes, hits: Sequence[Hit]) -> FailedStep | None:
    """Return what a tool ran and failed, where the output of others may follow it.

    None also where the file begins anew behind it, or ends well: somebody ran the tool again.
    """
    found = {hit.id: hit for hit in reversed(hits)}  # the first of each
    begin, end = 0, -1
    if _STOPPED in found and _TARGET in found and not _line_behind(data, found[_STOPPED].offset):
        begin = found[_TARGET].offset
        below = _NEXT_TARGET.search(data, begin)
        end = below.start() if below is not None else -1
    elif _ENDS_ALL in found or (_GIVES_UP in found and _PART in found):
        end = data.find(b"\n", found[_ENDS_ALL if _ENDS_ALL in found else _PART].offset) + 1
    first = data.lstrip().partition(b"\n")[0]
    if end <= 0 or b"\n" + first in data[end:] or any(map(ends, read_like(_last_of(data[end:])))):
        return None
    return FailedStep(begin, end, data.count(b"\n", 0, end), "")


def _last_of(data: bytes) -> list[str]:
    return data[-_NEAR:].decode("utf-8", "replace").rstrip().splitlines()[-1:]


def _line_behind(data: bytes, at: int) -> bytes:
    return data[at:].partition(b"\n")[2].strip()


def _marks(data: bytes, hits: Sequence[Hit]) -> list[_Mark]:
    """Return the lines of the runner itself, in order."""
    found: dict[int, _Mark] = {}
    for hit in hits:
        begin = data.rfind(b"\n", 0, hit.offset) + 1
        end = data.find(b"\n", hit.offset) + 1 or len(data)
        told = _STAMPED.match(data[begin : hit.offset].decode("utf-8", "replace"))
        before = found.get(begin)
        if told is None or told["rest"] or (before is not None and before.id != _ERROR):
            continue  # a word within a line is somebody else's
        job = (told["job"] or "").lstrip("\ufeff")
        found[begin] = _Mark(hit.id, begin, end, hit.line_number, job, told["time"] or "")
    return [found[begin] for begin in sorted(found)]


def _rank(mark: _Mark) -> int:
    return {_CANCELLED: 0, _ERROR: 1, _FAILED: 2}[mark.id]


def _ends_step(data: bytes, marks: Sequence[_Mark], at: int) -> bool:
    """Return whether a step ends with a line: that tells so itself, or the next is of another."""
    mark = marks[at]
    if mark.id in (_FAILED, _CANCELLED):
        return True
    if mark.id != _ERROR:
        return False
    if not data[mark.end :].strip():
        return True
    after = marks[at + 1] if at + 1 < len(marks) else None
    if after is not None and after.begin == mark.end:
        return after.id not in (_ERROR, _FAILED, _CANCELLED) or after.job != mark.job
    line = data[mark.end : data.find(b"\n", mark.end) + 1 or len(data)].decode("utf-8", "replace")
    told = _STAMPED.match(line.rstrip())
    return told is not None and (told["job"] or "") != mark.job


def _begin_of(data: bytes, marks: Sequence[_Mark], at: int) -> int:
    """Return where the step of a line begins: below the last that begins one, in the same job."""
    mark = marks[at]
    for before in reversed(marks[:at]):
        if before.job != mark.job:
            return _first_of(data, mark.job, before.end)
        if before.id not in (_ERROR, _FAILED, _CANCELLED):
            return before.begin
        if before.id != _ERROR:
            return before.end
    return _first_of(data, mark.job, 0)


def _first_of(data: bytes, job: str, since: int) -> int:
    """Return where the first line of a job stands, behind a place."""
    if not job:
        return since
    name = job.encode() + b"\t"
    if data.startswith(name, since):
        return since
    return data.find(b"\n" + name, since) + 1 or since


def unstamped(text: str) -> str:
    """Return a line without what a CI writes before it."""
    stamped = _STAMP.match(text)
    return str(stamped["rest"]) if stamped else text
