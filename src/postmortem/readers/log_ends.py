"""What the two ends of a log tell: when it began, and whose ends it tells of."""

from itertools import takewhile

from postmortem.patterns import Pattern
from postmortem.readers.log_clock import text_ends, times_in
from postmortem.readers.ranklogs.last_words import read_like, works
from postmortem.readers.ranklogs.launchers import tasks_of
from postmortem.records import record

_SUMMARY = Pattern(r"rank +: (\d{1,7}) \(local_rank[^\n]*\n[^\n]*\(pid: (\d{1,10})\)")
_TASKS = Pattern(r"(?m)^srun: error: \S{1,255}: tasks? ([\d,-]{1,4000}): ")
OF_RANK = Pattern(r"(?i)\brank[ =:]?(\d{1,6})\b")
NUMBER = Pattern(r"\d+")
_BEGIN = 40
CERTAIN = 5.0
"""Seconds that a file must have begun after another one's end."""
LONG = 3600.0
"""The same in another folder, which may be a node's: nodes begin late, and their clocks differ."""
COPIED = 5.0
"""Seconds between the times of files that were copied together."""
_ZONE = 900.0
"""Seconds by which clocks of two zones differ at least."""
_ALIKE = 60.0
"""The same between what the nodes of one job write first, or last."""


@record
class Ends:
    """What the two ends of a log tell."""

    began: float | None
    ended: float
    times: tuple[float, ...]
    """The first and the last that it says, by its own clock."""
    ranks: dict[str, str]
    """The processes of torchrun's summary, by rank."""
    gone: frozenset[str]
    """Ranks of which a launcher tells how they ended."""
    named: frozenset[str]
    """Ranks that its lines name."""
    first: str
    """How the first line begins, its numbers taken out."""
    timed: bool
    """That line has a time."""


def are_apart(one: Ends, other: Ends) -> bool:
    """Return whether summaries of torchrun give one rank different processes."""
    common = one.ranks.keys() & other.ranks.keys()
    return bool(common) and all(one.ranks[rank] != other.ranks[rank] for rank in common)


def behind_copied(one: Ends, other: Ends, *, counted: bool) -> float | None:
    """Return how long one had ended when the other began, by their own clock.

    None but where both begin alike and were copied at once: else the times of the files tell more.
    Nor where their times are a zone apart, unless names count the runs: then they may have been
    written side by side.
    """
    if not (one.timed and other.timed) or abs(one.ended - other.ended) > COPIED:
        return None
    apart = [there - here for here, there in zip(one.times, other.times, strict=True)]
    if not counted and all(
        abs(seconds - round(apart[0] / _ZONE) * _ZONE) < _ALIKE for seconds in apart
    ):
        return None
    pause = max(other.times[0] - one.times[-1], one.times[0] - other.times[-1])
    return pause if one.first == other.first and pause > CERTAIN else None


def one_by_one(one: Ends, other: Ends, *, alike: bool) -> bool:
    """Return whether one began after the other's end, in a file of the same kind."""
    first, then = sorted((one, other), key=lambda ends: ends.ended)
    alike = alike or bool(first.ranks and first.first == then.first)
    side_by_side = first.times and then.times and then.times[0] <= first.times[-1]
    began = then.began
    if began is not None:
        # Behind the last time a log may go on for long; by one clock the other one tells when, and
        # without it what is left of whole quarters of an hour.
        late = then.ended - then.times[-1]
        late -= first.ended - first.times[-1] if first.times else late // _ZONE * _ZONE
        began -= late if 0 < late < _ZONE else 0
    behind = began is not None and began > first.ended + CERTAIN
    return alike and (behind or outlives(first, then)) and not side_by_side


def outlives(first: Ends, then: Ends) -> bool:
    """Return whether a log without times went on long after all ranks had ended that it names."""
    gone = bool(then.named) and then.named <= first.gone
    return then.began is None and gone and then.ended > first.ended + LONG


def ends_of(path: str) -> Ends:
    """Return what the ends of a log tell."""
    head, tail, ended = text_ends(path)
    times = [*times_in(head), *times_in(tail)]
    # By the clock of the file's last change, for the log's own may be another one. What worked
    # without a word of the time had begun long before.
    untimed = [*takewhile(lambda line: not any(times_in(line)), head.splitlines())]
    told = times and times[-1] >= times[0] and not any(map(works, read_like(untimed)))
    began = ended - (times[-1] - times[0]) if told else None
    ranks = {one[1]: one[2] for one in _SUMMARY.finditer(tail)}
    tasks = (str(task) for told in _TASKS.finditer(tail) for task in tasks_of(told[1]))
    named = frozenset(OF_RANK.findall(head + tail))
    gone = frozenset((*ranks, *tasks))
    timed = any(times_in(first_line(head)))
    span = (*times[:1], *times[-1:])
    return Ends(began, ended, span, ranks, gone, named, begin_of(head), timed)


def begin_of(head: str) -> str:
    """Return how the first line of a log begins, its numbers taken out."""
    return NUMBER.sub("#", first_line(head))[:_BEGIN]


def first_line(head: str) -> str:
    """Return the first line of a log that is not empty."""
    return head.lstrip().partition("\n")[0]
