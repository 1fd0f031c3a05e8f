"""The native engine of signatures, against Python's `re` and on text of every kind."""

import array
import gzip
import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.prose import Prose
from postmortem import _native
from postmortem.errors import EvidenceError
from postmortem.facts.signature import Hit, Signature
from postmortem.readers import signatures as reader
from postmortem.readers.signatures import Signatures


def hits(signatures: Signatures, path: Path) -> tuple[Hit, ...]:
    return signatures.tally_file(str(path)).hits


def known(**patterns: str) -> Signatures:
    return Signatures(
        Signature(name, "test", "root", ("log",), "c", ("n",), "r", pattern=pattern)
        for name, pattern in patterns.items()
    )


LETTERS = "abc1 _-"
_SAFE = st.sampled_from(
    [*"abc1 _", ".", r"\d", r"\w", r"\s", "[ab]", "[^a ]", "[a-c1]", r"\-", r"\W"]
)
_COUNTS = st.sampled_from(
    ["*", "+", "?", "{2}", "{1,2}", "{,2}", "{1,}", "*?", "+?", "??", "{1,3}?"]
)


def _not_empty(pattern: str) -> str:
    # No filter: hypothesis writes out the whole strategy where one refuses.
    return pattern if re.fullmatch(pattern, "") is None else f"(?:{pattern}a)"


def _patterns() -> st.SearchStrategy[str]:
    def longer(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        group = inner.map(lambda p: f"({p})") | inner.map(lambda p: f"(?:{p})")
        return st.one_of(
            st.lists(inner | group, min_size=1, max_size=4).map("".join),
            st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"(?:{'|'.join(parts)})"),
            st.tuples((_SAFE | group).map(_not_empty), _COUNTS).map("".join),
        )

    anchored = st.tuples(
        st.sampled_from(["", "", "", "^", r"\b"]),
        st.recursive(_SAFE, longer, max_leaves=8),
        st.sampled_from(["", "", "", "$", r"\B"]),
    )
    return anchored.map("".join)


@given(
    head=_patterns(),
    tail=_patterns(),
    lines=st.lists(
        st.lists(st.text(LETTERS, max_size=6) | st.just("text"), max_size=5).map("".join),
        max_size=4,
    ),
)
def test_it_finds_what_python_finds(head: str, tail: str, lines: list[str]) -> None:
    pattern = f"(?P<head>{head})text(?P<tail>{tail})"
    data = "\n".join(lines).encode()
    expression = re.compile(pattern.encode(), re.ASCII)
    wanted = []
    offset = 0
    for number, line in enumerate(data.split(b"\n"), 1):
        match = expression.search(line)
        if match is not None:
            groups = {k: v.decode() for k, v in match.groupdict().items() if v is not None}
            wanted.append((number, offset + match.start(), groups))
        offset += len(line) + 1
    found = known(it=pattern).find(data)
    assert [(hit.line_number, hit.offset, hit.groups) for hit in found] == wanted


@given(
    words=st.lists(st.text("abAB", min_size=4, max_size=9), min_size=1, max_size=40, unique=True),
    data=st.text("abAB\n", max_size=400),
)
def test_the_filter_misses_no_text(words: list[str], data: str) -> None:
    found = Signatures(
        Signature(word, "test", "root", ("log",), "c", ("n",), "r", pattern=word) for word in words
    ).tally(data.encode())
    lines = data.split("\n")
    wanted = {word: sum(word in line for line in lines) for word in words}
    assert found.counts == {word: count for word, count in wanted.items() if count}


@pytest.mark.parametrize(
    ("pattern", "what"),
    [
        ("(abcd", "a bracket that is not closed"),
        ("abcd)", "a closing bracket without its opening one"),
        (r"(a*)*abcd", "a repeat of what may be empty"),
        ("abcd**", "a repeat of a repeat"),
        (r"(?=abcd)", "a kind of group that signatures do not have"),
        (r"abcd\1", "an escape that signatures do not have"),
        ("[z-a]bcde", "a range that runs backwards"),
        ("abcd{3,2}", "a repeat whose numbers run backwards"),
        ("abcd{1001}", "over 1000 repeats"),
        ("(?:[ab]{100}){100}abcd", "over 4000 steps"),
        ("(?P<x>abcd)(?P<x>e)", "the name of an earlier group"),
        (r"\d+", "no text of four bytes that every match contains"),
        ("abc", "no text of four bytes that every match contains"),
        ("abcd|x", "no text of four bytes that every match contains"),
        ("(?:" * 50 + "abcd" + ")" * 50, "nested over 40 deep"),
    ],
)
def test_patterns_that_are_refused(pattern: str, what: str) -> None:
    with pytest.raises(ValueError, match=re.escape(what)):
        known(it=pattern)


def test_the_texts_that_are_looked_for() -> None:
    compiled = _native.compile_signatures(
        [r"a(?:bcde|bxyz)\d+", r"x?longest text", r"\w+(?:some|other)? text: \d", r"[Ff]ailed to"]
    )
    assert _native.signature_literals(compiled) == [
        ["abcde", "abxyz"],
        ["longest text"],
        [" text: "],
        ["Failed to", "failed to"],
    ]


