"""The reading of a core, begun before the analysis of it is imported.

The native reader of a torch core takes about as long as the import of what explains its answer,
and leaves the interpreter free meanwhile.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from postmortem.background import Background
from postmortem.errors import EvidenceError
from postmortem.facts.source import Problem, Source
from postmortem.readers.native_core import NativeAnswer, ask_native
from postmortem.readers.opening import OpenedCore, Progress, open_core
from postmortem.records import record, replace
from postmortem.text import counted, some

if TYPE_CHECKING:
    from postmortem.facts.core import CoreFacts
    from postmortem.facts.process import CoreFile


@record
class CoreReading:
    """A core that is open, and the native reader's answer when it comes."""

    path: Path
    """As the user named it; `opened.path` may be an unpacked copy."""
    opened: OpenedCore
    answer: Background[NativeAnswer]
    problems: tuple[Problem, ...] = ()

    def facts(self, tid: int | None = None) -> tuple[CoreFacts, Source]:
        """Return what the core says; raises EvidenceError for nothing, or no thread `tid`."""
        from postmortem.readers.core import facts_of

        path = str(self.path)
        try:
            facts = facts_of(self.answer.result(), named=self.opened.source.path)
        except EvidenceError as error:
            raise EvidenceError(path, error.what, offset=error.offset, hint=error.hint) from error
        if facts.core.truncated and not facts.threads.items and not facts.modules.items:
            raise _cut_too_early(path, facts.core)
        source = self.opened.source
        if tid is not None and all(thread.tid != tid for thread in facts.threads):
            tids = [thread.tid for thread in facts.threads]
            hint = f"its threads are {some(tids, 20)}"
            raise EvidenceError(source.path, f"has no thread {tid}", hint=hint)
        source = replace(source, truncated=source.truncated or facts.core.truncated)
        return replace(facts, problems=(*self.problems, *facts.problems)), source

    def java_beside(self, pid: int, language: str) -> str | None:
        """Return where the frames of a language are that the core does not tell: Java's alone."""
        if language != "Java":
            return None
        from postmortem.readers.java_report import java_frames_beside

        return java_frames_beside(self.path, pid)


def _cut_too_early(path: str, core: CoreFile) -> EvidenceError:
    what = (
        f"is cut before the state of its first thread: {core.size_bytes:,} of at least "
        f"{core.expected_bytes:,} bytes are there, and nothing of the process is among them"
    )
    hint = "copy it again if the original is whole; a full disk, a quota or ulimit -c cuts cores"
    return EvidenceError(path, what, hint=hint)


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
        others = counted(found.others, "other core lies", "other cores lie")
        what = f"took the newest, {found.path.name}; {others} in the same folder"
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
