"""Logs of containers, whose lines are JSON objects that hold what was written."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from postmortem.analyses.ranklogs import RankLogOptions, analyse, analyse_and_split
from postmortem.readers.ranklogs.wrapped import is_wrapped, unwrapped

WROTE = [
    "step 1 loss 2.0",
    "step 2 loss 1.9",
    "Traceback (most recent call last):",
    '  File "/job/train.py", line 31, in step',
    "    raise Gone(shard)",
    "lumen.Gone: shard 3",
]


def docker(line: str) -> str:
    return json.dumps({"log": f"{line}\n", "stream": "stderr", "time": "2026-01-02T03:04:05.1Z"})


def cloud(line: str) -> str:
    return json.dumps({"textPayload": line, "severity": "INFO", "timestamp": "2026-01-02T03:04Z"})


@pytest.mark.parametrize("form", [docker, cloud])
@pytest.mark.parametrize("packed", [False, True])
def test_what_was_written_is_read(tmp_path: Path, form: Any, packed: bool) -> None:
    data = "".join(f"{form(line)}\n" for line in WROTE).encode()
    path = tmp_path / ("c-json.log.gz" if packed else "c-json.log")
    path.write_bytes(gzip.compress(data) if packed else data)
    body: Any = analyse([str(path)], RankLogOptions()).body
    assert body["first_failure"]["what"] == "lumen.Gone: shard 3"
    assert body["first_failure"]["line"] == 6


def test_ranks_are_split_as_they_wrote(tmp_path: Path) -> None:
    lines = [f"[rank{n % 2}]: step {n} loss 2.0" for n in range(40)]
    path = tmp_path / "c-json.log"
    path.write_text("".join(f"{docker(line)}\n" for line in lines))
    analyse_and_split([str(path)], str(tmp_path / "split"), RankLogOptions())
    told = [one.read_text() for one in sorted((tmp_path / "split").iterdir())]
    assert [text.count("\n") for text in told if text.startswith("step ")] == [20, 20]


def test_records_of_a_logger_stay_as_they_are() -> None:
    record = b'{"level": "info", "message": "step 1", "log": 3}\n'
    assert not is_wrapped(record * 3)
    assert not is_wrapped(b'{"log": "step 1"}\n')  # by whom it was taken down, nothing says
    assert not is_wrapped(docker("step 1").encode()[:-1])
    assert is_wrapped(f"{docker('step 1')}\n".encode())


def test_lines_are_joined_over_pieces() -> None:
    data = "".join(f"{docker(line)}\n" for line in WROTE).encode() + b"torn {\n" + b'{"log": "a'
    pieces = [data[at : at + 7] for at in range(0, len(data), 7)]
    told = b"".join(unwrapped(pieces)).decode().split("\n")
    assert told == [*WROTE, "torn {", '{"log": "a', ""]
