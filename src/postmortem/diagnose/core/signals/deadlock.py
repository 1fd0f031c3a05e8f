"""Threads wait for each other, and none can go on.

What it means
    Each thread of a circle waits for a lock that the next one holds, or for the next one to
    end; a thread may also wait for a lock of its own, or for one whose owner is not in this
    process (a fork() while another thread held it). Or all threads, or all of Python, wait for
    what only another one of them does: release a lock, complete a Future. So may the tasks of an
    event loop that has nothing due and watches nothing outside. Nothing but killing the
    process ends it.
How to be sure
    A pthread mutex, an RLock, the GIL and a join name the thread themselves. A Lock of Python
    does not: its holder is the thread that stands inside a `with` block of it. Where one of the
    waits has a time-out, the circle may end by itself, and the diagnosis is only possible.
What to do
    Take the locks in the same order everywhere, or hold one of them at a time; in an extension,
    release the GIL (gil_scoped_release, Py_BEGIN_ALLOW_THREADS) before taking a C++ mutex.
"""

from collections.abc import Iterator, Mapping, Sequence

from postmortem.diagnose.core.citing import cite_frame, cite_python
from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.python.fork_after_threads import in_team
from postmortem.diagnose.core.stacks import caller
from postmortem.diagnose.core.task_waits import stuck_tasks
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, Role, Topic, rule
from postmortem.facts.threads import Thread, Threads, Wait

_MOST_CYCLES = 4
_MOST_EDGES = 16
_OF_LOCKS = ("std::", "__gthread_", "pthread_", "void std::")


@rule(
    "https://man7.org/linux/man-pages/man3/pthread_mutex_lock.3p.html",
    "https://docs.python.org/3/library/threading.html#lock-objects",
    topic=Topic.WAITS,
)
def deadlock(kind: FaultKind, threads: Threads) -> Findings:
    by_tid = {thread.tid: thread for thread in threads}
    waits = {t.tid: t.waits_for for t in threads if t.waits_for is not None}
    role = Role.CONTEXT if kind.is_fault or kind is FaultKind.ABORT else None
    cycles = _cycles(waits)[:_MOST_CYCLES]
    for cycle in cycles:
        yield _circle(cycle, waits, by_tid, role)
    for wait, stuck in list(_ownerless(waits).items())[:_MOST_CYCLES]:
        yield _no_owner(wait, [by_tid[tid] for tid in stuck], role)
    yield from stuck_tasks(threads, role)
    if len(threads) == 1 and waits:
        yield from _alone(threads.items[0], role)
    elif not cycles:
        python = [thread for thread in threads if thread.python_name]
        yield from list(_none_left(python, role)) or _none_left(threads.items, role, whole=True)


def circle(threads: Threads) -> tuple[Thread, ...]:
    """Return the threads of the first circle of waits; none where nobody waits in one."""
    by_tid = {thread.tid: thread for thread in threads}
    found = _cycles({t.tid: t.waits_for for t in threads if t.waits_for is not None})
    return tuple(by_tid[tid] for tid in found[0]) if found else ()


def _cycles(waits: Mapping[int, Wait]) -> list[list[int]]:
    """Return the circles of who waits for whom; a thread waits for one thread at most."""
    found: list[list[int]] = []
    done: set[int] = set()
    for start in waits:
        path: list[int] = []
        place: dict[int, int] = {}
        tid: int | None = start
        while tid is not None and tid in waits and tid not in done and tid not in place:
            place[tid] = len(path)
            path.append(tid)
            tid = waits[tid].holder
        if tid is not None and tid in place:
            found.append(path[place[tid] :])
        done.update(path)
    return found


def _ownerless(waits: Mapping[int, Wait]) -> dict[Wait, list[int]]:
    found: dict[Wait, list[int]] = {}
    for tid, wait in waits.items():
        if wait.missing_owner is not None:
            found.setdefault(wait, []).append(tid)
    return found


