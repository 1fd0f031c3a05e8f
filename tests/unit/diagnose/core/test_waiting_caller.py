"""Whose line a crashed thread without Python frames worked for."""

from postmortem.diagnose.core.waiting_caller import waiting_caller
from postmortem.facts.threads import Frame, Thread, Threads
from postmortem.present.core.card import core_highlights
from unit.present.views import python, view

LIBRARY = "/opt/venv/lib/python3.11/site-packages/torch/lib/libtorch_cpu.so"


def native(*names: str) -> tuple[Frame, ...]:
    return tuple(Frame(name, module=LIBRARY) for name in names)


CRASHED = Thread(
    2,
    crashed=True,
    frames=native(
        "abort",
        "gloo::transport::tcp::Pair::prepareRead(gloo::transport::tcp::Op&)",
        "gloo::transport::tcp::Loop::run()",
        "start_thread",
        "clone3",
    ),
)
CALLER = Thread(
    1,
    frames=(*native("pthread_cond_wait", "c10d::Work::wait(int)"), python("sync", "/job/t.py", 10)),
)
IDLE = Thread(3, frames=(*native("pthread_cond_wait"), python("log", "/job/t.py", 90)))


def test_the_thread_that_called_a_collective_of_gloo() -> None:
    threads = Threads((CRASHED, CALLER, IDLE), 1)
    assert waiting_caller(threads) is CALLER
    places = core_highlights(view(threads), threads).places
    assert [(one.function, one.file, one.line) for one in places] == [("sync", "/job/t.py", 10)]


def test_nobody_where_no_thread_or_two_wait() -> None:
    other = Thread(4, frames=CALLER.frames)
    assert waiting_caller(Threads((CRASHED, IDLE), 3)) is None
    assert waiting_caller(Threads((CRASHED, CALLER, other), 1)) is None
