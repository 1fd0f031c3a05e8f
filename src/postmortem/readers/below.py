"""The files below a folder that are worth opening: of very many of one sort a sample decides.

A job may write beside its data set, and to open a million pictures takes minutes.
"""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from postmortem.facts.source import Problem
from postmortem.patterns import Pattern
from postmortem.text import counted

MOST_FILES = 200_000
"""Files that are opened; those of sorts that a sample leaves out do not count."""
_FEW = 1_000
"""Files of one folder and one suffix that need no sample."""
_SAMPLE = 16
_SECONDS = 30.0
"""After so long the rest is left: a cold disk opens a thousand files in a second, or fewer."""
_MOST_TOLD = 50
_DEEPEST = 200
"""Levels of folders; before Python 3.12 os.walk recurses."""
_NUMBER = Pattern(r"\d+")


def files_below(
    folder: str, problems: list[Problem], is_evidence: Callable[[str], bool]
) -> Iterator[str]:
    """Yield the files that matter, large sorts last; what is left out is told under `problems`.

    Links are not followed into folders. `is_evidence` is asked of a sample of each large sort.
    """
    until, yielded = time.monotonic() + _SECONDS, 0
    large: list[list[str]] = []

    def unreadable(error: OSError) -> None:
        if len(problems) < _MOST_TOLD:
            problems.append(Problem(str(error.filename), f"cannot be listed: {error.strerror}"))

    def small() -> Iterator[str]:
        for base, folders, files in os.walk(folder, onerror=unreadable):
            folders.sort()
            if base.count(os.sep) - folder.count(os.sep) >= _DEEPEST and folders:
                folders.clear()
                what = f"its folders are not read: {_DEEPEST} levels below {folder}"
                problems.append(Problem(base, what))
            for alike in _sorts(base, files):
                if len(alike) > _FEW:
                    large.append(alike)
                else:
                    yield from alike

    def rest() -> Iterator[str]:
        for alike in sorted(large, key=len):
            if any(map(is_evidence, alike[:: len(alike) // _SAMPLE])):
                yield from alike
            else:
                one = Path(alike[0])
                what = f"{counted(len(alike), 'file')} like {one.name}: no sample of them is"
                problems.append(Problem(str(one.parent), f"{what} evidence, and none was read"))

    for files in (small(), rest()):
        for path in files:
            if yielded >= MOST_FILES or time.monotonic() > until:
                what = f"holds too many files: {yielded:,} were looked at, up to {path}"
                problems.append(Problem(folder, what, "name the folders with the evidence"))
                return
            yielded += 1
            yield path


def _sorts(base: str, files: list[str]) -> list[list[str]]:
    """Return the paths of a folder's files by their suffix, numbers in it aside."""
    sorts: dict[str, list[str]] = {}
    for file in sorted(files):
        suffix = _NUMBER.sub("#", os.path.splitext(file)[1])  # noqa: PTH122  of a million names
        sorts.setdefault(suffix, []).append(os.path.join(base, file))  # noqa: PTH118
    if all(len(alike) <= _FEW for alike in sorts.values()):
        return [sorted(path for alike in sorts.values() for path in alike)]
    return list(sorts.values())
