"""What is no failure of a rank's own: launchers' words, and what is told twice."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence

from postmortem.facts.last_lines import LastLine
from postmortem.facts.rank_logs import LogFailure
from postmortem.readers.ranklogs.rows import KeptRegion
from postmortem.readers.ranklogs.traceback import Traceback
from postmortem.records import replace

_LAUNCHERS = ("accelerate/commands/", "deepspeed/launcher/", "distributed/launch.py")
_COMMANDS = ("torch/distributed/run.py", "/bin/torchrun", "/bin/accelerate", "/bin/deepspeed")
_SPAWN = "torch/multiprocessing/spawn.py"
"""Its join() raises what it says of a child: `Exception` of old versions."""
_CARRIERS = (
    "RemoteTraceback",
    "_RemoteTraceback",
    "CellExecutionError",
    "PapermillExecutionError",
    "PythonException",
)
"""Whose message is the error of another process, with its traceback: of pools, notebooks, Spark."""
_MOST_CARRIED = 400
"""Lines behind a carrier in which what it carries begins."""
_ENOUGH = 8
"""Letters of a name that was cut off."""
_OF_LAUNCHERS = (
    "ChildFailedError",
    "SignalException",
    "ProcessRaisedException",
    "ProcessExitedException",
)


def is_agent(traceback: Traceback) -> bool:
    """Return whether a launcher itself says that its children failed."""
    files = [frame.file.replace("\\", "/") for frame in traceback.frames]
    if any(part in file for file in files for part in _LAUNCHERS):
        return True
    if files and files[-1].endswith(_SPAWN) and traceback.frames[-1].function == "join":
        return True
    name = traceback.said.exception.rsplit(".", 1)[-1]
    if not name:  # cut off before it says what it raised
        return any(part in file for file in files for part in _COMMANDS)
    return name in _OF_LAUNCHERS or any(
        full.startswith(name) for full in _OF_LAUNCHERS if len(name) >= _ENOUGH
    )


def without_carriers(tracebacks: Sequence[Traceback]) -> Iterator[Traceback]:
    """Yield tracebacks without those that only carry one which stands behind them."""
    for at, one in enumerate(tracebacks):
        carries = one.said.exception.rsplit(".", 1)[-1] in _CARRIERS
        behind = tracebacks[at + 1].begin - one.line if carries and at + 1 < len(tracebacks) else 0
        if not 0 < behind <= _MOST_CARRIED:
            yield one


def once(failures: Iterable[LogFailure]) -> list[LogFailure]:
    """Leave out what the same rank says in a second place: standard error and its own file."""
    kept: list[LogFailure] = []
    seen: dict[object, LogFailure] = {}
    for failure in failures:
        places = tuple((frame.file, frame.line) for frame in failure.frames[-2:])
        key = (
            failure.writer,
            failure.attempt,
            failure.said.exception,
            failure.said.message[:200],
            places,
        )
        old = seen.get(key)
        if old is not None and (old.file != failure.file or failure.source == "quoted"):
            if failure.time is not None and old.time is None:
                kept[kept.index(old)] = seen[key] = replace(old, time=failure.time)
            continue
        seen[key] = failure
        kept.append(failure)
    return kept


_AGAIN = 3


def survived_again(failures: Sequence[LogFailure], processes: Collection[int]) -> list[LogFailure]:
    """Return failures; what one of the `processes` caught again and again, all of them catch.

    A traceback begins where the exception is caught. What was got over when it came once more was
    got over before.
    """
    over = {(f.writer, f.attempt, f.frames, f.said.exception): f for f in failures if f.work}
    once_more = [over.get((f.writer, f.attempt, f.frames, f.said.exception)) for f in failures]
    failures = [
        replace(f, work=one.work)
        if one is not None and f.caught_in and not f.work and f.line < one.line
        else f
        for f, one in zip(failures, once_more, strict=True)
    ]
    keys = [(f.attempt, f.frames[:1]) for f in failures]
    own = [f.writer in processes for f in failures]
    counts = Counter(
        (f.writer, key) for f, key, mine in zip(failures, keys, own, strict=True) if mine
    )
    often = {key for (_, key), count in counts.items() if count >= _AGAIN}
    last = dict(zip(keys, failures, strict=True))
    return [
        replace(f, work=f.work or LastLine(last[key].said.words, last[key].file, last[key].line))
        if mine and key in often
        else f
        for f, key, mine in zip(failures, keys, own, strict=True)
    ]


_IN_FLIGHT = 3


def still_in_flight(region: KeptRegion, line: int, behind: int) -> bool:
    """Return whether all `behind` lines after a traceback's last came through the other pipe.

    mpirun reads both pipes of a process in no order: what was written before an error may come
    after it, a few lines at most.
    """
    at, streams = region.index(line), region.raw[5]
    known = region.has_line(line) and streams[at] != " "
    if not known or not 0 < behind <= _IN_FLIGHT:
        return False
    others = streams[at + 1 : at + 1 + behind]
    return len(others) == behind and streams[at] not in others
