"""Exception groups as trees, chains in full, and what another process raised."""

import sys
import traceback
from pathlib import Path
from typing import Any

import pytest

from builders.commands import execute
from builders.ranklogs import place_of, raised_first
from postmortem.analyses.ranklogs import RankLogOptions, analyse

pytestmark = pytest.mark.skipif(sys.version_info < (3, 11), reason="ExceptionGroup")

NESTED = """
try:
    raise ExceptionGroup("two uploads failed", [
        ValueError("part 3"),
        ExceptionGroup("mirror", [TimeoutError("s3"), OSError(5, "Input/output error")]),
    ])
except ExceptionGroup as group:
    raise RuntimeError("checkpoint not saved") from group
"""
CAUSE_INSIDE = """
def part():
    try:
        {}["lr"]
    except KeyError as error:
        raise ValueError("no rate") from error
try:
    part()
except ValueError as error:
    kept = error  # raised outside of the handler: Python writes the chain inside of the group
raise ExceptionGroup("tasks", [kept, OSError("x")])
"""


def tracebacks(tmp_path: Path, code: str) -> tuple[str, Any]:
    """Run a program of Python for real and return what it wrote, and our tracebacks of it."""
    ended = execute([sys.executable, "-c", code])
    (tmp_path / "job.err").write_text(ended.stderr)
    body: Any = analyse([str(tmp_path)], RankLogOptions()).body
    return ended.stderr, body["tracebacks"]


def names(part: Any) -> Any:
    return (part["exception"], [names(one) for one in part["parts"]])


def test_a_tree_and_what_was_raised_from_it(tmp_path: Path) -> None:
    text, found = tracebacks(tmp_path, NESTED)
    assert len(found) == 1
    assert (found[0]["exception"], found[0]["message"]) == ("RuntimeError", "checkpoint not saved")
    assert names(found[0]["group"]) == (
        "ExceptionGroup",
        [("ValueError", []), ("ExceptionGroup", [("TimeoutError", []), ("OSError", [])])],
    )
    assert [part["exception"] for part in found[0]["parts"]] == [
        "ValueError",
        "TimeoutError",
        "OSError",
    ]
    assert found[0]["text"] == text.rstrip("\n")


def test_causes_inside_of_a_group(tmp_path: Path) -> None:
    _, found = tracebacks(tmp_path, CAUSE_INSIDE)
    assert len(found) == 1
    group = found[0]["group"]
    assert found[0]["exception"] == "ExceptionGroup"
    assert names(group) == ("ExceptionGroup", [("ValueError", []), ("OSError", [])])
    assert [cause["exception"] for cause in group["parts"][0]["causes"]] == ["KeyError"]


def test_a_chain_is_kept_whole(tmp_path: Path) -> None:
    try:
        try:
            raise KeyError("lr")
        except KeyError as error:
            raise ValueError("no rate") from error
    except ValueError:
        text = traceback.format_exc()
    (tmp_path / "job.err").write_text(text)
    body: Any = analyse([str(tmp_path)], RankLogOptions()).body
    assert body["tracebacks"][0]["text"] == text.rstrip("\n")
    assert body["tracebacks"][0]["line"] == 1


LOADER = """\
[rank2]: Traceback (most recent call last):
[rank2]:   File "/job/train.py", line 17, in main
[rank2]:     for x in loader:
[rank2]:   File "/opt/venv/lib/python3.11/site-packages/torch/_utils.py", line 794, in reraise
[rank2]:     raise exception
[rank2]: ValueError: Caught ValueError in DataLoader worker process 0.
[rank2]: Original Traceback (most recent call last):
[rank2]:   File "/opt/venv/lib/python3.11/site-packages/torch/utils/data/worker.py", line 3, in l
[rank2]:     data = fetcher.fetch(index)
[rank2]:   File "/job/data.py", line 10, in __getitem__
[rank2]:     raise ValueError("x")
[rank2]: ValueError: sample 20 is corrupt
"""


def test_what_a_loader_process_raised_is_told(tmp_path: Path) -> None:
    (tmp_path / "job.out").write_text(LOADER)
    report = analyse([str(tmp_path)], RankLogOptions())
    body: Any = report.body
    assert len(body["tracebacks"]) == 1
    said = "ValueError: sample 20 is corrupt (caught ValueError in DataLoader worker process 0)"
    assert raised_first(report) == (2, said)
    assert place_of(report) == ("data.py", 10, "__getitem__")
    assert body["tracebacks"][0]["text"].count("Traceback") == 2


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ('[KeyError("a"), OSError("b")]', ["KeyError: 'a'", "OSError: b"]),
        ('[KeyError("a"), KeyError("a")]', ["KeyError: 'a'", "1 more"]),
        ('[KeyError("a"), KeyError("a"), OSError("b")]', ["KeyError: 'a'", "OSError: b", "1 more"]),
        ('[KeyError("a")]', ["KeyError: 'a'"]),
    ],
)
def test_the_second_error_of_a_group_is_told(tmp_path: Path, parts: str, said: list[str]) -> None:
    tracebacks(tmp_path, f'raise ExceptionGroup("tasks", {parts})')
    told = analyse([str(tmp_path)], RankLogOptions()).verdict.partition(" (in an ")[0]
    assert told.split(" and ") == said
