"""Events that a report on rank logs tells of: who failed first, victims, ends, kernels' lines."""

from collections.abc import Iterator, Mapping
from typing import Any

from postmortem.diagnose.incident.common import Document, alone, best, evidence, root_of, told_by
from postmortem.diagnose.incident.damaged import raised_in_reading
from postmortem.diagnose.incident.events import Event, EventType
from postmortem.diagnose.ranks.deciding.kernel import PYTHONS
from postmortem.facts.exits import RUN
from postmortem.knowledge.stderr_text import errnos_in_text
from postmortem.patterns import Pattern
from postmortem.report.model import Confidence, Evidence

_MOST_KERNEL = 64
_OF_JAVA = Pattern(r"^hs_err_pid(\d{1,9})\.log")
_TYPES = {
    "own exception": EventType.RAISED,
    "every rank": EventType.RAISED,
    "thread": EventType.THREAD_DIED,
    "crash": EventType.CRASHED,
    "silent exit": EventType.EXITED,
    "left early": EventType.EXITED,
    "collective": EventType.CALLED_OTHER,
    "recorded": EventType.NOT_IN_COLLECTIVE,
    "call site": EventType.NOT_IN_COLLECTIVE,
    "named": EventType.NOT_IN_COLLECTIVE,
    "silent": EventType.NOT_IN_COLLECTIVE,
    "stack": EventType.STUCK,
    "numbers": EventType.NON_FINITE,
    "node": EventType.HOST_FAILED,
    "missing": EventType.NEVER_JOINED,
    "startup": EventType.COULD_NOT_START,
    "stopped": EventType.STOPPED,
    "jobs": EventType.FAILED,
}
_KERNEL_TYPES = {
    "oom kill": EventType.KILLED_FOR_MEMORY,
    "crash": EventType.CRASHED,
    "gpu": EventType.DEVICE_LOST,
    "fabric": EventType.DEVICE_LOST,
    "pcie": EventType.DEVICE_LOST,
    "machine": EventType.HOST_FAILED,
    "disk": EventType.STORAGE,
    "network file system": EventType.STORAGE,
    "blocked": EventType.STUCK,
}


_KINDS_OF_END = {None: EventType.EXITED, "SIGKILL": EventType.KILLED}


def of_logs(document: Document) -> Iterator[Event]:
    """Yield what the logs tell, the first failure first."""
    kernel = list(_kernel(document))
    first = _first(document, kernel)
    if first is not None:
        yield first
    for order, row in enumerate(document.get("also_failed", ()), 1):
        why = str(row["why"])
        raised = row.get("raised", True)
        own = _own_pid(document, row["rank"])
        yield Event(
            EventType.RAISED if raised else EventType.EXITED,
            why,
            "logs",
            ranks=alone(row["rank"]),
            host=row["host"],
            pid=own["pid"] if own else None,
            label=str(row["label"]) if row["rank"] is None else None,
            children=_lost_by(document, row["rank"]),
            errnos=tuple(errnos_in_text(why)),
            confidence=Confidence.LIKELY,
            evidence=(Evidence(f"{row['file']}:{row['line']}", why),),
            belongs=True,
            order=order,
        )
    victims = _victims(document)
    if victims is not None:
        yield victims
    yield from kernel


