"""Parts of `postmortem run` that need no command: environments, sizes, what processes wrote."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from builders.prose import Prose
from postmortem.run.environment import HOOK, evidence_variables, with_hook, without_ours
from postmortem.run.family import box_of
from postmortem.run.raises import read_raises
from postmortem.text import parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1M", 1 << 20),
        ("100G", 100 << 30),
        ("1.5T", 3 << 39),
        ("512MiB", 512 << 20),
        ("2gb", 2 << 30),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "G", "0", "1K", "-1G", "nan", "inf", "1e99T", "1Q"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises((ValueError, OverflowError)):
        parse_size(text)


def test_variables_of_the_user_are_kept(tmp_path: Path) -> None:
    env = {"NCCL_DEBUG": "INFO", "CUDA_COREDUMP_FILE": "x", "PYTHONPATH": "/a:/b"}
    found = evidence_variables(env, tmp_path, 1)
    assert not {"NCCL_DEBUG", "NCCL_DEBUG_FILE"} & set(found.added)
    assert not any(name.startswith("CUDA_") for name in found.added)
    assert found.added["PYTHONPATH"] == f"{HOOK}:/a:/b"
    assert found.kept == ("NCCL_DEBUG",)


def test_our_variables_can_be_taken_out_again(tmp_path: Path) -> None:
    env = {"HOME": "/h", "PYTHONPATH": "/a"}
    added = evidence_variables(env, tmp_path, 1).added
    assert without_ours({**env, **added}, added) == env
    added = evidence_variables({}, tmp_path, 1).added
    assert without_ours(dict(added), added) == {}


def test_an_empty_pythonpath_does_not_gain_the_working_directory() -> None:
    assert with_hook(None) == str(HOOK)
    assert with_hook("") == str(HOOK)
    assert with_hook(with_hook("/a")) == f"{HOOK}:/a"


GOOD = {"time": 2.0, "pid": 7, "traceback": "Traceback…", "type": "builtins.KeyError"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        json.dumps(GOOD)[:-4],
        json.dumps({**GOOD, "time": "2"}),
        json.dumps({**GOOD, "pid": None}),
        json.dumps({**GOOD, "traceback": 5}),
        "[" * 100_000,
        "\xff\x00",
    ],
)
def test_a_raise_that_is_damaged_is_a_problem(text: str, tmp_path: Path, prose: Prose) -> None:
    (tmp_path / "7-1.json").write_text(text)
    problems: list[str] = []
    assert read_raises(tmp_path, problems) == []
    prose(*problems)


def test_a_raise_with_odd_fields_is_read(tmp_path: Path) -> None:
    odd = {"frames": [5, {"file": 3, "line": "x", "locals": {"a": 1}}], "rank": "1", "where": None}
    (tmp_path / "7-1.json").write_text(json.dumps({**GOOD, **odd}))
    (found,) = read_raises(tmp_path, [])
    assert (found.rank, found.where, found.said) == (None, "main", "KeyError")
    (frame,) = found.frames
    assert (frame.place, frame.values) == ("?:0", (("a", "1"),))


def test_raises_are_in_the_order_of_time(tmp_path: Path) -> None:
    for number, when in enumerate((3.0, 1.0, 2.0)):
        (tmp_path / f"{number}-1.json").write_text(json.dumps({**GOOD, "time": when}))
    assert [one.time for one in read_raises(tmp_path, [])] == [1.0, 2.0, 3.0]


def hooked(folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    """Run a program with the hook, and nobody to hear it."""
    for part in ("box", "raises"):
        (folder / part).mkdir(exist_ok=True)
    env = {**os.environ, "POSTMORTEM_RUN": str(folder), "POSTMORTEM_DEBUG": "1"}
    env["PYTHONPATH"] = with_hook(env.get("PYTHONPATH"))
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=env, check=False
    )


def test_box_of_a_crash_has_its_python_stack(tmp_path: Path) -> None:
    program = (
        "import ctypes, os, resource\nresource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"
        "print(os.getpid(), flush=True)\ndef boom(): ctypes.string_at(8)\nboom()"
    )
    pid = int(hooked(tmp_path, program).stdout)
    facts, printed, _ = box_of(tmp_path, pid)
    assert facts["pid"] == str(pid)
    assert "in boom" in printed


def test_box_of_a_forked_child_is_its_own(tmp_path: Path) -> None:
    program = (
        "import ctypes, os, resource\nresource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"
        "pid = os.fork()\nif not pid:\n    ctypes.string_at(8)\nos.wait(); print(os.getpid(), pid)"
    )
    parent, child = map(int, hooked(tmp_path, program).stdout.split())
    assert "Segmentation fault" in box_of(tmp_path, child)[1]
    assert box_of(tmp_path, parent)[1] == ""
    assert box_of(tmp_path, child)[0]["ppid"] == str(parent)


def test_box_that_is_no_box(tmp_path: Path) -> None:
    (tmp_path / "box").mkdir()
    (tmp_path / "box" / "9-1.box").write_bytes(b"\xff\n\xfe no\n\n" * 9)
    assert box_of(tmp_path, 9)[1] == ""
    assert box_of(tmp_path, 10)[:2] == ({}, "")


def test_hook_without_its_folder_is_silent(tmp_path: Path) -> None:
    done = hooked(tmp_path / "..", "print(1)")
    assert (done.stdout, done.stderr) == ("1\n", "")
    env = {**os.environ, "POSTMORTEM_RUN": "/nonexistent", "PYTHONPATH": str(HOOK)}
    words = [sys.executable, "-c", "1/0"]
    bare = subprocess.run(words, capture_output=True, check=False)
    done2 = subprocess.run(words, capture_output=True, env=env, check=False)
    assert (done2.returncode, done2.stderr) == (bare.returncode, bare.stderr)


def test_hook_masks_at_once_what_is_named_like_a_secret(tmp_path: Path) -> None:
    program = (
        "def f(api_key, n):\n    data = {'password': 'pw-1234567', 'n': n}\n    1/0\nf('k-9', 2)"
    )
    hooked(tmp_path, program)
    (path,) = (tmp_path / "raises").iterdir()
    text = path.read_text()
    assert "k-9" not in text.replace("f('k-9', 2)", "")
    assert "pw-1234567" not in text
    assert json.loads(text)["frames"][-1]["locals"]["n"] == "2"


def test_hook_runs_no_code_of_the_program(tmp_path: Path) -> None:
    program = (
        "class Loud(list):\n    def __repr__(self): print('repr')\n"
        "    def __len__(self): print('len'); return 1\n"
        "    def __iter__(self): print('iter'); return iter(())\n"
        "    def __getattr__(self, name): print(name)\n"
        "def f(x): 1/0\nf(Loud())"
    )
    done = hooked(tmp_path, program)
    assert done.stdout == ""
    (path,) = (tmp_path / "raises").iterdir()
    assert json.loads(path.read_text())["frames"][-1]["locals"] == {"x": "__main__.Loud object"}
