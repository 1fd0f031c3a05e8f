"""Who waits for whom, as the report tells it."""

from dataclasses import replace

from builders.prose import Prose
from postmortem.facts.threads import Thread, Threads, Wait
from postmortem.present.core.lock_blocks import lock_block
from unit.present.views import native, real_view


def rows(*threads: Thread) -> dict[str, str]:
    view = replace(real_view("heap", 7055), threads=Threads(threads, 1))
    block = lock_block(view, verbose=False)
    return {} if block is None else dict(block.rows)


def thread(tid: int, function: str, wait: Wait | None = None, name: str | None = None) -> Thread:
    frames = (native(function, "/x/liba.so"),)
    return Thread(tid, frames=frames, python_name=name, waits_for=wait)


def test_nothing_to_tell_where_threads_wait_for_work() -> None:
    idle = Wait("an item in a Queue", 0x10, kind="queue", certain=False)
    assert rows(thread(1, "main"), thread(2, "get", idle)) == {}


def test_waiters_of_one_lock_are_one_row_with_what_the_holder_does() -> None:
    wait = Wait("a Python lock", 0x10, 1, "python lock", False, held_at="step (train.py:3)")
    waiting = [thread(n, "wait", wait) for n in range(2, 9)]
    assert rows(thread(1, "write_checkpoint", None, "main"), *waiting) == {
        "Python lock 0x10": 'held by 1 "main" (likely), taken in step (train.py:3); thread 2, '
        'thread 3, thread 4, thread 5 and 3 more wait; 1 "main" is in write_checkpoint'
    }


def test_a_chain_goes_on_until_nobody_waits_or_it_is_a_circle(prose: Prose) -> None:
    first = thread(2, "wait", Wait("a pthread mutex", 0x10, 3, "mutex"))
    second = thread(3, "wait", Wait("thread 4 to end", 0x20, 4, "join"))
    free = rows(thread(1, "main"), first, second, thread(4, "read"))
    assert free["pthread mutex 0x10"].endswith(
        "thread 3 waits for thread 4 to end; thread 4 is in read"
    )
    prose(free["join"])
    back = thread(4, "wait", Wait("a read-write lock", 0x30, 2, "rwlock"))
    assert rows(thread(1, "main"), first, second, back)["join"].endswith(": a circle")


def test_an_unknown_holder_and_the_gil(prose: Prose) -> None:
    unknown = Wait("a Python lock", 0x10, kind="python lock", certain=False, how="no owner")
    gil = [Wait("the GIL", address, 1, "gil") for address in (0x20, 0x28)]
    found = rows(
        thread(1, "compute"),
        thread(2, "a", unknown),
        thread(3, "b", gil[0]),
        thread(4, "b", gil[1]),
    )
    assert set(found) == {"GIL", "Python lock 0x10"}
    prose(*(f"{name}: {words}" for name, words in sorted(found.items())))
    timed = Wait("a pthread mutex", 0x10, 1, "mutex", timed=True)
    prose(rows(thread(1, "x"), thread(2, "a", timed))["pthread mutex 0x10"])
