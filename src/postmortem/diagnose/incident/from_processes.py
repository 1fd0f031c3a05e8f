"""Events that reports on one process tell of: cores, system-call logs, live stacks, tensors."""

from collections.abc import Iterator, Mapping
from typing import Any

from postmortem.diagnose.incident.common import Document, alone, best, evidence, roots_of, told_by
from postmortem.diagnose.incident.damaged import of_damaged
from postmortem.diagnose.incident.events import Event, EventType
from postmortem.facts.threads import is_own
from postmortem.patterns import Pattern
from postmortem.report.model import Confidence, Evidence

_MOST_TENSORS = 64
_STORAGE = frozenset("ENOSPC EDQUOT EIO EROFS ESTALE EFBIG ENXIO ENODEV".split())
_REFUSED = frozenset("EMFILE ENFILE ENOMEM EAGAIN EACCES EPERM ENOENT EBUSY ETXTBSY".split())
_NETWORK = frozenset(
    "ECONNREFUSED ECONNRESET ETIMEDOUT EHOSTUNREACH ENETUNREACH EPIPE ENOTCONN".split()
)
_ASKED_FOR = frozenset({"SIGABRT", "SIGQUIT"})
"""Signals that somebody sends for a core: a launcher sends others."""
_OF_DEVICES = Pattern(r"cuda|nccl|amdhip|c10d::|gloo::")
_WAITS_FOR_FILE = frozenset({"open", "openat", "openat2", "flock", "fcntl"})
_STUCK = frozenset({"deadlock", "futex_deadlock", "pipe_deadlock", "lock_wait", "silent_peer"})


def of_core(document: Document) -> Iterator[Event]:
    """Yield how a core's process ended, or where the process of a snapshot is stuck."""
    process, signal = document["process"], document["signal"]
    top, name = best(document), signal["name"] if signal else None
    snapshot = name is None
    if snapshot and (top is None or top["role"] != "root"):
        yield from _waits_in_own_code(document)
        return
    if top is not None and top["id"] == "killed_by_signal" and name in _ASKED_FOR:
        yield from _waits_in_own_code(document, killed=True)
    if snapshot:
        kind = EventType.STUCK
    elif name == "SIGKILL":
        kind = EventType.KILLED
    else:
        kind = EventType.CRASHED
    cascade = top is not None and top["role"] == "cascade"
    where = document["inputs"][0]["path"] if document["inputs"] else ""
    yield Event(
        EventType.WATCHDOG if cascade else kind,
        str(document["verdict"]),
        "core",
        ranks=alone(process["rank"]),
        host=process["hostname"],
        pid=process["pid"] or None,
        role=process.get("role"),
        signal=name,
        confidence=Confidence(top["confidence"]) if top is not None else Confidence.POSSIBLE,
        evidence=(Evidence(where, str(document["verdict"])), *(evidence(top) if top else ())),
        next_steps=tuple(top["next_steps"]) if top is not None else (),
        cause=str(top["cause"]) if top is not None else "",
    )


def _waits_in_own_code(document: Document, *, killed: bool = False) -> Iterator[Event]:
    """Yield for what lock a rank's main thread waits without a limit, in code of its program.

    One look does not tell how long; a lock of a library it may wait for at any time. Who was killed
    for its core was most likely seen to hang: anywhere but in what waits for devices and peers.
    """
    main = [row for row in document["threads"] if row["tid"] == document["main_thread"]]
    none: dict[str, Any] = {}
    at = next((f for row in main for f in row["frames"] if f["kind"] == "python"), none)
    waits = next((row["waits_for"] for row in main), None) or none
    rank, lock = document["process"]["rank"], waits.get("kind") == "python lock"
    if rank is None or not at or not is_own(at.get("file")):
        return
    names = (f"{frame['module']} {frame['function']}" for row in main for frame in row["frames"])
    if any(map(_OF_DEVICES.search, names)) if killed else not lock or waits["timed"]:
        return
    place = f"{at['file'].rpartition('/')[2]}:{at['line']}"
    does = "was killed from outside" if killed else f"waits for {waits['what']}"
    yield Event(
        EventType.STUCK,
        f"{does} in {at['function']} at {place}",
        "core",
        ranks=(rank,),
        host=document["process"]["hostname"],
        pid=document["process"]["pid"] or None,
        confidence=Confidence.POSSIBLE,
        evidence=tuple(
            Evidence(one["path"], str(document["verdict"])) for one in document["inputs"]
        ),
        next_steps=tuple(one for row in document["diagnoses"] for one in row["next_steps"]),
    )


def of_gpu_core(document: Document) -> Iterator[Event]:
    """Yield which kernel failed on the GPU, of which process where the name of the dump says it.

    A dump that was asked for tells of no failure.
    """
    process = document["process"]
    for order, row in enumerate(roots_of(document)):
        failed = document["exceptions"][:1]
        yield Event(
            EventType.KERNEL_FAILED,
            str(row["title"]),
            "gpu_core",
            host=process["hostname"],
            pid=process["pid"],
            says="".join(str(one["logs"] or "") for one in failed),
            **told_by(row),
            order=order,
        )


