"""Opening a core in gdb with the symbols of those modules that are wanted, and no others."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from postmortem.errors import DebuggerError
from postmortem.facts.source import Problem
from postmortem.readers.gdb.mi import Conversation, GdbDied, GdbRefused, GdbTooSlow, quoted

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_/-")
_PATHS_PER_COMMAND = 64


@dataclass(frozen=True, slots=True)
class Request:
    """What gdb is asked."""

    executable: str | None
    load: Sequence[str] | None
    """Mapped modules to load symbols of; None: all."""
    mismatched: Collection[str] = ()
    """Mapped modules of which another build lies on disk: never loaded."""
    sysroot: str | None = None
    bases: Mapping[str, int] = field(default_factory=dict)
    """Load addresses of modules, for a core in which the dynamic linker's own list is cut off."""

    @property
    def selective(self) -> bool:
        """Whether gdb must not load what it likes."""
        return self.load is not None or bool(self.mismatched)

    def trusts(self, module: str | None) -> bool:
        """Whether code that gdb read for this module is the code that ran.

        A core does not hold the code; gdb 13 takes it from the file of that name, whatever is
        there now. Unknown is a part of the main program when gdb was not given one.
        """
        if module is None:
            return self.executable is not None
        return not _names((module,), None) & _names(self.mismatched, self.sysroot)


def literal(path: str) -> str:
    """Return a regular expression for gdb's ``sharedlibrary`` that matches this path alone.

    gdb compiles it with `re_comp`, whose syntax is whatever the C library's `re_syntax_options`
    says (Emacs by default, where ``+`` works without a backslash; POSIX basic in gdb's own copy,
    where ``\\+`` does). One character in brackets means itself in all of them.
    """
    escaped = []
    for char in path:
        if char in _PLAIN:
            escaped.append(char)
        elif char in "^\\":
            escaped.append("\\" + char)
        elif " " <= char <= "~":
            escaped.append(f"[{char}]")
        else:  # control characters would end the command; others depend on gdb's locale
            escaped.append(".")
    return "".join(escaped)


def alternatives(paths: Iterable[str]) -> str:
    """Return a regular expression that matches any of these paths, whole."""
    return "\\|".join(f"^{literal(path)}$" for path in paths)


def open_core(gdb: Conversation, core: str, request: Request) -> list[Problem]:
    """Load executable, core and wanted symbols; return what did not work.

    `core` is a name without blanks relative to gdb's working directory: gdb 13 takes the argument
    of ``target core`` as it is, gdb 16 and later read quotes in it. Raises `DebuggerError`
    when gdb refuses the core.
    """
    problems = []
    if request.sysroot is not None:
        gdb.console(f"set sysroot {request.sysroot}")
        debug = Path(request.sysroot, "usr/lib/debug")
        gdb.console(f"set debug-file-directory {debug}:/usr/lib/debug")
    if request.selective:
        gdb.console("set auto-solib-add off")
    if request.executable is not None:
        command = f"file {_word(request.executable)}"
        problems += _attempt(gdb, _console(command), request.executable)
    gdb.ask(f"-target-select core {core}")
    if request.selective:
        problems += _load_symbols(gdb, request)
    return problems


def _word(path: str) -> str:
    # The console splits the arguments of `file` and `add-symbol-file` as a shell would. MI's own
    # -file-exec-and-symbols takes neither quotes nor backslashes (gdb 13).
    return "".join(f"\\{char}" if char in " \t\\'\"" else char for char in path)


def _attempt(gdb: Conversation, command: str, where: str) -> list[Problem]:
    try:
        gdb.ask(command)
    except GdbRefused as error:
        return [Problem(where=where, what=f"gdb could not read it: {error.what}")]
    return []


