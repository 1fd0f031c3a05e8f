"""Bugs of libraries that public trackers document: one TOML file for each library beside this one.

docs/known-bugs.md says what stands in them. Of TOML only what `load_table` reads. `needles.txt`
says in a fraction of the time which files can matter at all; it is made by
``python -m postmortem.knowledge.bugs``.
"""

from functools import lru_cache
from pathlib import Path
from typing import Any

from postmortem.facts.bug import KnownBug
from postmortem.knowledge.lookup import lines_of, load_table
from postmortem.knowledge.version_ranges import bounds

NEEDLES = "needles.txt"


@lru_cache(maxsize=1)
def families() -> tuple[str, ...]:
    """Return the names of the files, without reading one."""
    return tuple(sorted(path.stem for path in Path(__file__).parent.glob("*.toml")))


@lru_cache(maxsize=1)
def bugs() -> tuple[KnownBug, ...]:
    """Return all bugs; raises ValueError for a file that is not as it should be."""
    return tuple(bug for name in families() for bug in family(name))


@lru_cache(maxsize=32)
def family(name: str) -> tuple[KnownBug, ...]:
    """Return the bugs of one file."""
    return tuple(_bug(name, row) for row in load_table(f"bugs/{name}.toml")["bug"])


def families_for(seen: str) -> tuple[str, ...]:
    """Return the families with a bug that a text of all that was seen can show, in order."""
    found: dict[str, None] = {}
    with (Path(__file__).parent / NEEDLES).open(encoding="utf-8") as lines:
        for line in lines:
            name, _, needle = line.rstrip("\n").partition("\t")
            if name not in found and needle in seen:
                found[name] = None
    return tuple(found)


def needles(bug: KnownBug) -> tuple[str, ...]:
    """Return strings, one of which stands in what is seen wherever the bug is."""
    if bug.messages or bug.text:
        return (*bug.messages, *bug.text)
    if bug.frames:
        return (max(bug.frames, key=len).rpartition("::")[2],)
    return bug.modules or tuple(item.partition("=")[0] for item in bug.variables[:1])


def needle_table() -> str:
    """Return what `needles.txt` must hold."""
    rows = {f"{bug.family}\t{needle}" for bug in bugs() for needle in needles(bug)}
    return "\n".join([*sorted(rows), ""])


def _bug(family: str, row: dict[str, Any]) -> KnownBug:
    left = dict(row)
    take = left.pop
    made = KnownBug(
        id=take("id"),
        family=family,
        library=take("library", family),
        title=take("title"),
        cause=" ".join(take("cause").split()),
        affected=lines_of(take("affected")),
        reference=take("reference"),
        fixed_in=take("fixed_in"),
        work_around=lines_of(take("work_around")),
        confidence=take("confidence"),
        role=take("role", "contributing"),
        machine=take("machine", "any"),
        telling=take("telling", False),
        messages=lines_of(take("messages", "")),
        text=lines_of(take("text", "")),
        frames=lines_of(take("frames", "")),
        modules=lines_of(take("modules", "")),
        signals=lines_of(take("signals", "")),
        variables=lines_of(take("variables", "")),
    )
    if left:
        raise ValueError(f"{family}.toml: {made.id}: unknown keys {', '.join(left)}")
    for affected in made.affected:
        bounds(affected)
    return made
