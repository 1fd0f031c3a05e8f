"""The stacks of a core from both sources, and what the crashed library was linked against."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from postmortem.background import Background
from postmortem.errors import EvidenceError
from postmortem.facts.core import CoreFacts
from postmortem.facts.memory import BinaryFacts, Module
from postmortem.facts.source import Problem
from postmortem.readers.gdb_options import GdbOptions, MergedThreads
from postmortem.readers.opening import Progress
from postmortem.records import replace

if TYPE_CHECKING:
    from postmortem.readers.gdb.find import Gdb


def find_gdb_unseen(path: str | None) -> Gdb:
    """Return the gdb to use, not tried yet; raises DebuggerError where there is none."""
    from postmortem.readers.gdb.find import find_gdb

    return find_gdb(path, probe=False)


def stacks_and_binary(
    core: str,
    facts: CoreFacts,
    extension: Module | None,
    options: GdbOptions,
    gdb: Background[Gdb] | None,
    progress: Progress | None,
) -> tuple[MergedThreads, BinaryFacts | None]:
    """Ask gdb and lief at once: both take about half a second, one of them elsewhere.

    `extension` is the module that the crash is in, if it is nobody's that is known well. Without a
    `gdb` neither is asked.
    """
    if gdb is None:
        return MergedThreads(facts.threads, "native stacks"), None
    from postmortem.readers.gdb.with_gdb import with_gdb  # not paid for by --engine native

    usable = extension is not None and extension.status != "mismatch"
    path = extension.disk_path if extension is not None and usable else None
    binary = Background(partial(_binary, path)) if path is not None else None
    program = next((m for m in facts.modules if m.path == facts.process.executable), None)
    stacks = with_gdb(
        core, facts.threads, facts.modules, program, options, gdb.result, progress, code=facts.code
    )
    try:
        return stacks, binary.result() if binary is not None else None
    except EvidenceError as error:
        problem = Problem(path or "", error.what, error.hint)
        return replace(stacks, problems=(problem, *stacks.problems)), None


def _binary(path: str) -> BinaryFacts:
    from postmortem.readers.elf import read_binary  # lief takes 0.4 s to import

    return read_binary(path)
