"""Folders that somebody named as those of what is over, and what was copied there."""

from collections.abc import Collection, Sequence
from functools import cache
from pathlib import Path

from postmortem.patterns import Pattern
from postmortem.readers.log_clock import text_ends

_OLD = Pattern(r"(?i)^(?:old|prev(?:ious)?|bak|backup|archived?|outdated|earlier)(?![^\W\d_])")


def copies(paths: Sequence[str]) -> frozenset[str]:
    """Return the logs in folders of old ones that lie elsewhere too, under the same name."""
    may_be = [path for path in paths if _old_above(path.rpartition("/")[0])]
    above = above_all(paths) if may_be else set()
    old = {path for path in may_be if set_aside(path, above)}
    held = {_looks(path) for path in paths if path not in old} if old else set()
    return frozenset(path for path in old if _looks(path) in held)


def _looks(path: str) -> tuple[str, ...]:
    return Path(path).name, *text_ends(path)[:2]


def above_all(paths: Sequence[str]) -> set[Path]:
    """Return the folders above all of some files."""
    folders = {path.rpartition("/")[0] for path in paths}
    every = [{Path(one), *Path(one).parents} for one in folders]
    return set.intersection(*every) if every else set()


def set_aside(path: str, above: Collection[Path]) -> str | None:
    """Return the folder of a file that somebody named as one for what is over.

    One `above` all logs sets nothing aside.
    """
    return next((str(one) for one in _old_above(path.rpartition("/")[0]) if one not in above), None)


@cache
def _old_above(folder: str) -> tuple[Path, ...]:
    return tuple(one for one in (Path(folder), *Path(folder).parents) if _OLD.match(one.name))
