"""The JSON of ``postmortem core`` and ``postmortem hang``."""

from postmortem.errors import EvidenceError
from postmortem.facts.confidence import Outcome
from postmortem.facts.stackdumps import StackDump
from postmortem.facts.threads import Frame, Thread
from postmortem.readers.json_values import parsed, whole, words
from postmortem.readers.stackdumps.frames import MOST_FRAMES, MOST_THREADS, Interned
from postmortem.records import replace


def read_json(text: str, path: str, frames: Interned) -> list[StackDump]:
    """Return the stacks of a report; raises EvidenceError if it has none."""
    document = parsed(text, path, "not a report of postmortem")
    if not isinstance(document, dict) or not str(document.get("schema")).startswith("postmortem/"):
        raise EvidenceError(path, "not a report of postmortem")
    if document.get("kind") == "hang":
        return _live(document, path, frames)
    rows = document.get("threads")
    if not isinstance(rows, list):
        raise EvidenceError(path, "a report of postmortem without threads")
    process = document.get("process")
    return [_dump(rows, process if isinstance(process, dict) else {}, frames)]


def _live(document: dict[str, object], path: str, frames: Interned) -> list[StackDump]:
    """Return the ranks of a report on live processes; who works for a rank is left out."""
    found = []
    goes_on = document.get("outcome") == Outcome.HEALTHY
    processes = document.get("processes")
    for one in (processes if isinstance(processes, list) else [])[:MOST_THREADS]:
        rows = one.get("threads") if isinstance(one, dict) else None
        if isinstance(rows, list) and whole(one.get("works_for")) is None:
            found.append(replace(_dump(rows, one, frames), goes_on=goes_on))
    if not found:
        raise EvidenceError(path, "a report of postmortem hang without processes")
    return found


def _dump(rows: list[object], about: dict[str, object], frames: Interned) -> StackDump:
    threads = [_thread(row, frames) for row in rows[:MOST_THREADS] if isinstance(row, dict)]
    pid = whole(about.get("pid"))
    states = {whole(row.get("tid")): row.get("state") for row in rows if isinstance(row, dict)}
    told = any(isinstance(state, str) for state in states.values())
    argv = about.get("argv")
    return StackDump(
        tool="postmortem",
        threads=tuple(threads),
        main=next((i for i, thread in enumerate(threads) if thread.tid == pid), None),
        running=tuple(thread.tid for thread in threads if states.get(thread.tid) == "R"),
        tells_running=told,
        pid=pid,
        command=" ".join(map(str, argv)) if isinstance(argv, list) else None,
        rank=whole(about.get("rank")),
        host=words(about.get("hostname")),
    )


def _thread(row: dict[str, object], frames: Interned) -> Thread:
    stack = row.get("frames")
    return Thread(
        tid=whole(row.get("tid")) or 0,
        crashed=row.get("crashed") is True,
        name=words(row.get("name")),
        python_name=words(row.get("python_name")),
        holds_gil=row.get("holds_gil") is True,
        frames=tuple(
            _frame(one, frames)
            for one in (stack if isinstance(stack, list) else [])[:MOST_FRAMES]
            if isinstance(one, dict)
        ),
    )


def _frame(row: dict[str, object], frames: Interned) -> Frame:
    return frames.frame(
        words(row.get("function")) or "??",
        kind="python" if row.get("kind") == "python" else "native",
        file=words(row.get("file")),
        line=whole(row.get("line")),
        module=words(row.get("module")),
        inlined=row.get("inlined") is True,
    )