def test_lines_that_are_cut_already() -> None:
    signatures = known(closed=r"closed by (?P<who>\w+)", other="some other text")
    data = b"0: closed by a\n1: nothing\n2: closed by b some other text\n"
    begins = array.array("q", [3, 18, 26, 26, 0, -1, 10])
    ends = array.array("q", [14, 25, 56, 37, 6, 5, 10_000])
    compiled = _native.compile_signatures([one.pattern or "" for one in signatures.signatures])
    found = _native.scan_signature_lines(compiled, data, begins, ends)
    assert found == [(0, 0, {"who": "a"}), (2, 0, {"who": "b"}), (2, 1, {})]
    with pytest.raises(ValueError, match="as many ends as begins"):
        _native.scan_signature_lines(compiled, data, begins, ends[:2])


def test_lines_of_every_ending() -> None:
    hits = known(it=r"^known text$").find(b"known text\r\nxknown text\nknown text")
    assert [(hit.line_number, hit.offset, hit.text) for hit in hits] == [
        (1, 0, "known text"),
        (3, 24, "known text"),
    ]


def test_bytes_that_are_no_text() -> None:
    (hit,) = known(it=r"known (?P<x>\S+) text").find(b"\x00\xff\x1b[31m known \xfe\xed text\x00\n")
    assert hit.groups == {"x": "\udcfe\udced"}
    assert hit.text.startswith("\x00\udcff")


def test_a_long_line_is_looked_at_in_pieces() -> None:
    signatures = known(far=r"begin .*the end", near=r"known text (?P<n>\d+)")
    line = b"begin " + b"x" * 100_000 + b" known text 7 " + b"y" * 1_000_000 + b" the end"
    (hit,) = signatures.find(line)
    assert (hit.id, hit.groups, hit.offset) == ("near", {"n": "7"}, 100_007)
    assert len(hit.text) <= 8192


def test_hostile_text_takes_no_time() -> None:
    signatures = known(
        a=r"(?:x+x+)+y known text", b=r"(?:a|aa)+known text", c=r"\S+\S+\S+: known text"
    )
    line = b"x" * 4000 + b"a" * 4000 + b" known text"
    began = time.process_time()
    assert signatures.find((line + b"\n") * 50) == ()
    assert time.process_time() - began < 5


def test_only_so_many_hits_of_each() -> None:
    data = b"some known text\nsome other text\n" * 1000
    found = known(known="known text", other="other text").tally(data, each=3)
    assert [hit.line_number for hit in found.hits] == [1, 2, 3, 4, 5, 6]
    assert found.counts == {"known": 1000, "other": 1000}
    assert found.lines == 2000


@pytest.mark.parametrize("size", [1, 7, 64, 10_000])
def test_blocks_cut_anywhere_give_the_same(size: int) -> None:
    data = b"first line\nsome known text 1\r\n\nxx known text 2\nlast known text 3"
    signatures = known(known=r"known text (?P<n>\d)")
    blocks = [data[i : i + size] for i in range(0, len(data), size)]
    assert signatures.tally_blocks(blocks, each=2) == signatures.tally(data, each=2)


def test_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prose: Prose) -> None:
    monkeypatch.setattr(reader, "BLOCK_BYTES", 10)
    data = b"nothing\nsome known text\n"
    plain, packed = tmp_path / "plain", tmp_path / "packed.gz"
    plain.write_bytes(data)
    packed.write_bytes(gzip.compress(data))
    signatures = known(known="known text")
    assert hits(signatures, plain) == hits(signatures, packed)
    assert [hit.line_number for hit in hits(signatures, plain)] == [2]
    with pytest.raises(EvidenceError) as refused:
        hits(signatures, tmp_path / "missing")
    prose(refused.value)
    (tmp_path / "empty").touch()
    assert signatures.tally_file(str(tmp_path / "empty")).lines == 0


def test_a_file_without_line_ends_costs_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "LINE_BYTES", 100)
    pieces = list(reader._whole_lines([b"x" * 60] * 10))
    assert max(map(len, pieces)) <= 160
    assert sum(map(len, pieces)) == 600


@pytest.mark.parametrize("most", [4096, 2])
def test_what_is_in_a_line_is_the_same_each_time(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "_KEPT", most)
    signatures = known(one="known (?P<what>text|word)", other="word")
    lines = ["known text", "none", "known word", f"word{'x' * 600}", "none", "word", "known text"]
    said = [[(m.id, m.captures) for m in row] for row in signatures.matches(lines)]
    word = [("one", {"what": "word"}), ("other", {})]
    alone = [("other", {})]
    assert said == [[("one", {"what": "text"})], [], word, alone, [], alone, said[0]]
    for part in (lines, lines[2:], lines[::-1], [*lines, "new"], []):
        assert signatures.matches(part) == signatures.matches([*part, *["x"] * 100])[: len(part)]
    assert len(signatures._kept) <= max(most, len(lines))
    assert not any(len(text) > 500 for text in signatures._kept)