def of_strace(document: Document) -> Iterator[Event]:
    """Yield what failed for real in a system-call log."""
    processes = {row["pid"]: row for row in document.get("processes") or ()}
    for order, row in enumerate(roots_of(document)):
        about = row.get("about") or {}
        pid, errno = about.get("pid"), about.get("errno")
        yield Event(
            _strace_type(str(row["id"]), errno, about.get("signal")),
            str(row["title"]),
            "strace",
            ranks=alone(processes.get(pid, {}).get("rank")),
            pid=pid,
            survived=(processes.get(pid, {}).get("exit") or {}).get("code") == 0,
            path=about.get("path"),
            errnos=(errno,) if errno else (),
            signal=about.get("signal"),
            wrote=tuple(processes.get(pid, {}).get("last_words", ())),
            **told_by(row),
            order=order,
        )
    for row in processes.values() if document.get("outcome") == "failed" else ():
        yield from _stopped_in_file(document, row)


def _stopped_in_file(document: Document, row: Mapping[str, Any]) -> Iterator[Event]:
    """Yield in which call on a file a process stood when a signal ended it: it waited there.

    Only a call that waits is interrupted, and what waits for devices and peers is none on files.
    """
    ended = (row.get("exit") or {}).get("signal")
    files = [str(one["path"]) for one in document["inputs"]]
    file = next((one for one in files if one.endswith(f".{row['pid']}")), next(iter(files), ""))
    for one in row.get("interruptions") or ():
        if one["signal"] == ended and one["syscall"] in _WAITS_FOR_FILE and one["target"]:
            what = f"waited in {one['syscall']} of {one['target']} when {ended} came"
            yield Event(
                EventType.STUCK,
                what,
                "strace",
                ranks=alone(row.get("rank")),
                pid=row["pid"],
                path=one["target"],
                evidence=(Evidence(f"{file}:{one['line']}", what),),
            )


def _strace_type(rule: str, errno: str | None, signal: str | None) -> EventType:
    if rule in _STUCK:
        return EventType.STUCK
    if errno in _STORAGE:
        return EventType.STORAGE
    if errno in _NETWORK:
        return EventType.NETWORK
    if errno == "EADDRINUSE":
        return EventType.COULD_NOT_START
    if errno in _REFUSED or errno is not None:
        return EventType.REFUSED
    if signal is not None:
        if signal == "SIGTERM":
            return EventType.STOPPED
        return EventType.KILLED if signal == "SIGKILL" else EventType.CRASHED
    return EventType.EXITED


def of_hang(document: Document) -> Iterator[Event]:
    """Yield who holds up the others, as stacks of live processes showed it."""
    top = best(document)
    if top is None or top["role"] != "root":
        return
    processes = {row["pid"]: row for row in document.get("processes", ())}
    hosts = {pid: row["hostname"] for pid, row in processes.items()}
    kind, rows = EventType.STUCK, document.get("stuck", ())
    about = top.get("about") or {}
    if about.get("pid") in processes:  # told without a majority
        one = processes[about["pid"]]
        slow = top["id"] == "rank_slow"
        kind = EventType.SLOW if slow else EventType.STUCK
        title = str(top["title"]).removeprefix(f"{one['label']}: ")
        why = top["evidence"][0]["what"] if slow else title
        rows = [{**one, "rank": about["rank"], "why": why}]
    for order, row in enumerate(rows):
        yield Event(
            kind,
            str(row["why"]),
            "hang",
            ranks=alone(row["rank"]),
            host=hosts.get(row["pid"]),
            pid=row["pid"],
            label=str(row["label"]),
            **told_by(top),
            order=order,
        )


def of_scan(document: Document) -> Iterator[Event]:
    """Yield which tensors of checkpoints are bad; without any, which files are damaged."""
    bad = [t for t in document.get("tensors", ()) if t["nan_count"] or t["inf_count"]]
    top = best(document)
    if not bad and (document["outcome"] == "failed" or not document["inputs"]):
        yield from of_damaged(document)
    if not bad or top is None or top["confidence"] == Confidence.POSSIBLE:
        return  # Inf where it may be meant: masks, a best value so far
    bad = [t for t in bad if t["nan_count"]] or bad
    names = tuple(str(t["name"]) for t in bad[:_MOST_TENSORS])
    yield Event(
        EventType.NON_FINITE,
        str(document["verdict"]),
        "scan",
        path=str(bad[0]["file"]),
        names=names,
        **told_by(top),
    )


def of_watch(document: Document) -> Iterator[Event]:
    """Yield who ended while memory was full, as a watch over time saw it."""
    for order, row in enumerate(roots_of(document)):
        about = row.get("about") or {}
        if row["id"] != "memory_ran_out":
            continue
        yield Event(
            EventType.KILLED_FOR_MEMORY,
            str(row["title"]),
            "watch",
            ranks=alone(about.get("rank")),
            pid=about.get("pid"),
            signal="SIGKILL",
            **told_by(row),
            order=order,
        )


def of_gpu_memory(document: Document) -> Iterator[Event]:
    """Yield whose request for GPU memory failed."""
    for order, row in enumerate(roots_of(document)):
        yield Event(
            EventType.GPU_MEMORY,
            str(row["title"]),
            "gpu_memory",
            ranks=alone((row.get("about") or {}).get("rank")),
            **told_by(row),
            order=order,
        )
