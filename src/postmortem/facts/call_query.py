"""What ``--find`` asks: parsed, and held against calls."""

import errno
import fnmatch
import signal
from collections.abc import Iterable

from postmortem.facts.syscalls import NO_ROOM, Match
from postmortem.patterns import Pattern
from postmortem.records import record

_ERRNO = Pattern(r"E[A-Z0-9]+(?:_[A-Z0-9]+)*")
_SIGNAL = Pattern(r"SIG[A-Z0-9_]+")
_SECONDS = Pattern(r"\d*\.?\d+(?:e-?\d+)?s?")
OWN_ERRORS = (
    "ERESTARTSYS",
    "ERESTARTNOINTR",
    "ERESTARTNOHAND",
    "ERESTART_RESTARTBLOCK",
    "ENOTSUPP",
)
"""Errors of the kernel's own that strace shows and no program sees."""
_CALL = Pattern(r"[a-z_][a-z0-9_]*")


@record
class CallQuery:
    """Calls to look for: all that is set must hold; of a list one is enough."""

    errors: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    pid: int | None = None
    fd: int | None = None
    path: str | None = None
    """A pattern in which ``*`` stands for ``/`` too."""
    slower: float = 0.0
    """Seconds."""


@record
class Query:
    """One ``--find``: terms that must all hold; a word with commas is an alternative of names."""

    text: str
    errors: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    signals: tuple[str, ...] = ()
    path: str | None = None
    pid: int | None = None
    fd: int | None = None
    slower: float | None = None
    """Seconds."""

    @property
    def calls_only(self) -> CallQuery | None:
        """What it asks of calls; None where it asks for signals alone."""
        if self.signals and not (self.errors or self.calls):
            return None
        slower = self.slower or 0.0
        path = self.path
        if path is not None and "/" not in path:
            path = f"*{path}"  # in any folder; `holds` looks closer
        return CallQuery(self.errors, self.calls, self.pid, self.fd, path, slower)

    def holds(self, match: Match) -> bool:
        """Return whether a call or signal is what is asked for."""
        if self.pid is not None and match.pid != self.pid:
            return False
        if self.fd is not None and match.fd != self.fd:
            return False
        if self.path is not None and not _fits(match.target.path or "", self.path):
            return False
        if self.slower is not None and (match.seconds or 0.0) < self.slower:
            return False
        if match.inferred:
            if match.syscall in self.signals:
                return True
            free = not self.errors and not self.signals
            return (free or bool(NO_ROOM.intersection(self.errors))) and not self.calls
        if self.signals and match.errno is None and match.syscall in self.signals:
            return True
        if self.signals and not (self.errors or self.calls):
            return False
        if self.errors and match.errno not in self.errors:
            return False
        return not (self.calls and match.syscall not in self.calls)


def _fits(path: str, wanted: str) -> bool:
    """Return whether a path is the pattern; a name without a folder is one in any folder."""
    if fnmatch.fnmatchcase(path, wanted):
        return True
    return "/" not in wanted and fnmatch.fnmatchcase(path.rpartition("/")[2], wanted)


def parse(text: str) -> Query:
    """Return what a query asks; raises ValueError with words for the user."""
    query = Query(text)
    names: dict[str, list[str]] = {"errors": [], "calls": [], "signals": []}
    limits: dict[str, str] = {}
    for term in text.split():
        key, equals, value = term.partition("=")
        if not equals:
            for name in map(_name, filter(None, term.split(","))):
                names[_kind(name)].append(name)
        elif key in ("errno", "syscall"):
            for name in map(_name, filter(None, value.split(","))):
                kind = _kind(name)
                if kind != {"errno": "errors", "syscall": "calls"}[key]:
                    raise ValueError(f"{name!r} is not a valid {key}")
                names[kind].append(name)
        elif key in ("path", "pid", "fd", "slower"):
            if key in ("pid", "fd") and not value.isdecimal():
                raise ValueError(f"{term!r}: {key}= takes a number")
            if key == "slower" and not _SECONDS.fullmatch(value):
                raise ValueError(f"{term!r}: slower= takes seconds, as in slower=0.5")
            if not value:
                raise ValueError(f"{term!r}: nothing behind {key}=")
            limits[key] = value.removesuffix("s") if key == "slower" else value
        else:
            known = "errno=, syscall=, path=, pid=, fd=, slower="
            raise ValueError(f"{key}= is not known; there are {known}")
    if not any(names.values()) and not limits:
        raise ValueError(f"{text!r} asks for nothing: name an errno, a system call or a signal")
    return Query(
        query.text,
        tuple(names["errors"]),
        tuple(names["calls"]),
        tuple(names["signals"]),
        limits.get("path"),
        int(limits["pid"]) if "pid" in limits else None,
        int(limits["fd"]) if "fd" in limits else None,
        float(limits["slower"]) if "slower" in limits else None,
    )


def _kind(name: str) -> str:
    if _SIGNAL.fullmatch(name):
        if not name.startswith("SIGRT"):  # SIGRT_1, as strace writes those
            _require("signal", name, signal.Signals.__members__)
        return "signals"
    if _ERRNO.fullmatch(name):
        _require("errno", name, (*errno.errorcode.values(), *OWN_ERRORS))
        return "errors"
    if _CALL.fullmatch(name):
        return "calls"
    raise ValueError(
        f"{name!r} is not an errno (ENOSPC), a system call (openat) or a signal (SIGKILL)"
    )


def _name(word: str) -> str:
    """Return an errno or signal in capitals, however it was typed; a system call as it is."""
    upper = word.upper()
    known = upper in errno.errorcode.values() or upper in OWN_ERRORS
    return upper if known or upper in signal.Signals.__members__ else word


def _require(kind: str, name: str, known: Iterable[str]) -> None:
    """Raise ValueError with the nearest name where there is no such one."""
    names = tuple(known)
    if name not in names:
        import difflib

        near = difflib.get_close_matches(name, names, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ValueError(f"there is no {kind} {name}{hint}")


def union(queries: Iterable[Query], field: str) -> tuple[str, ...]:
    """Return all names of one kind that the queries ask for."""
    return tuple(dict.fromkeys(name for query in queries for name in getattr(query, field)))
