"""What a machine lacks, in blocks and on the card."""

from postmortem.diagnose.machine.check import Check
from postmortem.report.blocks import Block, KeyValues, Table
from postmortem.report.card import Highlights

_BAD = ("failed", "missing", "warning")


def doctor_highlights(found: tuple[Check, ...], *, first_said: bool = False) -> Highlights:
    """Return what is missing, the worst first, and how to get it.

    Of the first it is told why it matters where the verdict has said what was found.
    """
    lacking = [c for status in _BAD for c in found if c.status == status]
    steps = (check.fix for check in lacking if check.fix)
    rows = [(check.name, check.found) for check in lacking]
    if first_said and rows:
        rows[0] = ("why", lacking[0].why)
    return Highlights(rows=tuple(rows), steps=tuple(dict.fromkeys(steps)))


def doctor_blocks(found: tuple[Check, ...]) -> tuple[Block, ...]:
    """Return a block for each thing that is lacking, and a table of what is in order."""
    blocks: list[Block] = []
    for status in _BAD:
        for check in found:
            if check.status == status:
                rows = [("found", check.found), ("why", check.why)]
                if check.fix:
                    rows.append(("fix", check.fix))
                if check.command:
                    rows.append(("shown by", check.command))
                blocks.append(KeyValues(tuple(rows), title=f"{check.name}: {status}"))
    good = tuple((check.name, check.found) for check in found if check.status == "ok")
    if good:
        blocks.append(Table(("check", "found"), good, title="in order"))
    return tuple(blocks)
