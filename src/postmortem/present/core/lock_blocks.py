"""Who waits for whom: each lock with its holder and its waiters, and what the holder does."""

from collections.abc import Mapping, Sequence

from postmortem.diagnose.stacks.activity import activity
from postmortem.facts.threads import Thread, Wait
from postmortem.present.core.view import CoreView
from postmortem.report.blocks import KeyValues
from postmortem.text import counted, some

_MOST_LOCKS = 10
_MOST_WAITERS = 4
_LONGEST_CHAIN = 8


def lock_block(view: CoreView, *, verbose: bool) -> KeyValues | None:
    """Return the locks that threads wait for, those with a holder first; None if there are none.

    Waits for work (a Condition, a Queue, a semaphore) are no contention, and are left out.
    """
    by_tid = {thread.tid: thread for thread in view.threads}
    waiters: dict[tuple[object, ...], list[Thread]] = {}
    for thread in view.threads:
        wait = thread.waits_for
        if wait is not None and _is_told(wait):
            waiters.setdefault(_key(wait), []).append(thread)
    found = sorted(
        waiters.values(), key=lambda same: (_wait(same[0]).holder is None, -len(same), same[0].tid)
    )
    if not found:
        return None
    shown = found if verbose else found[:_MOST_LOCKS]
    rows = [(_label(_wait(same[0])), _told(same, by_tid, view)) for same in shown]
    if len(shown) < len(found):
        rows.append(("more", f"{counted(len(found) - len(shown), 'lock')}: -v shows them"))
    return KeyValues(tuple(rows), title="locks")


def _is_told(wait: Wait) -> bool:
    return wait.contended or wait.kind == "python lock" or wait.kind == "rwlock"


def _key(wait: Wait) -> tuple[object, ...]:
    # the condition variables of the GIL, and the words of a read-write lock, are several addresses
    if wait.kind in ("gil", "join", "rwlock") and wait.holder is not None:
        return (wait.kind, wait.holder)
    return (wait.kind, wait.address)


def _wait(thread: Thread) -> Wait:
    assert thread.waits_for is not None
    return thread.waits_for


def _label(wait: Wait) -> str:
    if wait.kind == "join":
        return "join"
    name = wait.what.removeprefix("a ").removeprefix("an ").removeprefix("the ")
    return name if wait.kind == "gil" else f"{name} {wait.address:#x}"


def _told(same: Sequence[Thread], by_tid: Mapping[int, Thread], view: CoreView) -> str:
    wait = _wait(same[0])
    named = some([_name(thread) for thread in same], _MOST_WAITERS)
    verb = "waits" if len(same) == 1 else "wait"
    limit = " (with a time-out)" if all(_wait(thread).timed for thread in same) else ""
    if wait.kind == "join" and wait.holder is not None:
        text = f"{named} {verb} for the end of {_named(wait.holder, by_tid)}"
    else:
        text = f"{_holder(wait, by_tid)}; {named} {verb}"
    return text + limit + _chain(wait, by_tid, view)


def _holder(wait: Wait, by_tid: Mapping[int, Thread]) -> str:
    if wait.holder is None:
        if wait.missing_owner is not None:
            return f"held by thread {wait.missing_owner}, which is not in this process"
        if wait.kind == "gil":
            return "free at this moment"
        return "holder unknown" + (f" ({wait.how})" if wait.how else "")
    sure = "" if wait.certain else " (likely)"
    place = f", taken in {wait.held_at}" if wait.held_at else ""
    return f"held by {_named(wait.holder, by_tid)}{sure}{place}"


def _chain(wait: Wait, by_tid: Mapping[int, Thread], view: CoreView) -> str:
    """Return what the holder does itself, along the chain of who waits for whom."""
    text, tid = "", wait.holder
    seen: set[int] = set()
    while tid is not None and tid in by_tid and len(seen) < _LONGEST_CHAIN:
        if tid in seen:
            return f"{text}: a circle"
        seen.add(tid)
        thread = by_tid[tid]
        own = thread.waits_for
        if own is None or not _is_told(own):
            return f"{text}; {_name(thread)} is {_doing(thread, view)}"
        held = own.kind != "join" and own.holder is not None
        what = f"{own.what} of {_named(own.holder or 0, by_tid)}" if held else own.what
        text += f"; {_name(thread)} waits for {what}"
        tid = own.holder
    return text


def _doing(thread: Thread, view: CoreView) -> str:
    found = activity(thread, view.threads.main_tid, view.process.executable)
    wait = thread.waits_for
    if wait is not None:
        return f"waiting for {wait.what} in {found.where}"
    return f"in {found.where}"


def _named(tid: int, by_tid: Mapping[int, Thread]) -> str:
    return _name(by_tid[tid]) if tid in by_tid else f"thread {tid}"


def _name(thread: Thread) -> str:
    return thread.words.removeprefix("thread ") if thread.called else thread.words
