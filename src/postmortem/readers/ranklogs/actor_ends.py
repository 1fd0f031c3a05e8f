"""What Ray's exceptions say of actors that died: whose process is gone."""

from collections.abc import Iterable, Iterator, Sequence

from postmortem import thresholds
from postmortem.facts.exits import LogExit
from postmortem.facts.last_lines import LastLines
from postmortem.facts.rank_logs import LogFailure
from postmortem.readers.ranklogs.known_lines import KnownLines
from postmortem.readers.ranklogs.statuses import exit_of
from postmortem.readers.ranklogs.writers import Label, Writers
from postmortem.records import replace

_DIED, _FIELD = "ray-actor-ended", "ray-actor-field"


def actor_ends(
    failures: Iterable[LogFailure],
    known: KnownLines,
    labels: Sequence[Label],
    last: Sequence[LastLines],
    writers: Writers,
) -> Iterator[LogExit]:
    """Yield how actors ended whose death was the end of who called them.

    It was not where that one went on or came to its own end, or another process of the class began.
    """
    for failure in failures:
        found = [known.of(line) for line in failure.text.split("\n")]
        died = next((one[_DIED] for one in found if _DIED in one), None)
        fields: dict[str, str] = {}
        for one in found:
            if _FIELD in one:
                fields |= {name: value for name, value in one[_FIELD].captures.items() if value}
        if died is None or "pid" not in fields or _outlived(failure, last):
            continue
        pid, name, host = int(fields["pid"]), fields.get("process", "worker"), fields.get("host")
        if not any(_took_over(label, failure, name, pid) for label in labels):
            end = exit_of(failure.file, failure.line, "ray", died)
            writer = writers.of_process(name, pid, host)
            yield replace(
                end, pid=pid, host=host, writer=writer, died=True, attempt=failure.attempt
            )


def _outlived(failure: LogFailure, last: Iterable[LastLines]) -> bool:
    over = any(
        one.ended is not None and one.ended.file == failure.file and one.ended.line > failure.line
        for one in last
    )
    far = failure.lines_after > thresholds.CAUGHT_LINES and not failure.uncaught
    return over or far or failure.work is not None or failure.went_on


def _took_over(label: Label, failure: LogFailure, name: str, pid: int) -> bool:
    """Return whether a label is of another process of the class, which began behind the failure."""
    raw = label.raw
    begins = label.file.path == failure.file and raw["first_line"] > failure.line
    return begins and raw["worker"] == name and raw["pid"] != pid
