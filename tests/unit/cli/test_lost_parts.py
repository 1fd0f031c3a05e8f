"""What could not be read beside what could, where paths begin oddly, where options stand."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from builders.checkpoints import floats, safetensors
from builders.commands import run_here
from postmortem.cli.main import main

LOG = "epoch 0 loss 1.2\nTraining finished successfully\n"
CALLS = (
    '7 10:00:00.1 execve("/bin/x", ["x"], 0x1 /* 3 vars */) = 0\n7 10:00:00.2 exit_group(0) = ?\n'
)
CALLS += "7 10:00:00.3 +++ exited with 0 +++\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "-good.log").write_text(LOG)
    (tmp_path / "good.log").write_text(LOG)
    (tmp_path / "good.strace").write_text(CALLS)
    (tmp_path / "good.safetensors").write_bytes(safetensors({"w": ("F32", [1], floats(1))}))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def answer(*words: str, code: int = 0) -> dict[str, Any]:
    done = run_here(*words)
    assert (done.returncode, done.stderr) == (code, "")
    document: dict[str, Any] = json.loads(done.stdout)
    return document


@pytest.mark.parametrize(
    ("command", "name", "code"),
    [
        ("logs", "good.log", 0),
        ("strace", "good.strace", 0),
        ("triage", "good.log", 0),
        ("scan", "good.safetensors", 1),  # a checkpoint of which a file is missing cannot be loaded
    ],
)
def test_a_name_that_is_not_there_costs_itself_alone(
    command: str, name: str, code: int, folder: Path
) -> None:
    whole = answer(command, name, "--json")
    assert (whole["outcome"], whole["problems"]) == ("healthy", [])
    document = answer(command, name, "gone", "--json", code=code)
    assert document["outcome"] == ("failed" if code else "unknown")
    assert [row["where"] for row in document["problems"]] == ["gone"]
    assert main([command, "gone", "gone2"]) == 3


def test_a_file_of_another_kind_costs_itself_alone(folder: Path) -> None:
    document = answer("strace", "good.log", "good.strace", "--json")
    assert [row["where"] for row in document["problems"]] == ["good.log"]
    assert document["processes"][0]["pid"] == 7


def test_a_name_may_begin_with_a_dash(folder: Path) -> None:
    assert answer("triage", "--json", "--", "-good.log")["evidence"][0]["used"]


@pytest.mark.parametrize("words", [["--json", "logs"], ["-o", "-", "--json", "logs"], ["--json"]])
def test_options_may_stand_before_the_command(words: list[str], folder: Path) -> None:
    assert answer(*words, "good.log")["verdict"]


def test_a_process_that_is_not_in_the_log_is_not_called_well(folder: Path) -> None:
    assert main(["strace", "good.strace", "--pid", "7"]) == 0
    assert main(["strace", "good.strace", "--pid", "8"]) == 3
    assert main(["strace", "good.strace", "--pid", "-7"]) == 2


@pytest.mark.parametrize("words", [["--html", "-"], ["-o", "x", "--html", "x"]])
def test_a_page_needs_a_file_of_its_own(words: list[str], folder: Path) -> None:
    assert main(["logs", "good.log", *words]) == 2
    assert not (folder / "-").exists()


def test_standard_output_by_its_path(folder: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "postmortem",
        "logs",
        "good.log",
        "--json",
        "-o",
        "/dev/stdout",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert json.loads(done.stdout)["verdict"]


def test_quiet_does_not_hide_what_was_not_read(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["logs", "good.log", "-q"])
    whole = capsys.readouterr().out
    main(["logs", "good.log", "gone", "-q"])
    assert capsys.readouterr().out != whole


def closed(words: str, streams: str) -> subprocess.CompletedProcess[str]:
    command = ["bash", "-c", f"'{sys.executable}' -m postmortem {words} {streams}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_standard_streams_that_are_closed(folder: Path) -> None:
    assert closed("import json -q", "<&-").returncode == 0
    assert closed("run -- sh -c 'exit 7'", ">&-").returncode == 7
    assert closed("run -- sh -c 'exit 7'", "<&- >&- 2>&-").returncode == 7
    assert closed("strace good.strace --calls -", ">&-").returncode == 3
    ends = {closed(words, "<&-").stderr for words in ("logs -", "core - --slim out")}
    assert len(ends) == 1  # closed, not empty
    document = closed("logs good.log --json --split parts", "2>&-")
    assert json.loads(document.stdout)["kind"] == "logs"


def test_no_nodes_are_a_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    assert main(["fleet", "doctor"]) == 2