def _load_symbols(gdb: Conversation, request: Request) -> list[Problem]:
    try:
        libraries = shared_libraries(gdb)
    except GdbRefused:
        libraries = []
    wanted, unwanted_loaded = _sort_out(libraries, request)
    problems: list[Problem] = []
    if unwanted_loaded:
        # gdb loads libc against `auto-solib-add off`, to find out about threads (solib.c,
        # libpthread_solib_p); of another libc build it would show wrong names.
        problems += _attempt(gdb, _console("nosharedlibrary"), "libc")
    for start in range(0, len(wanted), _PATHS_PER_COMMAND):
        some = wanted[start : start + _PATHS_PER_COMMAND]
        command = f"sharedlibrary {alternatives(some)}"
        problems += _attempt(gdb, _console(command), "shared libraries")
    for path, base in _not_loaded(gdb, request):
        command = f"add-symbol-file {_word(path)} -o {base:#x}"
        problems += _attempt(gdb, _console(command), path)
    return problems


def _console(command: str) -> str:
    return f"-interpreter-exec console {quoted(command)}"


def shared_libraries(gdb: Conversation) -> list[dict[str, Any]]:
    """Return the shared libraries that gdb found in the core, as MI describes them."""
    listed = gdb.ask("-file-list-shared-libraries").get("shared-libraries")
    return [row for row in listed if isinstance(row, dict)] if isinstance(listed, list) else []


def _sort_out(libraries: list[dict[str, Any]], request: Request) -> tuple[list[str], bool]:
    # The kernel names a mapped file by its real path, the dynamic linker as it was opened
    # (/lib/… against /usr/lib/…, libfoo.so.1 against libfoo.so.1.2): compare both.
    load = None if request.load is None else _names(request.load, request.sysroot)
    never = _names(request.mismatched, request.sysroot)
    wanted, unwanted_loaded = [], False
    for row in libraries:
        host, target = str(row.get("host-name", "")), str(row.get("target-name", ""))
        names = {host, target, os.path.realpath(host)} - {""}
        if host and not names & never and (load is None or names & load):
            wanted.append(host)
        elif row.get("symbols-loaded") == "1":
            unwanted_loaded = True
    return wanted, unwanted_loaded


def _names(paths: Iterable[str], sysroot: str | None) -> set[str]:
    names = set()
    for path in paths:
        names |= {path, os.path.realpath(path)}
        if sysroot is not None:
            inside = str(Path(sysroot, path.lstrip("/")))
            names |= {inside, os.path.realpath(inside)}
    return names


def _not_loaded(gdb: Conversation, request: Request) -> list[tuple[str, int]]:
    """Return files and load addresses of wanted modules that gdb did not find by itself.

    It reads the dynamic linker's list, which a cut core lacks, and which has names as they were
    given to dlopen: a relative one means nothing here.
    """
    if not request.bases:
        return []
    try:
        rows = shared_libraries(gdb)
    except GdbRefused:
        rows = []
    loaded = {str(row.get("host-name", "")) for row in rows if row.get("symbols-loaded") == "1"}
    done = _names(loaded, None) | _names(request.mismatched, request.sysroot)
    if request.executable is not None:
        done |= _names((request.executable,), None)
    missing = []
    for path in request.bases if request.load is None else request.load:
        root = request.sysroot
        on_disk = Path(path) if root is None else Path(root, path.lstrip("/"))
        if path in request.bases and not _names((path,), root) & done and on_disk.is_file():
            missing.append((str(on_disk), request.bases[path]))
    return missing


def complaint(error: DebuggerError, seconds: float) -> Problem:
    """Return a gdb that failed as a problem, with what can be done."""
    if isinstance(error, GdbTooSlow):
        what = f"{error.what} ({seconds:g} s); what it had said by then is used"
        return Problem("gdb", what, "postmortem core --engine native does without gdb")
    if isinstance(error, GdbDied):
        return Problem("gdb", error.what, "another gdb may do better: postmortem core --gdb PATH")
    return Problem("gdb", error.what, error.hint)
