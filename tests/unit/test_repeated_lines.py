"""One line many times: readers pass copies at once, and must say what they say of line after line.

With a carriage return at the end of every second line no line stands there twice in a row, and the
text means the same.
"""

from itertools import chain, repeat
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from postmortem import _native
from postmortem.readers.ranklogs.known_lines import keep_literals

LINES = (
    "",
    "step 1",
    "[rank0]: step 1",
    "[rank1]:",
    "1: a",
    "ERROR: it failed",
    "Traceback (most recent call last):",
    '  File "a.py", line 1, in f',
    "KeyError: 1",
    "[rank0]: Traceback (most recent call last):",
    "==> logs/rank_2.log <==",
    "----------Begin global rank 2 STDERR----------",
    "bar\rbar 2",
    "\x01\x02",
)
CALLS = (
    "",
    "x",
    "hello) = 6",
    '7 write(3, "a", 1',
    '7 write(3, "a", 1) = -1 ENOSPC (No space left on device)',
    "7 read(3,  <unfinished ...>",
    "7 <... read resumed>) = 0",
    "7 +++ exited with 1 +++",
    ", 5) = 0",
    "\x1b[31mred",
)


def logs(lines: tuple[str, ...]) -> st.SearchStrategy[list[str]]:
    runs = st.tuples(
        st.sampled_from(lines), st.sampled_from([1, 2, 3, 7, 33, 34, 35, 36, 90, 3100])
    )
    return st.lists(runs, max_size=6).map(
        lambda drawn: list(chain.from_iterable(repeat(line, times) for line, times in drawn))
    )


def alike(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def apart(lines: list[str]) -> bytes:
    ends = ("\n", "\r\n")
    return "".join(line + ends[i % 2] for i, line in enumerate(lines)).encode()


def ranklog(data: bytes) -> tuple[dict[str, Any], dict[int, bytes]]:
    pieces = iter([data])
    clean: dict[int, bytes] = {}

    def sink(label: int, text: bytes) -> None:
        clean[label] = clean.get(label, b"") + text

    raw: dict[str, Any] = dict(
        _native.read_ranklog(lambda: next(pieces, b""), keep_literals(), sink=sink)
    )
    del raw["bytes"]
    return raw, clean


@settings(deadline=None, max_examples=100)
@given(logs(LINES))
def test_copies_in_a_log_of_ranks(lines: list[str]) -> None:
    assert ranklog(alike(lines)) == ranklog(apart(lines))


@settings(deadline=None, max_examples=100)
@given(logs(CALLS), st.booleans())
def test_copies_in_a_strace_log(lines: list[str], statistics: bool) -> None:
    def read(data: bytes) -> Any:
        pieces = iter([data])
        raw = _native.read_strace(
            [(lambda: next(pieces, b""), 0)], errors=["ENOSPC"], statistics=statistics
        )
        found = [(m["line"], m["pid"], m["errno"]) for m in raw["matches"]]
        return raw["counts"], (raw["first_unparsed"] or "").rstrip("\r"), found

    assert read(alike(lines)) == read(apart(lines))
