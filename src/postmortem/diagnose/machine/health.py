"""What the numbers of a host and its GPUs mean, alone and beside those of an earlier moment."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from postmortem.diagnose.machine.check import Check, State
from postmortem.facts.health import Health, Reading
from postmortem.knowledge.lookup import load_table
from postmortem.records import record
from postmortem.text import counted, some

_STATES: tuple[State, ...] = ("ok", "warning", "failed")


@record
class Meaning:
    """What one kind of number says."""

    words: str
    now: State
    grown: State
    why: str
    fix: str
    limit: int
    resets: bool
    """It counts from the boot, or from when the driver was loaded."""
    breaks: str | None
    said: str | None
    """The number as a sentence, of what a host has one of."""


@record
class Change:
    """A number that grew."""

    subject: str
    name: str
    words: str
    before: int
    after: int
    state: State
    breaks: str | None
    """What it can break: ``memory``, ``gpu``, ``disk``, ``network``, ``host``."""
    command: str


@cache
def meanings() -> dict[str, Meaning]:
    """Return what each name means, in the order of the table."""
    states = {state: state for state in _STATES}
    return {
        row["name"]: Meaning(
            words=row["words"],
            now=states[row["now"]],
            grown=states[row["grown"]],
            why=row["why"],
            fix=row["fix"],
            limit=int(row.get("limit", "0")),
            resets=row.get("resets", False),
            breaks=row.get("breaks"),
            said=row.get("said"),
        )
        for row in load_table("health.toml")["reading"]
    }


def changes(before: Health, after: Health) -> tuple[Change, ...]:
    """Return what grew beyond its limit; after another boot, all that was counted since then.

    What the earlier snapshot does not have was not looked at then, and tells nothing.
    """
    old = {(row.subject, row.name): row.value for row in before.readings}
    restarted = before.boot != after.boot
    log_was_read = any(name.startswith("log_") for _, name in old)
    found = []
    for row in after.readings:
        meaning, first = meanings()[row.name], old.get((row.subject, row.name))
        if restarted and meaning.resets:
            first = 0
        elif first is None:
            # Of a device without trouble the log says nothing, and there is no reading.
            first = 0 if log_was_read and row.name.startswith("log_") else row.value
        if row.value > max(first, meaning.limit):
            found.append(_change(row, meaning, first))
    return (*found, *_gone(before, after))


def _change(row: Reading, meaning: Meaning, before: int) -> Change:
    words = f"{meaning.words}: {before:,} before, {row.value:,} now"
    if row.detail:
        words += f" ({row.detail})"
    return Change(
        subject=row.subject,
        name=row.name,
        words=words,
        before=before,
        after=row.value,
        state=meaning.grown,
        breaks=meaning.breaks,
        command=row.command,
    )


def _gone(before: Health, after: Health) -> Iterator[Change]:
    """Yield the GPUs that the driver listed before, while it still lists others."""
    name = "gpu_missing"
    listed = {row.subject for row in after.readings if row.name == name}
    for row in before.readings:
        if listed and row.name == name and row.value == 0 and row.subject not in listed:
            words = "the driver listed it before, and does not now"
            yield Change(row.subject, name, words, 0, 1, "failed", "gpu", row.command)


def health_checks(health: Health, grown: tuple[Change, ...]) -> tuple[Check, ...]:
    """Return a check for each kind of number, the worst first."""
    found = []
    for name, meaning in meanings().items():
        rows = [row for row in health.readings if row.name == name]
        more = [change for change in grown if change.name == name]
        if rows or more:
            found.append(_check(meaning, rows, more))
    return tuple(sorted(found, key=lambda check: -_STATES.index(check.status)))


def _check(meaning: Meaning, rows: list[Reading], more: list[Change]) -> Check:
    high = [row for row in rows if row.value > meaning.limit]
    grown = {change.subject: change for change in more}
    status: State = meaning.now if high else "ok"
    if more and _STATES.index(meaning.grown) > _STATES.index(status):
        status = meaning.grown
    words = [f"{change.subject}: {change.before:,} before, {change.after:,} now" for change in more]
    words += [_words(row) for row in high if row.subject not in grown]
    most = max((row.value for row in rows), default=0)
    calm = f"none, {counted(len(rows), 'place')} looked at" if not most else f"at most {most:,}"
    commands = [change.command for change in more] + [row.command for row in (*high, *rows)]
    return Check(
        meaning.words,
        status,
        some(words, 8) if words else calm,
        meaning.why,
        meaning.fix if status != "ok" else None,
        command=commands[0],
        said=meaning.said.format(most) if meaning.said and status != "ok" else None,
    )


def _words(row: Reading) -> str:
    count = f": {row.value:,}" if row.value != 1 else ""
    return f"{row.subject}{count}" + (f" ({row.detail})" if row.detail else "")
