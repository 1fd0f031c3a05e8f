"""The reading of a core, begun before the analysis of it is imported.

The native reader of a torch core takes about as long as the import of what explains its answer,
and leaves the interpreter free meanwhile.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from postmortem.analyses.background import Background
from postmortem.facts.source import Problem
from postmortem.readers.native_core import NativeAnswer, ask_native
from postmortem.readers.opening import OpenedCore, open_core
from postmortem.records import record

Progress = Callable[[str], None]


@record
class CoreReading:
    """A core that is open, and the native reader's answer when it comes."""

    path: Path
    """As the user named it; `opened.path` may be an unpacked copy."""
    opened: OpenedCore
    answer: Background[NativeAnswer]
    problems: tuple[Problem, ...] = ()


def choose_core(path: Path | None) -> tuple[Path, tuple[Problem, ...]]:
    """Return the core that is meant: the file itself, or the newest one in a folder.

    With it come remarks on what else lies there.
    """
    folder = Path() if path is None else path
    if not folder.is_dir():
        return folder, ()
    from postmortem.readers.corefind import newest_core

    found = newest_core(folder)
    remarks = [Problem(str(skipped), f"is newer, but {why}") for skipped, why in found.skipped]
    if found.others:
        word = "other core lies" if found.others == 1 else "other cores lie"
        what = f"took the newest, {found.path.name}; {found.others} {word} in the same folder"
        remarks.append(Problem(str(folder), what, "name a file to have another one explained"))
    return found.path, tuple(remarks)


@contextlib.contextmanager
def reading_core(
    path: Path,
    *,
    executable: Path | None = None,
    sysroot: str | None = None,
    python_locals: bool = False,
    temp_dir: Path | None = None,
    progress: Progress | None = None,
) -> Iterator[CoreReading]:
    """Open a core, unpacked if need be, and begin to read it; raises EvidenceError for no core."""
    with open_core(path, temp_dir=temp_dir, progress=progress) as opened:
        problems = opened.problems
        if sysroot is not None and not Path(sysroot).is_dir():
            what = "is not a folder: with this --sysroot no file of the process is found"
            problems = (*problems, Problem(sysroot, what))
        ask = partial(
            ask_native,
            str(opened.path),
            executable=None if executable is None else str(executable),
            sysroot=sysroot,
            python_locals=python_locals,
        )
        yield CoreReading(path, opened, Background(ask), problems)
