"""What is left of gdb's answer when gdb hangs, dies or lies half-way."""

import re
import time
from pathlib import Path

import pytest

from builders.prose import Prose
from postmortem.readers.gdb.find import Gdb
from postmortem.readers.gdb.stacks import GdbStacks, read_stacks

from .conftest import FakeGdb, group_is_gone

# What our script in gdb's Python would write: two threads, and a third that was cut.
_PARTIAL = r"""
def write_answer():
    with open("answer.jsonl", "w") as file:
        file.write('{"kind": "start", "threads": 3}\n')
        for tid in (7, 8):
            frame = {"pc": 4096 + tid, "name": "work", "file": "/w.c", "line": 3, "module": "/m"}
            frame["arguments"] = [["x", "1"]]
            thread = {"kind": "thread", "tid": tid, "name": None, "current": tid == 7}
            file.write(json.dumps(dict(thread, frames=[frame], stopped=None)) + "\n")
        file.write('{"kind": "thread", "tid": 9, "fra')
"""


def read(path: str, tmp_path: Path, seconds: float = 20.0, **options: object) -> GdbStacks:
    core = tmp_path / "a core"
    core.touch()
    arguments: dict[str, object] = {
        "executable": None,
        "load": None,
        "sysroot": None,
        "pcs": {},
        "tid": None,
        "with_locals": False,
        "deadline_seconds": seconds,
    }
    gdb = Gdb(path=path, version=(12, 3), version_text="GNU gdb 12.3")
    return read_stacks(str(core), gdb=gdb, **(arguments | options))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "last_act", ["time.sleep(1000)", "os.kill(os.getpid(), signal.SIGKILL)", "sys.exit(1)"]
)
def test_threads_told_before_the_end_are_kept(
    fake_gdb: FakeGdb, tmp_path: Path, last_act: str, prose: Prose
) -> None:
    path = fake_gdb(
        _PARTIAL
        + f"""
for token, command in commands():
    if "inside.py" in command:
        write_answer()
        {last_act}
    answer(token, command)
"""
    )
    began = time.monotonic()
    stacks = read(path, tmp_path, 4.0)
    assert time.monotonic() - began < 40
    assert [thread.tid for thread in stacks.threads] == [7, 8]
    assert stacks.threads[0].current
    assert stacks.threads[0].frames[0].arguments == (("x", "1"),)
    assert not stacks.complete
    first, second = stacks.problems
    prose(first.what)
    assert first.remedy is not None
    prose(second.what)


def test_hanging_before_the_first_answer_gives_a_problem_and_no_threads(
    fake_gdb: FakeGdb, tmp_path: Path
) -> None:
    path = fake_gdb(
        """
        with open(os.environ["SEEN"], "w") as file:
            file.write(str(os.getpgrp()))
        time.sleep(1000)
        """
    )
    seen = tmp_path / "seen"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEEN", str(seen))
        stacks = read(path, tmp_path, 1.0)
    assert stacks.threads == ()
    assert not stacks.complete
    assert "in time (1 s)" in stacks.problems[0].what
    assert group_is_gone(int(seen.read_text()))


def test_full_disk_is_a_problem_and_no_exception(
    fake_gdb: FakeGdb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prose: Prose
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    stacks = read(fake_gdb("pass"), tmp_path)
    assert not stacks.complete
    assert "No such file or directory" in stacks.problems[0].what
    prose(stacks.problems[0].remedy)


def test_core_that_gdb_refuses_is_a_problem(fake_gdb: FakeGdb, tmp_path: Path) -> None:
    path = fake_gdb(
        r"""
        for token, command in commands():
            if command.startswith("-target-select"):
                say(token + '^error,msg="not a core dump: file format not recognized"')
            else:
                answer(token, command)
        """
    )
    stacks = read(path, tmp_path)
    assert not stacks.complete
    assert "file format not recognized" in stacks.problems[0].what


def test_nonsense_from_the_script_is_counted_and_the_rest_kept(
    fake_gdb: FakeGdb, tmp_path: Path, prose: Prose
) -> None:
    path = fake_gdb(
        _PARTIAL
        + r"""
for token, command in commands():
    if "inside.py" in command:
        write_answer()
        with open("answer.jsonl", "a") as file:
            file.write('\n[1]\n{"kind": "thread"}\n{"kind": "lines", "items": [[1]]}\n\x00\n')
    answer(token, command)
"""
    )
    stacks = read(path, tmp_path)
    assert len(stacks.threads) == 2
    assert not stacks.complete
    prose(*[problem.what for problem in stacks.problems])


def test_progress_is_told_in_words_after_two_seconds(
    fake_gdb: FakeGdb, tmp_path: Path, prose: Prose
) -> None:
    path = fake_gdb(
        """
        for token, command in commands():
            if command.startswith("-target-select"):
                time.sleep(2.6)
            answer(token, command)
        """
    )
    words: list[str] = []
    read(path, tmp_path, load={"/a.so": 0x1000, "/b.so": 0x2000}, progress=words.append)
    assert words
    prose(re.sub(r"\d+ s\b", "N s", words[0]))


def test_nothing_is_said_when_it_is_quick(fake_gdb: FakeGdb, tmp_path: Path) -> None:
    path = fake_gdb("for token, command in commands(): answer(token, command)")
    words: list[str] = []
    began = time.monotonic()
    read(path, tmp_path, progress=words.append)
    assert words == [] or time.monotonic() - began > 2, "a slow machine is told of"


def test_temporary_files_are_gone_afterwards(
    fake_gdb: FakeGdb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    read(fake_gdb("sys.exit(1)"), tmp_path)
    assert list(folder.iterdir()) == []


def test_warnings_about_the_evidence_are_told_and_the_harmless_ones_not(
    fake_gdb: FakeGdb, tmp_path: Path
) -> None:
    path = fake_gdb(
        r"""
        for token, command in commands():
            if command.startswith("-target-select"):
                say('&"warning: Section `.reg-xstate/1\' in core file too small.\\n"')
                say('&"warning: "')
                say('&"core file may not match specified executable file.\\n"')
            answer(token, command)
        """
    )
    told = [problem.what for problem in read(path, tmp_path).problems]
    assert told == ["core file may not match specified executable file."]


def test_gdb_without_a_working_python_tells_nothing_and_why(
    fake_gdb: FakeGdb, tmp_path: Path, prose: Prose
) -> None:
    path = fake_gdb(
        r"""
        for token, command in commands():
            if "inside.py" in command:
                say('&"Python Exception <class \'ImportError\'>: No module named json\\n"')
                say(token + '^error,msg="Error while executing Python code."')
            else:
                answer(token, command)
        """
    )
    stacks = read(path, tmp_path)
    prose(stacks.problems[0].what)
    assert "--gdb" in str(stacks.problems[0].remedy)
    assert not stacks.complete
    assert stacks.threads == ()