def _circle(
    cycle: list[int], waits: Mapping[int, Wait], by_tid: Mapping[int, Thread], role: Role | None
) -> Finding:
    certain = all(waits[tid].certain for tid in cycle)
    timed = [tid for tid in cycle if waits[tid].timed]
    what = " and ".join(dict.fromkeys(waits[tid].what for tid in cycle[:3]))
    if len(cycle) == 1:
        title = f"deadlock: a thread waits for {what}, which it holds itself"
    else:
        title = f"deadlock: {len(cycle)} threads wait for each other ({what})"
    cause = "; ".join(_edge(by_tid[tid], waits[tid], by_tid) for tid in cycle[:_MOST_EDGES])
    if timed:
        cause += f"; thread {timed[0]} waits with a time-out, after which it goes on"
    evidence: list[Evidence] = []
    for tid in cycle[:_MOST_EDGES]:
        evidence += _cited(by_tid[tid], waits[tid])
    return Finding(
        title=title,
        cause=cause,
        confidence=_confidence(certain=certain, timed=bool(timed)),
        next_steps=_steps(len(cycle), {waits[tid].kind for tid in cycle}),
        evidence=tuple(evidence),
        role=role,
    )


def _confidence(*, certain: bool, timed: bool) -> Confidence:
    if timed:
        return Confidence.POSSIBLE
    return Confidence.CERTAIN if certain else Confidence.LIKELY


def _edge(thread: Thread, wait: Wait, by_tid: Mapping[int, Thread]) -> str:
    text = f"{thread.words} waits for {wait.what}"
    if wait.kind == "join" or wait.holder is None:
        return text
    if wait.holder == thread.tid:
        held = "it holds itself"
    elif wait.holder in by_tid:
        held = f"{by_tid[wait.holder].words} holds"
    else:
        held = f"thread {wait.holder} holds"
    return f"{text} that {held}" + (f" in {wait.held_at}" if wait.held_at else "")


def _cited(thread: Thread, wait: Wait) -> Iterator[Evidence]:
    how = f": {wait.how}" if wait.how else ""
    yield Evidence(f"thread {thread.tid} futex {wait.address:#x}", f"waits for {wait.what}{how}")
    python = cite_python(thread)
    yield from python
    if thread.frames and not python:
        yield cite_frame(thread, asks_in(thread))


def asks_in(thread: Thread) -> int:
    """Return the frame in which the thread's own native code asks for the lock.

    Neither the C library's functions nor what the C++ library puts around them, inlined or not
    (std::mutex::lock, __gthread_mutex_lock), tell which lock is meant.
    """
    index = caller(thread)
    further = index
    while further is not None and _takes_lock(thread, further):
        further = caller(thread, further + 1)
    if further is not None:
        return further
    if index is not None:
        return index
    return next((i for i, frame in enumerate(thread.frames) if frame.function != "??"), 0)


def _takes_lock(thread: Thread, index: int) -> bool:
    function = thread.frames[index].function
    return function == "??" or function.startswith(_OF_LOCKS)


def _steps(threads: int, kinds: set[str]) -> tuple[str, ...]:
    if threads == 1 and kinds & {"heap", "stdio"}:
        first = (
            "a signal handler may call nothing that allocates or prints (signal-safety(7)): set "
        )
        first += "a flag there, and do the work outside"
    elif threads == 1:
        first = "do not take the lock again where it is held; make it recursive if that is meant"
    elif "gil" in kinds:
        first = (
            "release the GIL before the native lock is taken (py::gil_scoped_release or "
            "Py_BEGIN_ALLOW_THREADS), or never call Python while that lock is held"
        )
    else:
        first = "take these locks in the same order in all threads, at the lines cited here"
    return (
        first,
        "until that is fixed, acquire with a time-out and log who fails: lock.acquire(timeout=60)"
        if "python lock" in kinds
        else "build the native code with -fsanitize=thread: it names lock orders that can deadlock",
    )


def _no_owner(wait: Wait, stuck: list[Thread], role: Role | None) -> Finding:
    evidence: list[Evidence] = []
    for thread in stuck[:_MOST_EDGES]:
        evidence += _cited(thread, wait)
    return Finding(
        title=f"{wait.what} is held by thread {wait.missing_owner}, which is not in this process",
        cause=f"{len(stuck)} waiting here; the mutex names an owner that ended while it held it, "
        "or that lives in the parent: fork() copies locked locks but only one thread",
        confidence=Confidence.LIKELY,
        next_steps=(
            _FORKED,
            "else look for a thread that ended without unlocking: use std::lock_guard",
        ),
        evidence=tuple(evidence),
        role=role,
    )


