"""Who holds up whom by the flight recorders: one row a culprit, and their JSON."""

from collections.abc import Iterator
from datetime import UTC, datetime

from postmortem.diagnose.jam.jam import (
    CalledOther,
    CameLate,
    Culprit,
    Disagrees,
    InRing,
    Inside,
    NeverCame,
    NoDump,
    NotBegun,
    NotFinished,
    Operation,
    OutOfOrder,
    Sign,
    StoppedNoting,
)
from postmortem.diagnose.jam.words import culprit_words, detail_words, share_words
from postmortem.present.ranks.view import RankLogsView
from postmortem.report.blocks import Block, Note, Table, Tone
from postmortem.report.contract import fill
from postmortem.report.contract import logs as shapes
from postmortem.text import counted

_ROWS_SHOWN = 12
_KINDS: dict[type, str] = {
    StoppedNoting: "stopped taking note",
    CalledOther: "called something else",
    NeverCame: "never came",
    OutOfOrder: "another order",
    CameLate: "late",
    NotBegun: "device has not begun",
    NotFinished: "not finished",
    NoDump: "no dump",
    InRing: "in a ring",
    Disagrees: "disagrees",
    Inside: "inside",
}


def jam_blocks(view: RankLogsView, *, verbose: bool) -> Iterator[Block]:
    """Yield a table with one row for each culprit, and how many of the waiting ranks they hold."""
    jam = view.blame.jam
    if jam is None or (jam.sign is Sign.AGAINST and not jam.culprits):
        return
    rows = jam.culprits or jam.candidates
    shown = rows if verbose else rows[:_ROWS_SHOWN]
    if shown:
        title = "who holds up the others" if jam.culprits else "who may hold up the others"
        columns = ("rank", "how", "since", "holds up", "operation")
        yield Table(columns, tuple(map(_row, shown)), title, right_aligned=(0, 3))
    if len(rows) > len(shown):
        yield Note(f"{len(rows) - len(shown):,} more: -v or --json shows them", Tone.QUIET)
    if jam.culprits:
        yield Note(share_words(jam), Tone.QUIET)
    if jam.unseen:
        yield Note(f"there is no dump of {counted(jam.unseen, 'rank')}", Tone.QUIET)


def jam_body(view: RankLogsView) -> dict[str, object]:
    """Return the fields of the JSON report; null and empty where nobody waits."""
    jam = view.blame.jam
    if jam is None:
        return {"culprits": [], "jam": None}
    return {
        "culprits": [_culprit(one) for one in jam.culprits],
        "jam": fill(
            shapes.Jam,
            jam,
            operations_left_out=jam.left_out,
            candidates=[_culprit(one) for one in jam.candidates],
            unended=[
                fill(shapes.Unended, one, operation=_operation(one.operation))
                for one in jam.unended
            ],
        ),
    }


def _row(one: Culprit) -> tuple[str, ...]:
    operation = one.operation
    call = "" if operation is None or operation.call is None else operation.call.operation
    where = "" if operation is None else f"{call} {operation.number} of group {operation.group}"
    words = f" ({operation.group_words})" if operation is not None and operation.group_words else ""
    since = None if operation is None else operation.since
    return (
        str(one.rank),
        f"{_KINDS[type(one.cause)]}, {one.sure.value}",
        "" if since is None else _clock(since),
        f"{one.holds_up:,}",
        where.strip() + words,
    )


def _clock(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return ""


def _culprit(one: Culprit) -> dict[str, object]:
    detail = detail_words(one)
    return fill(
        shapes.Culprit,
        one,
        kind=_KINDS[type(one.cause)],
        what=culprit_words(one) + (f"; {detail}" if detail else ""),
        confidence=one.sure,
        operation=None if one.operation is None else _operation(one.operation),
    )


def _operation(one: Operation) -> dict[str, object]:
    name = None if one.call is None else one.call.operation
    return fill(shapes.Operation, one, name=name, sequence=one.number)
