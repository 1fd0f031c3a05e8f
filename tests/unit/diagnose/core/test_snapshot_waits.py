"""What a snapshot says of the main thread, and who a handler's signal came from."""

from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.signals.snapshot import snapshot
from postmortem.facts.memory import Modules
from postmortem.facts.process import CoreFile
from postmortem.facts.threads import Frame, Thread, Threads, Wait

_LIBC = "/lib64/libc.so.6"


def _cause(*threads: Thread) -> str:
    core = CoreFile("core", "gcore", 1, 1)
    found = snapshot.function(FaultKind.SNAPSHOT, core, Threads(threads, 1), Modules(()))
    return next(iter(found)).cause


def test_the_main_thread_and_whom_it_joins() -> None:
    join = Wait("thread 2 to end", 0x10, 2, "join")
    main = Thread(1, frames=(Frame("pthread_join", module=_LIBC),), waits_for=join)
    item = Wait("an item in a Queue", 0x20, kind="queue")
    told = _cause(main, Thread(2, frames=(Frame("get", module=_LIBC),), waits_for=item))
    assert told.index(join.what) < told.index(item.what)
    assert item.what not in _cause(main, Thread(3, waits_for=item))


def test_threads_that_join_each_other_are_followed_so_far() -> None:
    waits = [Wait(f"thread {3 - tid} to end", 0x10, 3 - tid, "join") for tid in (1, 2)]
    assert _cause(*(Thread(tid, waits_for=w) for tid, w in enumerate(waits, 1))).count("to end") < 6


def test_what_runs_waits_for_nothing() -> None:
    runs = Thread(1, frames=(Frame("step()", module="/app/trainer"),))
    lock = Thread(1, frames=(Frame("flock", module=_LIBC), *runs.frames))
    assert len(_cause(lock)) > len(_cause(runs))
