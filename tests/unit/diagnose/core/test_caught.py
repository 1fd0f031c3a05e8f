"""Which of two signals was the failure."""

import pytest

from builders.prose import Prose
from postmortem.diagnose.core.caught import aftermath, beyond_handler, failure
from postmortem.facts.crash import Caught, Signal
from postmortem.facts.threads import Frame, Thread, Threads

AGAIN = Signal(11, "SIGSEGV", -6, "SI_TKILL", sender_pid=10)
FAULT = Signal(11, "SIGSEGV", 1, "SEGV_MAPERR", address=0x18)
ABORT = Signal(6, "SIGABRT", -6, "SI_TKILL", sender_pid=10)
TERM = Signal(15, "SIGTERM", 0, "SI_USER", sender_pid=99)
IN_HANDLER = Signal(11, "SIGSEGV", 1, "SEGV_MAPERR", address=0x10)


@pytest.mark.parametrize("last", [AGAIN, ABORT, IN_HANDLER])
def test_a_fault_comes_before_what_its_handler_did(last: Signal) -> None:
    first, _ = failure(last, None, Caught(FAULT, None, True))
    assert first is not None
    assert (first.code, first.address, first.then) == ("SEGV_MAPERR", 0x18, last)


def test_a_handler_of_another_signal_may_fail_for_reasons_of_its_own() -> None:
    assert failure(ABORT, None, Caught(TERM, None, True)) == (ABORT, None)
    assert failure(IN_HANDLER, None, Caught(TERM, None, True)) == (IN_HANDLER, None)


def test_a_signal_from_outside_that_was_raised_again_keeps_its_sender() -> None:
    outside = Signal(11, "SIGSEGV", 0, "SI_USER", sender_pid=99)
    first, _ = failure(AGAIN, None, Caught(outside, None, False))
    assert first is not None
    assert first.sender_pid == 99


def test_the_words_tell_how_it_went_on(prose: Prose) -> None:
    def words(last: Signal) -> str:
        first, _ = failure(last, None, Caught(FAULT, None, True))
        assert first is not None
        return aftermath(first)

    prose(words(AGAIN))
    prose(words(ABORT))
    prose(words(IN_HANDLER))
    assert aftermath(FAULT) == ""


def test_frames_of_the_handler_are_left_out_of_the_crashed_thread_only() -> None:
    names = ("raise", "handler", "<signal handler called>", "touch", "main")
    frames = tuple(Frame(name) for name in names)
    threads = Threads((Thread(1, crashed=True, frames=frames), Thread(2, frames=frames)), 1)
    first, second = beyond_handler(threads)
    assert [frame.function for frame in first.frames] == ["touch", "main"]
    assert first.left_out == 3
    assert second.frames == frames
