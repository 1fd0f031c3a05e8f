"""What ``--find`` asks: parsed, and held against calls."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable

from postmortem.facts.syscalls import Match
from postmortem.patterns import Pattern
from postmortem.records import record

_ERRNO = Pattern(r"E[A-Z0-9]+(?:_[A-Z0-9]+)*")
_SIGNAL = Pattern(r"SIG[A-Z0-9]+")
_CALL = Pattern(r"[a-z_][a-z0-9_]*")

NO_ROOM = frozenset({"ENOSPC", "EDQUOT", "EIO"})
"""What a SIGBUS on a mapped file may stand for: no call is there to return it."""


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

    def holds(self, match: Match) -> bool:
        """Return whether a call or signal is what is asked for."""
        if self.pid is not None and match.pid != self.pid:
            return False
        if self.fd is not None and match.fd != self.fd:
            return False
        if self.path is not None and not fnmatch.fnmatchcase(match.target.path or "", self.path):
            return False
        if match.inferred:
            return bool(NO_ROOM.intersection(self.errors)) and not self.calls
        if self.signals and match.errno is None and match.syscall in self.signals:
            return True
        if self.errors and match.errno not in self.errors:
            return False
        if self.calls and match.syscall not in self.calls:
            return False
        return bool(self.errors or self.calls)


def parse(text: str) -> Query:
    """Return what a query asks; raises ValueError with words for the user."""
    query = Query(text)
    names: dict[str, list[str]] = {"errors": [], "calls": [], "signals": []}
    limits: dict[str, str] = {}
    for term in text.split():
        key, equals, value = term.partition("=")
        if not equals:
            for name in filter(None, term.split(",")):
                names[_kind(name)].append(name)
        elif key in ("errno", "syscall"):
            for name in filter(None, value.split(",")):
                kind = _kind(name)
                if kind != {"errno": "errors", "syscall": "calls"}[key]:
                    raise ValueError(f"{name!r} is no {key}")
                names[kind].append(name)
        elif key in ("path", "pid", "fd"):
            if key != "path" and not value.isdecimal():
                raise ValueError(f"{term!r}: {key}= takes a number")
            limits[key] = value
        else:
            raise ValueError(f"{key}= is not known; there are errno=, syscall=, path=, pid=, fd=")
    if not any(names.values()):
        raise ValueError(f"{text!r} names no errno, system call or signal, as in ENOSPC or openat")
    return Query(
        query.text,
        tuple(names["errors"]),
        tuple(names["calls"]),
        tuple(names["signals"]),
        limits.get("path"),
        int(limits["pid"]) if "pid" in limits else None,
        int(limits["fd"]) if "fd" in limits else None,
    )


def _kind(name: str) -> str:
    if _SIGNAL.fullmatch(name):
        return "signals"
    if _ERRNO.fullmatch(name):
        return "errors"
    if _CALL.fullmatch(name):
        return "calls"
    raise ValueError(f"{name!r} is no errno (ENOSPC), system call (openat) or signal (SIGKILL)")


def union(queries: Iterable[Query], field: str) -> tuple[str, ...]:
    """Return all names of one kind that the queries ask for."""
    return tuple(dict.fromkeys(name for query in queries for name in getattr(query, field)))
