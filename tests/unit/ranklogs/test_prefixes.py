"""Whose a line is: every launcher's form, stacked, against a writer that knows."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders.ranklogs import FORMS, mixed
from postmortem import _native
from postmortem.readers.ranklogs.known_lines import keep_literals

WORDS = st.text("abcdefgh ijkl.-_/", min_size=1, max_size=30).map(str.strip)


def read(text: str | bytes, **options: int) -> tuple[_native.RawRankLog, dict[int, list[str]]]:
    """Return what the reader says of a text, and the clean lines of each label."""
    data = text.encode() if isinstance(text, str) else text
    pieces = iter(
        [data[i : i + 37] for i in range(0, len(data), 37)] if len(data) < 4000 else [data]
    )
    clean: dict[int, bytes] = {}

    def sink(label: int, piece: bytes) -> None:
        clean[label] = clean.get(label, b"") + piece

    raw = _native.read_ranklog(lambda: next(pieces, b""), keep_literals(), sink=sink, **options)
    return raw, {label: text.decode().splitlines() for label, text in clean.items()}


def rank_of(label: _native.RawRankLabel, per_host: int) -> int:
    """Return the rank that a label means, by the numbering of the writer."""
    if label["rank"] is not None:
        return label["rank"]
    if label["local"] is None:
        assert label["task"] is not None
        return label["task"]
    host = "".join(c for c in (label["host"] or "").partition(".")[0] if c.isdigit())
    return int(host) * per_host + label["local"]


@pytest.mark.parametrize("form", sorted(FORMS))
@settings(max_examples=40)  # of each of 17 forms, all of which one reader takes
@given(
    texts=st.lists(st.lists(WORDS, min_size=2, max_size=6), min_size=2, max_size=9),
    seed=st.integers(0, 999),
)
def test_each_rank_gets_its_own_lines(form: str, texts: list[list[str]], seed: int) -> None:
    per_host = 2
    texts = [[f"step {word}" for word in text] for text in texts]
    raw, clean = read(mixed(texts, form, per_host=per_host, seed=seed))
    found: dict[int, list[str]] = {}
    for index, label in enumerate(raw["labels"]):
        if label["lines"]:
            found[rank_of(label, per_host)] = clean[index]
    assert found == dict(enumerate(texts))


@pytest.mark.parametrize(
    "line",
    [
        "[train.py:45]: loss 0.3",
        "[12:30:45]: started",
        "12: the twelfth item of a list",
        "INFO: ready",
        "(see pid=12)x no prefix",
        "[INFO]: ready",
        "[c10d] warning",
        "rank3: a word",
        "[rankx]: no",
        "[1,x]<stderr>:",
        "fatal: [node1]: UNREACHABLE!",
    ],
)
def test_a_single_line_makes_no_grammar(line: str) -> None:
    raw, clean = read("\n".join(["plain text of a program"] * 20 + [line]) + "\n")
    assert [label["lines"] for label in raw["labels"]] == [21]
    assert clean[0][-1] == line


def test_a_numbered_list_is_no_srun() -> None:
    lines = [f"{i}: item {i}" for i in range(40)]
    raw, clean = read("\n".join(lines))
    assert raw["grammar"] == ()
    assert clean[0] == lines


@pytest.mark.parametrize(
    ("numbers", "grammar"), [((0, 1), ()), ((8, 9, 10), ("srun",)), ((3, 3, 3, 3), ("srun",))]
)
def test_labels_that_all_have_blanks_before_them_come_again(
    numbers: tuple[int, ...], grammar: tuple[str, ...]
) -> None:
    raw, _ = read("\n".join(["Error: no shard", *(f"{number:2}: words" for number in numbers)]))
    assert raw["grammar"] == grammar


@pytest.mark.parametrize("by", [1, 10])
def test_steps_that_are_counted_up_are_no_tasks(by: int) -> None:
    lines = [f"{by * step}: loss {n}.5" for step in range(200) for n in range(5)]
    raw, _ = read("\n".join(lines))
    assert raw["grammar"] == ()
    assert len(raw["labels"]) == 1


def test_many_tasks_that_write_in_turns_are_tasks() -> None:
    lines = [f"{task:3}: step {n} loss 2.5" for n in range(5) for task in range(200)]
    raw, _ = read("\n".join(lines))
    assert {label["task"] for label in raw["labels"]} >= set(range(200))


def test_srun_is_recognised_below_a_long_setup() -> None:
    setup = [f"module load number {i}" for i in range(60)]
    ranks = [f"{i % 4}: step {i}" for i in range(40)]
    raw, _ = read("\n".join([*setup, *ranks]))
    assert raw["grammar"] == ("srun",)
    assert [label["lines"] for label in raw["labels"]] == [60, 10, 10, 10, 10]


def test_an_empty_line_of_a_rank_is_its_own() -> None:
    raw, clean = read("0: a\n1: b\n0: \n0:\n1: c\n0: d\n")
    assert clean == {1: ["a", "", "", "d"], 2: ["b", "c"]}
    assert raw["labels"][1]["task"] == 0


def test_a_traceback_behind_a_progress_bar_is_found() -> None:
    bar = "Epoch 1:  50%|#####     | 5/10\rEpoch 1:  60%|######    | 6/10"
    raw, _ = read(
        f'{bar}Traceback (most recent call last):\n  File "a.py", line 1, in f\nKeyError: 1\n'
    )
    (region,) = raw["regions"]
    texts = [row[2] for row in region[3]]
    assert "Traceback (most recent call last):" in texts
    assert texts[-1] == "KeyError: 1"


def test_escapes_and_controls_are_taken_out() -> None:
    raw, clean = read(
        b"\x1b[31m[rank0]: red\x1b[0m\x07\r\n\x1b]0;title\x07[rank0]: \x1b(B\x1b[1mbold\n"
    )
    assert clean == {1: ["red", "bold"]}
    assert raw["labels"][1]["rank"] == 0


@given(data=st.binary(max_size=3000), block=st.integers(16, 300), sample=st.integers(16, 300))
def test_any_bytes_are_read(data: bytes, block: int, sample: int) -> None:
    pieces = iter([data])
    raw = _native.read_ranklog(
        lambda: next(pieces, b""),
        keep_literals(),
        block_bytes=block,
        sample_bytes=sample,
        kept_bytes=2000,
    )
    assert raw["bytes"] == len(data)
    assert sum(label["lines"] for label in raw["labels"]) >= raw["lines"]
    for label, _, _, rows, *_ in raw["regions"]:
        assert label < len(raw["labels"])
        assert rows


def test_a_line_of_megabytes_is_read_in_part() -> None:
    data = b"[rank0]: " + b"x" * (3 << 20) + b"\n[rank0]: Traceback (most recent call last):\n"
    pieces = iter([data])
    raw = _native.read_ranklog(lambda: next(pieces, b""), keep_literals())
    assert raw["cut_lines"] == 1
    assert raw["labels"][1]["lines"] == 2
    assert len(raw["regions"]) == 1


def test_what_is_kept_is_bounded() -> None:
    traceback = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\nKeyError: 1\n'
    filler = "plain\n" * 8
    raw, _ = read("".join(f"[rank0]: {line}\n" for line in (traceback + filler).splitlines()) * 500)
    assert len(raw["regions"]) == 48
    assert raw["left_out"] == 452
    lines = [region[3][0][0] for region in raw["regions"]]
    assert lines[0] == 1
    assert lines[-1] == 499 * 11 + 1


def test_what_stands_behind_a_head_that_was_seen_before_is_read_again() -> None:
    texts = [f"step {i}" for i in range(3)]
    lines = []
    for text in texts:
        for node in ("node1", "node2"):
            lines += [f"{node}: agent {text}"] * 8 + [f"{node}: [rank{node[-1]}]: {text}"]
    raw, clean = read("\n".join(lines) + "\n")
    found = {(label["host"], label["rank"]): clean.get(i) for i, label in enumerate(raw["labels"])}
    del found[(None, None)]
    agents = [f"agent {text}" for text in texts for _ in range(8)]
    assert found == {
        ("node1", None): agents,
        ("node1", 1): texts,
        ("node2", None): agents,
        ("node2", 2): texts,
    }


def test_an_empty_line_of_rays_is_its_workers_too() -> None:
    raw, _ = read("plain\n(Lumen pid=4711) a step\n(Lumen pid=4711)\nplain\n")
    assert [(x["pid"], x["lines"]) for x in raw["labels"]] == [(None, 2), (4711, 2)]


def test_behind_a_bar_without_a_prefix_a_line_is_that_ranks() -> None:
    bar = "  0%|          | 0/8 [00:00<?, ?it/s]"
    raw, texts = read(
        f"a\n{bar}[rank0]: Traceback (most recent call last):\n[rank0]: KeyError: 1\n"
    )
    assert [(x["rank"], texts[k]) for k, x in enumerate(raw["labels"])] == [
        (None, ["a", bar]),
        (0, ["Traceback (most recent call last):", "KeyError: 1"]),
    ]


def headed(head: str, order: list[int]) -> set[int | None]:
    """Return the ranks of a log in which `head`, with a number, stands before each line."""
    lines = [f"{head.format(number)}loss {i}.5" for i, number in enumerate(order)]
    frames = ["Traceback (most recent call last):", '  File "a.py", line 3, in f', "    g()"]
    lines += [f"{head.format(number)}{line}" for number in order[:4] for line in frames]
    raw, _ = read("\n".join(lines) + "\n")
    return {label["rank"] for label in raw["labels"] if label["lines"]}


@pytest.mark.parametrize(
    "head", ["GPU {}: ", "worker {}: ", "({}) ", "[R{}] ", "[trainer-{}] ", "<{}> ", "[0]:[{}]: "]
)
def test_a_number_in_a_head_of_any_form_is_a_rank(head: str) -> None:
    assert headed(head, [0, 1, 2, 3] * 5) == {0, 1, 2, 3}


@pytest.mark.parametrize("head", ["thread {}: ", "<step {}> ", "(03:11:{}) ", "[7.{}] "])
def test_a_number_of_steps_threads_and_times_is_no_rank(head: str) -> None:
    assert headed(head, [0, 1, 2, 3] * 5) == {None}


def test_a_number_that_only_rises_is_no_rank() -> None:
    assert headed("(pass {}) ", [0] * 5 + [1] * 5 + [2] * 5 + [3] * 5) == {None}


def test_the_streams_of_gitlab_are_no_ranks() -> None:
    said = ["Traceback (most recent call last):", '  File "a.py", line 3, in f', "KeyError: 1"]
    lines = [f"2026-01-02T03:04:05.123456Z 0{n % 2}{'EO'[n % 2]} {said[n % 3]}" for n in range(24)]
    raw, texts = read("\n".join(lines) + "\n")
    assert [label["rank"] for label in raw["labels"]] == [None]
    assert texts[0][:3] == said


def test_a_rank_among_fields_of_a_worker() -> None:
    raw, _ = read("".join(f"(task, rank={rank}, pid=441{rank}) step\n" for rank in (0, 1, 0, 1)))
    assert {label["rank"] for label in raw["labels"] if label["lines"]} == {0, 1}
