"""Long stacks, recursion and boilerplate."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.prose import Prose
from postmortem.present.folding import MOST, Fold, Repeat, folded, folded_traceback, repeats


def fold(keys: str, boilerplate: dict[str, str] | None = None, **more: object) -> list[str]:
    """Return what is shown of a stack of one-letter functions, innermost first."""
    marks = [(boilerplate or {}).get(key) for key in keys]
    shown = folded(list(keys), list(keys), marks, **more)
    return [entry.text if isinstance(entry, Fold) else keys[entry] for entry in shown]


def test_a_short_stack_is_shown_as_it_is() -> None:
    assert fold("abcd") == ["a", "b", "c", "d"]
    assert fold("") == []


def test_start_up_becomes_one_line() -> None:
    kinds = {"t": "thread start-up"}
    assert fold("abttt", kinds) == ["a", "b", "3 frames of thread start-up"]
    assert fold("abt", kinds) == ["a", "b", "t"], "one frame is not worth a fold"
    assert fold("ttt", kinds) == ["t", "t", "t"], "a stack is never folded to nothing"


def test_recursion_is_counted() -> None:
    assert fold("x" + "ab" * 2051 + "m") == [
        "x", "a", "b", "2,050 more repeats of 2 frames: b -> a", "m",
    ]  # fmt: skip
    assert repeats("x" + "ab" * 2051 + "m") == (Repeat(1, 2, 2051),)


def test_recursion_that_ends_in_the_middle_of_a_turn() -> None:
    assert fold("abc" * 10 + "a")[3] == "9 more repeats of 3 frames: c -> b -> a"
    assert fold("abc" * 10 + "a")[-1] == "a"


def test_a_stack_of_equal_frames() -> None:
    assert fold("f" * 512) == ["f", "511 more repeats of 1 frame: f"]


def test_two_recursions_in_one_stack() -> None:
    assert repeats("a" * 20 + "x" + "bc" * 20) == (Repeat(0, 1, 20), Repeat(21, 2, 20))


def test_few_repeats_are_no_recursion() -> None:
    assert repeats("ababab" + "cdefghij") == ()
    assert repeats("abcdabcdabcd" + "efghij") == ()
    assert repeats("ababab" * 2 + "cdefghij") != ()


def test_boilerplate_folds_only_in_a_long_stack() -> None:
    kinds = {"d": "dispatcher"}
    assert "2 frames of dispatcher" not in fold("abcddefg", kinds)
    letters = "abcdd" + "efghijklmnopqrstuvwxyzABCDEFGHIJ"
    assert "2 frames of dispatcher" in fold(letters, kinds)
    assert "2 frames of dispatcher" not in fold(letters, kinds, keep={3}), "a cited frame stays"
    assert fold("dd" + letters, kinds)[:2] == ["d", "d"], "so do the innermost frames"


def test_a_long_stack_loses_its_middle_but_nothing_that_is_cited(prose: Prose) -> None:
    keys = [chr(0x4E00 + number) for number in range(300)]
    shown = folded(keys, keys, [None] * 300, keep={150})
    assert len(shown) <= MOST
    assert 150 in shown
    prose(*[e.text for e in shown if isinstance(e, Fold)])  # fmt: skip


def test_a_cited_frame_survives_recursion() -> None:
    shown = folded("ab" * 100, "ab" * 100, [None] * 200, keep={101})
    assert 101 in shown


@given(st.text(alphabet="abc", max_size=120), st.sets(st.integers(0, 119), max_size=4))
def test_every_frame_is_shown_or_counted_once(keys: str, keep: set[int]) -> None:
    keep = {index for index in keep if index < len(keys)}
    marks = ["thread start-up" if key == "c" else None for key in keys]
    shown = folded(keys, keys, marks, keep=keep)
    position = 0
    for entry in shown:
        assert (entry.first if isinstance(entry, Fold) else entry) == position
        position += entry.count if isinstance(entry, Fold) else 1
    assert position == len(keys)
    assert keep <= set(shown)


@pytest.mark.parametrize("keys", ["ab" * 50_000, "a" * 100_000, "abc" * 3 + "d" * 90_000])
def test_a_hundred_thousand_frames_take_no_more_than_seconds(keys: str) -> None:
    started = time.thread_time()
    shown = folded(keys, keys, [None] * len(keys))
    assert time.thread_time() - started < 5
    assert len(shown) <= MOST


def test_a_traceback_keeps_the_users_frames_and_the_innermost() -> None:
    site = "/opt/lib/python3.12/site-packages"
    lines = [
        "Traceback (most recent call last):",
        '  File "/job/train.py", line 3, in step',
        "    model(x)",
        f'  File "{site}/torch/nn/module.py", line 1, in call',
        "    inner()",
        '  File "/usr/lib/python3.12/logging/__init__.py", line 8, in info',
        '  File "/job/model.py", line 9, in forward',
        "    return torch.cat(xs)",
        f'  File "{site}/torch/functional.py", line 7, in cat',
        "    raise ValueError(x)",
        "ValueError: x",
        "",
        "During handling of the above exception, another exception occurred:",
    ]
    assert folded_traceback(lines) == [*lines[:3], "  … 2 frames in torch, logging", *lines[6:]]


def test_of_a_traceback_our_own_frames_go() -> None:
    own = ['  File "/job/train.py", line 3, in step', "    model(x)"]
    ours = ['  File "/x/postmortem/monitor/hooks.py", line 66, in __call__', "    raise found"]
    assert folded_traceback([*own, *ours, "NumericsError: x"]) == [*own, "NumericsError: x"]
