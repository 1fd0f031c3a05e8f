"""Rules of one shape: a call failed and its errno says why; what they say is a table's."""

from collections.abc import Callable, Mapping

from postmortem.diagnose.rule import Confidence, Finding, Findings, Role
from postmortem.diagnose.rule_rows import Row, Rows, rules_of
from postmortem.diagnose.strace.arguments import flags
from postmortem.diagnose.strace.benign_errors import NEVER_THERE, TERMINALS
from postmortem.diagnose.strace.calls import (
    folder_of,
    in_shared_memory,
    kernel_table,
    many,
    quoted,
    shortened,
    times,
    who,
)
from postmortem.diagnose.strace.peers import (
    cite_connection,
    failed_connections,
    host_port,
    reached_anything,
    reached_later,
)
from postmortem.diagnose.strace.resource_limits import limit
from postmortem.diagnose.strace.severity import of_calls, weigh_fate, worst
from postmortem.diagnose.strace.signals import had_enough
from postmortem.facts.syscall_logs import Logs
from postmortem.facts.syscalls import FailedCalls, Failures
from postmortem.knowledge.lookup import lines_of
from postmortem.text import counted, shell_word, size

Test = Callable[[Logs, FailedCalls], bool]

_DEVICES = ("/dev/nvidia", "/dev/infiniband/", "/dev/dri/", "/dev/kfd", "/dev/gdrdrv", "/dev/knem")
_USES = frozenset({"open", "openat", "openat2", "ioctl", "mmap", "read", "write"})
"""Of a device; CUDA also tries to make its files, which root alone may."""


def _of_storage(_: Logs, group: FailedCalls) -> bool:
    asked = group.first.syscall in ("ioctl", "madvise")
    return not asked and not (group.target.path or "").startswith(TERMINALS)


def _of_peer(logs: Logs, group: FailedCalls) -> bool:
    asked = (group.target.path or "").startswith(NEVER_THERE)
    return group.target.kind == "socket" and not asked and not reached_later(logs, group)


def _of_other_end(logs: Logs, group: FailedCalls) -> bool:
    if group.target.kind not in ("socket", "pipe") or reached_later(logs, group):
        return False
    writers = [logs.task(match.task.thread_of or match.pid, match.line) for match in group.matches]
    return not all(one is not None and had_enough(one, logs.tasks()) for one in writers)


def _unreached(logs: Logs, group: FailedCalls) -> bool:
    """Return whether a failure is one of a peer that matters.

    getaddrinfo() tries a socket for each address of a name, to sort them: those of IPv6 fail on
    hosts that have none, and the next one works.
    """
    last = group.matches[-1]
    pid = last.task.thread_of or last.pid
    return group.target.kind == "socket" and not reached_anything(logs, pid, last.line, worked=True)


def _of_path(_: Logs, group: FailedCalls) -> bool:
    """epoll_ctl() gives ELOOP for descriptors that watch each other: no path has to do with it."""
    return group.target.source == "argument" or group.target.kind == "file"


def _locks(_: Logs, group: FailedCalls) -> bool:
    call = group.first.syscall
    if call in ("mlock", "mlock2", "mlockall"):
        return True
    if call == "mmap" and "MAP_LOCKED" in flags(group.first, 3):
        return True
    if group.errno != "ENOMEM":
        return False
    if call in ("io_uring_setup", "io_uring_register"):
        return True
    return call in ("ioctl", "write") and (group.target.path or "").startswith("/dev/infiniband/")


_COUNTS: Mapping[str, Test] = {
    "": lambda _, group: bool(group.matches),
    "device": lambda _, group: (
        group.first.syscall in _USES and (group.target.path or "").startswith(_DEVICES)
    ),
    "file system": lambda _, group: kernel_table(group) is None,
    "kernel table": lambda _, group: kernel_table(group) is not None,
    # Files that PyTorch, or the C library, makes there.
    "known shared memory": lambda _, group: any(
        name in (group.target.path or "") for name in ("/torch_", "/sem.")
    ),
    "locked memory": _locks,
    "named file": lambda _, group: group.target.path is not None and group.first.syscall != "futex",
    "other end": _of_other_end,
    "path": _of_path,
    "peer": _of_peer,
    "shared memory": lambda _, group: in_shared_memory(group.target),
    "storage": _of_storage,
    "unreached": _unreached,
}


def _finding(row: Row, means: Rows, failures: Failures, logs: Logs) -> Findings:
    counts = _COUNTS[row.get("counts", "")]
    found = failures.of(*row["errnos"].split())
    groups = worst(logs, tuple(group for group in found if counts(logs, group)))
    if not groups:
        if "results" in row:
            yield from _asked_later(row, logs)
        return
    first = _COUNTS[row.get("first", "")]
    groups = tuple(sorted(groups, key=lambda one: not first(logs, one)))
    group = groups[0]
    path = (group.target.path or "").encode("utf-8", "surrogateescape")
    reached = row.get("no_limit") or row.get("limit", "")
    known = limit(logs, row["limit"], group.first) if "limit" in row else None
    if known is not None and known.value is not None:
        reached = f"{row['limit']} is {size(known.value)}"
    words = {
        **_named(group.target.words, *host_port(group.target.path)),
        "who": who(group.first.pid),
        "on": "" if group.target.path is None else f" on {shortened(group.target.words, 30)}",
        "limit": reached,
        "others": many(groups[1:]),
        "calls": times(logs, group),
        "call": group.first.syscall,
        "errno": group.errno,
        "path": quoted(group.target),
        "folder": folder_of(group.target),
        "bytes": f"{len(path):,}",
        "longest": f"{max(map(len, path.split(b'/'))):,}",
    }
    words |= kernel_table(group) or {}
    words |= {key: str(text).format_map(words) for key, text in means.get(group.errno, {}).items()}
    yield of_calls(
        logs,
        groups if known is None else groups[:1],
        Confidence(row["confidence"]),
        title=row["title"].format_map(words),
        cause=row["cause"].format_map(words),
        next_steps=tuple(step.format_map(words) for step in lines_of(row["next_steps"])),
        evidence=() if known is None else (known.evidence,),
        lasting=row.get("lasting", False),
        root=Role(row.get("role", "root")),
    )


def _named(words: str, host: str, port: str) -> dict[str, str]:
    return {
        "name": shortened(words, 50),
        "target": words,
        "host": shell_word(host),
        "port": shell_word(port),
    }


def _asked_later(row: Row, logs: Logs) -> Findings:
    """Yield what is found of connections that failed without an errno of a call, if there are any.

    Those of sockets that do not block: what became of them was asked by SO_ERROR.
    """
    failed = failed_connections(logs, *row["results"].split())
    if not failed:
        return
    last = failed[-1]
    words = _named(last.peer, *host_port(last.peer))
    weight = weigh_fate(logs.fate_of(last.pid, last.line), Confidence.LIKELY)
    same = [one for one in failed if one.peer == last.peer]
    count = counted(len(same), "connection")
    yield Finding(
        title=row["asked_title"].format_map(words),
        cause=f"{count} to {last.peer}: {row['asked_meaning']}{weight.words}",
        confidence=weight.confidence,
        next_steps=tuple(step.format_map(words) for step in lines_of(row["next_steps"])),
        evidence=tuple(cite_connection(one) for one in same[:3]),
        role=weight.role,
    )


RULES = rules_of("failed_calls.toml", "errno", _finding)
