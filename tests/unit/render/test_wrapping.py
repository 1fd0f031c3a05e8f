"""Lines never exceed their width, and nothing gets lost between them."""

import re

from hypothesis import given
from hypothesis import strategies as st

from postmortem.render.wrapping import beginning, cells, padded, wrapped

WORDS = st.text(st.sampled_from("ab/:_-.,<> 字é"), max_size=120)


@given(WORDS, st.integers(4, 60))
def test_no_line_is_wider_than_asked(text: str, width: int) -> None:
    assert all(cells(line) <= width for line in wrapped(text, width))


@given(st.text("ae\u0301\u200b\u6f22…"), st.integers(-1, 12))
def test_a_beginning_is_the_longest_that_fits(text: str, width: int) -> None:
    fit = [n for n in range(len(text) + 1) if cells(text[:n]) <= width]
    assert beginning(text, width) == text[: max(fit, default=0)]


@given(WORDS, st.integers(4, 60))
def test_only_spaces_are_lost(text: str, width: int) -> None:
    joined = "".join(wrapped(text, width))
    assert re.sub(r"\s", "", joined) == re.sub(r"\s", "", text)


def test_a_path_breaks_after_a_slash() -> None:
    assert wrapped("at /opt/venv/lib/python3.11/site-packages/torch/x.py", 24) == (
        "at /opt/venv/lib/",
        "python3.11/site-",
        "packages/torch/x.py",
    )


def test_a_name_breaks_after_its_namespace() -> None:
    assert wrapped("c10d::ProcessGroupNCCL::WorkNCCL", 25) == (
        "c10d::ProcessGroupNCCL::",
        "WorkNCCL",
    )


def test_facts_set_apart_by_spaces_stay_whole() -> None:
    assert wrapped("python train.py   host node17   RANK 3", 34) == (
        "python train.py   host node17",
        "RANK 3",
    )


def test_wide_characters_count_twice() -> None:
    assert cells("字é") == 3
    assert padded("字", 4) == "字  "
    assert padded("7", 3, right=True) == "  7"