def _first(document: Document, kernel: list[Event]) -> Event | None:
    found, decided = document.get("first_failure"), document.get("decided_by")
    top = best(document)
    kind = _TYPES.get(str(decided))
    if decided == "kernel log":
        # The kernel's own line is an event of its own, and explains how the rank ended.
        kind = EventType.KILLED if any(e.signal == "SIGKILL" for e in kernel) else EventType.FAILED
    if found is None:
        root = root_of(document)
        if root is None or kind in (None, EventType.STOPPED):
            return None
        return _of_nobody(document, root, kind)
    apart = {row["rank"] for row in document.get("also_failed", ())}
    ranks = tuple(int(rank) for rank in found["ranks"] if rank not in apart)
    rank = found["rank"]
    end = next((e for e in document.get("exits", ()) if e["rank"] in ranks), None)
    signal = end["signal"] if end is not None else None
    own = _own_pid(document, rank) if ranks else _of_run(document)
    java = _OF_JAVA.search(str(found["label"]))  # a JVM's own report, called after its process
    gone = signal in ("SIGKILL", "SIGTERM") or (end is not None and bool(end.get("evicted")))
    if kind is EventType.CRASHED and gone:
        kind = EventType.KILLED
    if kind is EventType.KILLED and end is not None and end["memory"]:
        kind = EventType.KILLED_FOR_MEMORY
    what = str(found["what"])
    stands = evidence(top)[len(ranks) :] if top is not None and decided == "recorded" else ()
    return Event(
        kind or EventType.FAILED,
        what,
        "logs",
        ranks=ranks,
        host=found["host"] or (own["host"] if own else None),
        pid=int(java[1]) if java else own["pid"] if own and len(ranks) < 2 else None,
        label=None if ranks else str(found["label"]),
        children=_lost_by(document, rank),
        signal=signal if kind is not EventType.RAISED else None,
        errnos=tuple(errnos_in_text(f"{what} {_said(document, found)}")),
        confidence=Confidence(found["confidence"]),
        evidence=(
            *stands,
            Evidence(f"{found['file']}:{found['line']}", what),
            *_odd(document, ranks),
        ),
        next_steps=tuple(top["next_steps"]) if top is not None else (),
        cause=str(top["cause"]) if top is not None else "",
        means=found.get("means") or "",
        loads=raised_in_reading(document),
        belongs=True,
    )


def _of_nobody(document: Document, root: Mapping[str, Any], kind: EventType | None) -> Event:
    """Return what the logs tell without a rank: how the one program ended, if one is named."""
    what = str(root["title"])
    end = _of_program(document) if kind is EventType.CRASHED else {}
    signal, code, pid = end.get("signal"), end.get("code"), end.get("pid")
    if end:
        kind = _KINDS_OF_END.get(signal, EventType.CRASHED)
        kind = EventType.KILLED_FOR_MEMORY if end["memory"] else kind
    if pid:
        what = f"killed by {signal}" if signal else f"exited with {code}"
        what += ", its memory was used up" if end["memory"] else ""
    return Event(
        kind or EventType.FAILED,
        what,
        "logs",
        pid=pid,
        signal=signal,
        host=end.get("host"),
        label=f"the program (pid {pid})" if end.get("launcher") == RUN else None,
        **told_by(root),
        errnos=tuple(errnos_in_text(" ".join(str(row["what"]) for row in root["evidence"]))),
        belongs=True,
    )


def _of_program(document: Document) -> Mapping[str, Any]:
    """Return how the one process without a rank ended that a shell, or a run of ours, names."""
    ends = (end for end in document.get("exits", ()) if end["rank"] is None)
    return next((end for end in ends if end["signal"] or end["code"]), {})


def _of_run(document: Document) -> Mapping[str, Any] | None:
    """Return how the program of a run of ours ended, whose lines do not name it."""
    end = _of_program(document)
    return end if end.get("launcher") == RUN else None


def _odd(document: Document, ranks: tuple[int, ...]) -> Iterator[Evidence]:
    """Yield which version one of the ranks has alone."""
    odd = document.get("odd_version")
    if odd is not None and odd["rank"] in ranks:
        others = f"the {odd['others']} other ranks {odd['usual']}"
        said = f"rank {odd['rank']} alone has {odd['library']} {odd['version']}, {others}"
        yield Evidence(odd["where"], said)


def _own_pid(document: Document, rank: int | None) -> Mapping[str, Any] | None:
    """Return what tells which process a rank was."""
    rows = document.get("pids", ())
    return next((p for p in rows if p["own"] and rank is not None and p["rank"] == rank), None)


