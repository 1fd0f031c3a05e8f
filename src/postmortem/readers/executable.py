"""From what a user gives as ``--python`` to the ELF file that ran."""

import os
import re
from pathlib import Path

from postmortem.facts.source import Problem
from postmortem.readers.regular import open_regular
from postmortem.records import record

_MAX_STEPS = 5
_MAX_HEAD = 4096
_SHELLS = {"sh", "bash", "dash", "ksh", "zsh"}
_REMEDY = 'give the interpreter that ran, for example --python "$(which python)"'


@record
class Executable:
    """The file to take for the main program; None when what was given leads to none."""

    path: str | None
    problems: tuple[Problem, ...] = ()


def resolve_executable(given: str, *, search_path: str | None = None) -> Executable:
    """Follow symbolic links, a venv's folder and ``#!`` lines to an ELF file.

    What was taken instead of the file given is told as a problem, except for symbolic links.
    `search_path` is the PATH for ``#!/usr/bin/env python``; None means this process's own.
    """
    current = given
    for _ in range(_MAX_STEPS):
        path = Path(current)
        if path.is_dir():
            inside = path / "bin" / "python"
            if not inside.exists():
                return _failed(given, "is a folder")
            current = str(inside)
            continue
        try:
            with open_regular(path) as file:
                head = file.read(_MAX_HEAD)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            where = "" if current == given else f"leads to {current}: "
            return _failed(given, f"{where}{reason}")
        if head.startswith(b"\x7fELF"):
            return _found(given, current)
        if not head.startswith(b"#!"):
            return _failed(given, "is neither an ELF file nor a script")
        interpreter = _interpreter(head, search_path)
        if interpreter is None:
            return _failed(given, f"is a script whose interpreter cannot be found: {_line(head)}")
        if Path(interpreter).name in _SHELLS:
            return _failed(
                given,
                "is a shell script, not a Python interpreter (a pyenv shim?)",
                "pyenv which python names the real one; a script's interpreter stands in it",
            )
        current = interpreter
    return _failed(given, f"leads through more than {_MAX_STEPS} scripts")


def _found(given: str, current: str) -> Executable:
    path = os.path.realpath(current)
    if current == given:
        return Executable(path)
    what = "is a folder" if Path(given).is_dir() else "is a script"
    return Executable(path, (Problem(given, f"{what}; its interpreter {path} is taken"),))


def _failed(given: str, what: str, remedy: str = _REMEDY) -> Executable:
    return Executable(None, (Problem(given, f"given as the executable, but {what}", remedy),))


def _line(head: bytes) -> str:
    return os.fsdecode(head.split(b"\n", 1)[0]).strip()


def _interpreter(head: bytes, search_path: str | None) -> str | None:
    words = _line(head)[2:].split()
    if not words:
        return None
    if Path(words[0]).name in _SHELLS:
        return _long_interpreter(head) or words[0]
    if Path(words[0]).name != "env":
        return words[0]
    rest = [w for w in words[1:] if not w.startswith("-") and "=" not in w]
    import shutil  # late: it takes 3 ms, and few executables are scripts of env

    return shutil.which(rest[0], path=search_path) if rest else None


def _long_interpreter(head: bytes) -> str | None:
    """pip, conda and setuptools write ``'''exec' /long/path/python "$0"`` after ``#!/bin/sh``.

    They do so where the path is longer than the kernel's limit of a ``#!`` line, or has blanks.
    """
    match = re.search(rb"^'''exec' (.+)$", head, re.MULTILINE)
    if not match:
        return None
    import shlex  # late, as `shutil`

    try:
        words = shlex.split(os.fsdecode(match[1]))
    except ValueError:
        return None
    return words[0] if words else None
