"""Where the ranks of a job stood, what they called last, and their numbers: blocks and JSON."""

from collections.abc import Iterator

from postmortem.diagnose.numerics.flight_verdict import what_failed
from postmortem.diagnose.stacks.classes import TreeLine, tree
from postmortem.diagnose.stacks.names import location, shorten
from postmortem.facts.flight_recorder import Recorder
from postmortem.facts.rank_logs import RankLogs
from postmortem.facts.rank_sets import rank_words
from postmortem.facts.stackdumps import StackClass, StackClasses
from postmortem.facts.threads import Frame
from postmortem.present.numerics.body import flight_row
from postmortem.report.blocks import Block, Excerpt
from postmortem.report.contract import fill
from postmortem.report.contract import logs as shapes
from postmortem.text import more

_FRAMES_SHOWN = 14
_LINES_SHOWN = 24
_CLASSES_IN_JSON = 1000


def stack_blocks(logs: RankLogs, *, verbose: bool) -> Iterator[Block]:
    """Yield the smallest class's stack, whole, then the tree of all."""
    if logs.stacks is None:
        return
    if len(logs.stacks) > 1:
        yield _whole(logs.stacks.items[0], verbose)
    yield tree_block(logs.stacks, verbose=verbose)


def tree_block(found: StackClasses, *, verbose: bool) -> Excerpt:
    """Return the tree of all ranks' stacks."""
    lines = tree(found)
    shown = lines if verbose else lines[:_LINES_SHOWN]
    rows = [(None, "  " * line.depth + f"{line.call}   {_who(line)}") for line in shown]
    if len(lines) > len(shown):
        rows.append((None, f"… {len(lines) - len(shown)} more lines (-v shows them)"))
    return Excerpt("where the ranks stand, the outermost call first", tuple(rows))


def stack_body(logs: RankLogs) -> dict[str, object]:
    """Return the fields of the JSON report; None and empty where there are no dumps."""
    return {
        "stacks": None if logs.stacks is None else class_rows(logs.stacks),
        "recorders": [_recorder(one) for one in logs.recorders],
        "flights": [flight_row(one, what_failed(one)) for one in logs.flights],
    }


def class_rows(found: StackClasses) -> dict[str, object]:
    """Return the classes as JSON has them."""
    classes = [
        fill(
            shapes.StackClass,
            one,
            labels=[member.label for member in one.members],
            ranks=[member.rank for member in one.members if member.rank is not None],
            running=one.is_running,
            frames=one.thread.frames,
        )
        for one in found.items[:_CLASSES_IN_JSON]
    ]
    return fill(shapes.Stacks, found, classes=classes)


def _recorder(one: Recorder) -> dict[str, object]:
    number, last = one.call(-1) if one.calls else (None, None)
    return fill(
        shapes.Recorder,
        one,
        file=one.where,
        last=None if last is None else fill(shapes.LastCall, last, sequence=number),
    )


def _whole(one: StackClass, verbose: bool) -> Excerpt:
    frames = one.thread.frames
    shown = frames if verbose else frames[:_FRAMES_SHOWN]
    rows = [(None, f"{i:2}  {_words(frame)}") for i, frame in enumerate(shown)]
    if len(frames) > len(shown):
        rows.append((None, f"… {len(frames) - len(shown)} more frames (-v shows them)"))
    others = more(len(one.members) - 1)
    return Excerpt(f"stack of {one.members[0].label}{others}, {one.doing.value}", tuple(rows))


def _words(frame: Frame) -> str:
    name = frame.function if frame.kind == "python" else shorten(frame.function)
    where = location(frame.file, frame.line) if frame.file else (frame.module or "")
    return f"{name}  {where}".rstrip()


def _who(line: TreeLine) -> str:
    if len(line.ranks) == len(line.labels):
        return f"[{rank_words(line.ranks)}]"
    return f"[{', '.join(line.labels[:6])}{' …' if len(line.labels) > 6 else ''}]"
