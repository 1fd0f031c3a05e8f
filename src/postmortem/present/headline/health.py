"""The verdict on the hardware of a host."""

from collections.abc import Sequence
from datetime import UTC, datetime

from postmortem.diagnose.machine.check import Check
from postmortem.facts.health import Health
from postmortem.text import counted, more


def headline(now: Health, found: Sequence[Check], before: Health | None) -> str:
    """Return what is worst, how much was looked at, and since when it is compared."""
    since = "" if before is None else f", since {datetime.fromtimestamp(before.taken, UTC):%F %T}Z"
    if before is not None and before.boot != now.boot:
        since += " (restarted in between)"
    bad = [check for check in found if check.status != "ok"]
    if not now.readings:
        return "nothing could be read of the hardware"
    looked = f"{counted(len(now.readings), 'reading')}{since}"
    if not bad:
        unread = f"; {counted(len(now.problems), 'source')} not read" if now.problems else ""
        return f"no fault among {looked}{unread}"
    worst = bad[0]
    others = more(len(bad) - 1, "; {} more")
    return f"{worst.said or f'{worst.name}: {worst.found}'}{others}{since}"
