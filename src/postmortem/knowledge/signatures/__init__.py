"""The signatures that the program knows: one TOML file for each family beside this one.

docs/writing-a-signature.md says what stands in them. Of TOML only what `load_table` reads.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

from postmortem.facts.signature import Signature
from postmortem.knowledge.lookup import load_table


@lru_cache(maxsize=1)
def signatures() -> tuple[Signature, ...]:
    """Return all signatures, in order of families and, in each, of its file.

    Raises ValueError for a file that is not as it should be.
    """
    names = sorted(path.stem for path in Path(__file__).parent.glob("*.toml"))
    return tuple(signature for name in names for signature in family(name))


@lru_cache(maxsize=64)
def family(name: str) -> tuple[Signature, ...]:
    """Return the signatures of one file."""
    tables = load_table(f"signatures/{name}.toml")
    return tuple(_signature(name, row) for row in tables["signature"])


@lru_cache(maxsize=1)
def by_id() -> dict[str, Signature]:
    """Return all signatures by their ids."""
    return {signature.id: signature for signature in signatures()}


def _signature(family: str, row: dict[str, Any]) -> Signature:
    left = dict(row)
    take = left.pop
    made = Signature(
        id=take("id"),
        family=family,
        role=take("role"),
        where=tuple(take("where").split(", ")),
        cause=" ".join(take("cause").split()),
        next_steps=_steps(take("next")),
        reference=take("reference"),
        versions=take("versions", None),
        pattern=take("pattern", None),
        frames=_lines(take("frames", "")),
        sign=take("sign", None),
        rule=take("rule", None),
        samples=_lines(take("samples", "")),
        unlike=_lines(take("unlike", "")),
        event=take("event", None),
        fault=take("fault", None),
        part=take("part", None),
        startup=take("startup", None),
    )
    if left:
        raise ValueError(f"{family}.toml: {made.id}: unknown keys {', '.join(left)}")
    return made


def _lines(text: str) -> tuple[str, ...]:
    return tuple(filter(None, text.split("\n")))


def _steps(text: str) -> tuple[str, ...]:
    """Return the steps of a list in which each begins with "- " and may go on in further lines."""
    steps: list[list[str]] = []
    for line in _lines(text):
        if line.startswith("- "):
            steps.append([line[2:].strip()])
        elif steps:
            steps[-1].append(line.strip())
        else:
            raise ValueError(f"no step begins before: {line}")
    return tuple(_joined(step) for step in steps)


def _joined(parts: Iterable[str]) -> str:
    return " ".join(parts)
