"""The processes of a command, as they come and go."""

import json
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from postmortem.run.family import Family, write_error_file

PARENT = """
import os
child = os.fork() or os._exit(3)
print(child, flush=True)
input()
"""


def test_who_has_ended_does_not_begin_again_where_its_parent_does_not_wait_for_it() -> None:
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", PARENT]
    with (
        subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as parent,
        select.epoll() as poll,
    ):
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        family = Family(parent.pid, poll)
        family.scan()
        ((descriptor, _),) = poll.poll(60)
        member = family.of_descriptor(descriptor)
        assert member is not None
        family.ends(member)
        family.scan()
        assert [one.code for one in family.everyone() if one.pid == child] == [3]
        parent.communicate("\n")
        family.forget()


def test_an_error_file_is_there_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent that finds half of it raises itself, and writes no summary."""
    path, seen = tmp_path / "error.json", []
    dump = json.dump

    def slow(*args: Any) -> None:
        seen.append(path.exists())
        dump(*args)

    monkeypatch.setattr(json, "dump", slow)
    write_error_file(path, tmp_path / "ours", "rank 1 was killed", 1.0)
    assert seen == [False]
    assert json.loads(path.read_text())["message"]["message"] == "rank 1 was killed"
    write_error_file(path, tmp_path / "ours", "later", 2.0)
    assert "later" not in path.read_text()
    assert [*tmp_path.iterdir()] == [path]
