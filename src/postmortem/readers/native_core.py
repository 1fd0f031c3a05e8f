"""What the native reader says of a core, before it is made into facts.

Apart from `readers.core` because it imports next to nothing: the native reader, which needs no
interpreter, is at work while the modules that make a report of its answer are imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from postmortem.errors import EvidenceError
from postmortem.facts.source import Problem
from postmortem.records import record

if TYPE_CHECKING:
    from postmortem._native import RawCore

_NOT_A_CORE = "give a core file: file(1) says what this is, coredumpctl list shows systemd's cores"


@record
class NativeAnswer:
    """Rows of the native reader, and what was odd about the program that came with the core."""

    path: str
    core: RawCore
    problems: tuple[Problem, ...] = ()


def ask_native(
    path: str,
    *,
    executable: str | None = None,
    sysroot: str | None = None,
    stacks: bool = True,
    max_frames: int = 512,
    python_locals: bool = False,
) -> NativeAnswer:
    """Read a core file; raises `EvidenceError` if it is not one that can be read at all.

    `executable` may be a script, a venv's link or its folder; what stands behind it is taken.
    `sysroot` is a folder under which the mapped files are looked up.
    """
    from postmortem import _native

    problems: tuple[Problem, ...] = ()
    if executable is not None:
        from postmortem.readers.executable import resolve_executable

        resolved = resolve_executable(executable)
        executable, problems = resolved.path, resolved.problems
    try:
        core = _native.read_core(
            path,
            executable=executable,
            sysroot=sysroot,
            stacks=stacks,
            max_frames=max_frames,
            python_locals=python_locals,
        )
    except EvidenceError as error:
        raise EvidenceError(path, error.what, offset=error.offset, hint=_NOT_A_CORE) from None
    return NativeAnswer(path, core, problems)
