"""Texts that are no logs: a stack of gdb, a recording of strace, a source file."""

from postmortem.facts.last_lines import LastLine

_FEWEST = 2


def kind_of(lines: list[LastLine], ids: list[list[str]]) -> str | None:
    """Return what a text is whose lines are mostly those of something else than a log."""
    for kind in ("stack", "strace", "source"):
        there = sum(f"last-foreign-{kind}" in names for names in ids)
        # A frame of gdb is broken where the terminal's line is full.
        broken = kind == "stack" and sum(line.text[:1].isspace() for line in lines)
        if there >= _FEWEST and there * 2 > len(ids) - broken:
            return kind
    return None


def stopped_in(lines: list[LastLine], ids: list[list[str]]) -> LastLine | None:
    """Return the innermost frame that has a name and does more than end a process."""
    rows = zip(lines, ids, strict=True)
    frames = [(line, names) for line, names in rows if "last-foreign-stack" in names]
    if not frames[0][0].text.startswith("#0 "):
        return None  # the innermost ones are further above
    return next((line for line, names in frames if "last-frame-ends" not in names), None)
