"""What is told of an exception that the hook in a process has written down."""

import json
from pathlib import Path

from postmortem.run.raises import read_raises

USERS = {"file": "/job/train.py", "line": 23, "function": "train", "library": False}
OURS = {
    "file": "/x/postmortem/monitor/hooks.py", "line": 66, "function": "__call__", "library": True
}  # fmt: skip


def row(**more: object) -> dict[str, object]:
    told = {"time": 1.0, "pid": 7, "where": "main", "traceback": "…", "message": "m"}
    return {**told, "frames": [USERS, OURS], **more}


def test_frames_of_ours_go_from_what_we_raise_ourselves(tmp_path: Path) -> None:
    (tmp_path / "7-1.json").write_text(json.dumps(row(type="postmortem.NumericsError")))
    (tmp_path / "7-2.json").write_text(json.dumps(row(type="builtins.TypeError", time=2.0)))
    ours, fault = read_raises(tmp_path, [])
    assert [one.place for one in ours.frames] == ["train.py:23"]
    assert [one.place for one in fault.frames] == ["train.py:23", "hooks.py:66"], "a bug of ours"


def test_a_group_is_told_by_its_first_exception(tmp_path: Path) -> None:
    told = row(type="builtins.ExceptionGroup", message="two", inner="KeyError: 'k'")
    (tmp_path / "7-1.json").write_text(json.dumps(told))
    (one,) = read_raises(tmp_path, [])
    assert one.said == "KeyError: 'k' (in an ExceptionGroup)"