def _lost_by(document: Document, rank: int | None) -> tuple[int, ...]:
    """Return the workers that a rank says it lost."""
    rows = (p for p in document.get("pids", ()) if p["rank"] == rank)
    return tuple(p["pid"] for p in rows if not p["own"])


def _said(document: Document, found: Mapping[str, Any]) -> str:
    """Return all that the failing rank's traceback says, with what it came from."""
    for row in document.get("tracebacks", ()):
        if found["label"] in row["labels"]:
            return " ".join([row["message"], *(cause["message"] for cause in row["causes"])])
    return ""


def _victims(document: Document) -> Event | None:
    rows = document.get("victims", ())
    ranks = tuple(sorted(row["rank"] for row in rows if row["rank"] is not None))
    if not rows:
        return None
    whys = dict.fromkeys(str(row["why"]) for row in rows)
    what = next(iter(whys))
    return Event(
        EventType.LOST_PEER,
        what if len(whys) == 1 else f"{what}, and similar",
        "logs",
        ranks=ranks,
        label=None if ranks else ", ".join(str(row["label"]) for row in rows[:4]),
        belongs=True,
        order=1,
    )


def _kernel(document: Document) -> Iterator[Event]:
    """Yield the faults that are about the job's processes, devices or hosts.

    What the driver says of a GPU besides its first Xid is of that, and what breaks in a host is one
    fault. Of the ranks of a host, the one is meant that the logs conclude on.
    """
    found = document.get("first_failure") or {}
    own = document.get("decided_by") in ("own exception", "every rank", "crash")
    numbered = {
        _gpu(row) for row in document.get("kernel_events", ()) if row.get("xid") is not None
    }
    lost: set[tuple[str | None, str]] = set()
    for order, row in enumerate(document.get("kernel_events", ())[:_MOST_KERNEL], 2):
        kind = _KERNEL_TYPES.get(row["kind"])
        if kind is None or row["fault"] in ("none", "aftermath"):
            continue
        if kind is EventType.DEVICE_LOST and row["fault"] == "program" and own:
            continue  # the other half of its error
        if kind in (EventType.DEVICE_LOST, EventType.HOST_FAILED):
            what = _gpu(row) if kind is EventType.DEVICE_LOST else (row["host"], kind)
            if (row.get("xid") is None and what in numbered) or what in lost:
                continue
            lost.add(what)
        joined = row["joined_by"] in ("pid", "child", "gpu")
        other = not str(row["process"] or "python").startswith(PYTHONS)
        over = other or document.get("done") or row.get("outlived")
        calm = document.get("outcome") != "failed" and over
        if calm and not joined:
            continue  # a process that is none of the ranks', whom nothing happened to
        where = f"{row['file']}:{row['line']}"
        told = _citing(document, where)
        child = row["joined_by"] == "child"
        yield Event(
            kind,
            str(row["what"] or row["text"]),
            "logs",
            ranks=tuple(
                found["ranks"] if told and told is best(document) and found else row["ranks"]
            ),
            host=row["host"],
            pid=row["pid"],
            role="child" if child else None,
            child=child,
            signal="SIGKILL" if row["kind"] == "oom kill" else row["signal"],
            confidence=Confidence.CERTAIN if joined else Confidence.LIKELY,
            evidence=(Evidence(where, str(row["text"])),),
            next_steps=tuple(told["next_steps"]) if told else (),
            cause=str(told["cause"]) if told else "",
            belongs=True if joined else None,
            order=order,
        )


def _gpu(row: Mapping[str, Any]) -> tuple[str | None, str]:
    """Return the host and the address of a GPU, which some lines give with its function."""
    return row["host"], str(row.get("device")).partition(".")[0]


def _citing(document: Document, where: str) -> Mapping[str, Any] | None:
    """Return the conclusion that a line was cited for first of all."""
    rows = (row for row in document["diagnoses"] if row["evidence"][:1])
    return next((row for row in rows if where.endswith(row["evidence"][0]["where"])), None)
