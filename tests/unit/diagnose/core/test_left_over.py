"""Whose words and whose calls a stack can prove."""

from __future__ import annotations

import pytest

from postmortem.diagnose.core.stacks import caller, is_left_over
from postmortem.facts.threads import Frame, Thread, Trust

LIBC, TOOL = "/lib/libc.so.6", "/opt/tool"
RAISE = Frame("raise", module=LIBC, trust=Trust.CONTEXT)
ABORT = Frame("abort", module=LIBC, trust=Trust.CFI)
FREE = Frame("_int_free", module=LIBC, trust=Trust.CFI)
MAIN = Frame("main", module=TOOL, trust=Trust.CFI)


def thread(*frames: Frame) -> Thread:
    return Thread(tid=7, frames=frames)


@pytest.mark.parametrize(
    ("frames", "left"),
    [
        ((RAISE, ABORT, Frame("__assert_fail", module=LIBC), MAIN), False),
        ((RAISE, ABORT, Frame("??", module=LIBC), MAIN), False),
        ((RAISE, ABORT, MAIN), True),
        ((RAISE, ABORT, Frame("??", module=TOOL), MAIN), True),
        ((RAISE, ABORT, Frame("std::terminate", module="/lib/libstdc++.so.6"), MAIN), True),
        ((RAISE, MAIN), True),
        ((Frame("??", module=LIBC), Frame("??", module=LIBC), MAIN), None),
        ((RAISE, ABORT, Frame("??")), None),
        ((RAISE, ABORT, Frame("f", module=TOOL, trust=Trust.SCAN), MAIN), None),
        ((ABORT, Frame("handler"), Frame("<signal handler called>"), RAISE, MAIN), True),
        ((RAISE, ABORT, FREE, Frame("handler"), Frame("<signal handler called>"), MAIN), False),
        ((), None),
    ],
)
def test_whether_a_message_is_left_over(frames: tuple[Frame, ...], left: bool | None) -> None:
    assert is_left_over(thread(*frames)) is left


def test_a_word_of_the_stack_with_nothing_behind_called_nobody() -> None:
    start = Frame("_start", module=TOOL, trust=Trust.SCAN)
    assert caller(thread(RAISE, start)) is None
    assert caller(thread(RAISE, start, MAIN)) == 1
    step = Frame("step", "python", file="train.py", line=3, trust=Trust.PYTHON)
    assert caller(thread(RAISE, start, step)) == 2
