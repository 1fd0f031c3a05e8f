"""A signal from outside whose handler ended the process: who sent it is the reason."""

from dataclasses import replace

import pytest

from postmortem.diagnose.core.caught import fault_elsewhere
from postmortem.diagnose.core.crash import Crash
from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.signals.aborted_by_itself import aborted_by_itself
from postmortem.facts.crash import Signal
from postmortem.facts.process import CoreFile, Process
from postmortem.facts.threads import Frame, Thread, Threads

_GO = "/app/tool"
_NAMES = ("runtime.raise", "runtime.dieFromSignal", "<signal handler called>", "runtime.epollwait")
_DYING = Thread(1, crashed=True, frames=tuple(Frame(name, module=_GO) for name in _NAMES))
_SENT = Signal(3, "SIGQUIT", 0, "SI_USER", sender_pid=77)


def _title(*threads: Thread) -> str:
    signal = Signal(6, "SIGABRT", -6, "SI_TKILL", sender_pid=1)
    process = Process(1, machine="x86_64")
    crash = Crash(FaultKind.ABORT, signal, None, Threads(threads, 1), process)
    core = CoreFile("core", "kernel", 1, 1)
    return next(iter(aborted_by_itself.function(crash, None, core))).title


@pytest.mark.parametrize("beside", [False, True])
def test_it_may_have_come_to_another_thread(*, beside: bool) -> None:
    other = Thread(2, frames=_DYING.frames[2:], handles=_SENT if beside else None)
    dying = _DYING if beside else replace(_DYING, handles=_SENT)
    assert "77" in _title(dying, other)
    assert "77" not in _title(_DYING, replace(other, handles=None))


def test_it_is_no_fault_of_that_thread() -> None:
    other = Thread(2, frames=_DYING.frames[2:], handles=_SENT)
    assert fault_elsewhere(Threads((_DYING, other), 1)) is None
    fault = Signal(11, "SIGSEGV", 1, "SEGV_MAPERR", address=8)
    assert fault_elsewhere(Threads((_DYING, replace(other, handles=fault)), 1)) is not None
