"""All cores that the user names: files as they are, folders with what lies below them."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from postmortem.facts.source import Problem
from postmortem.readers.corefind import core_problem, named_like_core
from postmortem.readers.regular import is_regular
from postmortem.records import record
from postmortem.text import counted

MOST_CORES = 10_000
_MOST_FILES = 50_000
_MOST_ODD_NAMES = 2_000
"""Files not named like a core that are looked into: data sets lie beside cores too."""
_DEEPEST = 6


@record
class FoundCores:
    """What is to be read, each file once, in the order of the names given."""

    paths: tuple[Path, ...]
    problems: tuple[Problem, ...] = ()


def find_cores(named: Iterable[Path]) -> FoundCores:
    """Return the cores among files and below folders; a file that is named is taken as it is.

    Links to folders are not followed. What is named like a core and is none becomes a Problem.
    """
    taken: dict[str, Path] = {}
    problems: list[Problem] = []
    for path in named:
        if path.is_dir():
            problems += _below(path, taken)
        else:
            taken.setdefault(os.path.realpath(path), path)
    paths = tuple(taken.values())
    if len(paths) > MOST_CORES:
        what = f"{len(paths):,} cores are too many for one report; the first {MOST_CORES:,} of them"
        problems.append(Problem(str(paths[MOST_CORES]), f"{what} are read"))
    return FoundCores(paths[:MOST_CORES], tuple(problems))


def _below(folder: Path, taken: dict[str, Path]) -> Iterator[Problem]:
    """Add the cores below a folder; yield what looks like one and is none."""
    files = odd_names = found = 0
    failures: list[OSError] = []
    for where, folders, names in os.walk(folder, onerror=failures.append):
        depth = len(Path(where).relative_to(folder).parts)
        folders[:] = sorted(folders) if depth < _DEEPEST else []
        for name in sorted(names):
            path = Path(where, name)
            files += 1
            if not named_like_core(path):
                odd_names += 1
                if odd_names > _MOST_ODD_NAMES:
                    continue
            problem = core_problem(path) if is_regular(path) else ""
            if problem is None:
                found += 1
                taken.setdefault(os.path.realpath(path), path)
            elif problem:
                yield Problem(str(path), f"is named like a core, but {problem}")
        if files > _MOST_FILES or len(taken) > MOST_CORES:
            what = f"more than {files:,} files lie below it: the rest is not looked at"
            yield Problem(str(folder), what, "name a folder further down")
            break
    for error in failures:
        what = f"cannot list the folder: {error.strerror}"
        yield Problem(str(error.filename), what)
    if not found and not failures:
        yield Problem(str(folder), f"no core among {counted(files, 'file')} below it")
