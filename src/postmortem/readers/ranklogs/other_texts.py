"""Texts that are no logs: a stack of gdb, a recording of strace, a source file."""

from collections.abc import Sequence

from postmortem.facts.last_lines import LastLine
from postmortem.knowledge.frames import frame_kind
from postmortem.patterns import Pattern
from postmortem.readers.ranklogs.last_words import Ids, is_code

_FEWEST = 2
_OBJECT = Pattern(r"^.*?\s(?:Normal|Warning) +[A-Z]\w+ +(?P<kind>[a-z]\w*)/(?P<name>[\w.-]+)")
_JOB_OVER = Pattern(r"\s(?:Completed|BackoffLimitExceeded|DeadlineExceeded) +job/(?P<job>[\w.-]+)")
_FUNCTION = Pattern(r"^#\d+ +(?:0x[0-9a-f]+ in )?(?P<name>[^\s(]+)")


def kind_of(lines: list[LastLine], ids: Sequence[Ids]) -> str | None:
    """Return what a text is whose lines are mostly those of something else than a log.

    Of a program that its user interrupted in gdb those below that count: where it stood.
    """
    begin = max((at + 1 for at, names in enumerate(ids) if "last-halted" in names), default=0)
    lines, ids = lines[begin:], ids[begin:]
    for kind in ("stack", "strace", "source", "events"):
        there = sum(f"last-foreign-{kind}" in names for names in ids)
        if kind == "source":
            there += sum(is_code(line.text) for line in lines)
        # A frame of gdb is broken where the terminal's line is full.
        broken = kind == "stack" and sum(line.text[:1].isspace() for line in lines)
        if there >= _FEWEST and there * 2 > len(ids) - broken:
            return kind
    return None


def of_other_objects(texts: Sequence[str]) -> list[bool]:
    """Return which events of a cluster are of others than the job of which some tell that it ended.

    Its own are the job's, those of pods that bear its name, and those of nodes.
    """
    jobs = tuple({found["job"] for text in texts if (found := _JOB_OVER.search(text))})
    objects = [_OBJECT.match(text) for text in texts]
    return [
        bool(jobs and one and one["kind"] != "node" and not one["name"].startswith(jobs))
        for one in objects
    ]


def stopped_in(lines: list[LastLine], ids: Sequence[Ids]) -> LastLine | None:
    """Return the innermost frame that has a name and does more than end a process, or wait."""
    rows = zip(lines, ids, strict=True)
    frames = [(line, names) for line, names in rows if "last-foreign-stack" in names]
    if not frames[0][0].text.startswith("#0 "):
        return None  # the innermost ones are further above
    named = [line for line, names in frames if "last-frame-ends" not in names]
    return next((line for line in named if not _waits(line.text)), named[0] if named else None)


def _waits(frame: str) -> bool:
    """Return whether a function only says how a thread waits, not for what."""
    found = _FUNCTION.match(frame)
    kind = frame_kind(found["name"]) if found else None
    return kind is not None and (kind.idle or kind.wait)