def _alone(thread: Thread, role: Role | None) -> Findings:
    """Yield that a process's only thread waits for a lock that just its threads can release.

    Conditions, Events and queues are left out: signal handlers set them. A mutex names its owner,
    and multiprocessing's locks are semaphores.
    """
    wait = thread.waits_for
    open_end = wait is not None and wait.holder is None and not wait.timed
    unknown = wait is not None and wait.kind in _UNKNOWN  # a handler may be to end it
    is_lock = wait is not None and (wait.kind in _UNOWNED or unknown)
    if wait is None or not is_lock or not open_end or wait.missing_owner:
        return
    if in_team(thread) is not None:
        return  # fork_after_threads
    yield Finding(
        title=f"the only thread waits for {wait.what}, which no other can release",
        cause=f"{_edge(thread, wait, {})}, and the process has no other thread: either fork() "
        "copied the process without the one that was to end this wait, or this thread took a lock "
        "twice",
        confidence=Confidence.POSSIBLE if unknown else Confidence.LIKELY,
        next_steps=(_FORKED, "else see where this thread takes the lock, and who releases it"),
        evidence=tuple(_cited(thread, wait)),
        role=role,
    )


def _none_left(threads: Sequence[Thread], role: Role | None, *, whole: bool = False) -> Findings:
    """Yield that each thread of the process, or of Python, waits for what another one has to do."""
    waits = [(one, wait) for one in threads if (wait := one.waits_for) is not None]
    kinds = {wait.kind for _, wait in waits}
    may, must = (_BY_THREADS, _CONTENDED) if whole else (_BY_PYTHON, _BY_ANOTHER)
    if whole and not any(thread.python_name for thread in threads):
        must |= _OF_CODE  # no handler in Python can notify, nor put into a queue
    if len(waits) < max(len(threads), 2) or kinds - may or not kinds & must:
        return
    if any(wait.timed or wait.missing_owner is not None for _, wait in waits):
        return
    by_tid = {thread.tid: thread for thread in threads}
    told = waits[:_MOST_EDGES]
    pool = "future" in kinds and not whole
    many = "both" if len(threads) == 2 else f"all {len(threads)}"
    of = "" if whole else " Python"
    yield Finding(
        title=f"{many}{of} threads wait, and none is left to let another go on",
        cause="; ".join(_edge(one, wait, by_tid) for one, wait in told),
        # what is not Python's may end a Future too
        confidence=_sure(kinds, pool=pool, whole=whole),
        next_steps=(
            "a task must not wait for another one of its own pool: all workers may wait so"
            if pool
            else "take these locks in the same order in all threads, at the lines cited here"
            if kinds & (_CONTENDED | {"python lock"})
            else "count who has to arrive or to notify, and see whether one of them has ended",
            "see what each of these waits is for, and which thread was to do it",
        ),
        evidence=tuple(row for one, wait in told for row in _cited(one, wait)),
        role=role,
    )


def _sure(kinds: set[str], *, pool: bool, whole: bool) -> Confidence:
    unknown = kinds & _UNKNOWN or (whole and not kinds & _CONTENDED)
    return Confidence.POSSIBLE if pool or unknown else Confidence.LIKELY


_UNOWNED = frozenset({"python lock", "unowned mutex", "rwlock", "future", "barrier"})
_UNKNOWN = frozenset({"private futex"})
_BY_ANOTHER = frozenset({"python lock", "future", "barrier"})
"""Waits that a thread of Python ends, and nothing else: signal handlers set Events."""
_BY_PYTHON = _BY_ANOTHER | {"join", "queue", "condition", "event", "semaphore"}
_CONTENDED = frozenset({"mutex", "unowned mutex", "rwlock"})
_OF_CODE = frozenset({"join", "barrier"})
_BY_THREADS = (_BY_PYTHON - {"semaphore"}) | _CONTENDED | _UNKNOWN
"""What other processes do not end; one that is idle waits for no mutex."""
_FORKED = "was the process forked while threads ran? start workers with spawn or forkserver"
