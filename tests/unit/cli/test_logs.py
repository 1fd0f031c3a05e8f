"""``postmortem logs`` as a user calls it."""

import gzip
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from builders.commands import run_here
from builders.prose import Prose
from builders.schema import validate
from postmortem.cli.main import main

RAISED = (
    "[node0:0]:[rank0]: Traceback (most recent call last):\n"
    '[node0:0]:[rank0]:   File "/job/train.py", line 31, in step\n'
    "[node0:0]:[rank0]: RuntimeError: Connection closed by peer [10.0.0.2]:2434.\n"
    "[node0:1]:[rank1]: Traceback (most recent call last):\n"
    '[node0:1]:[rank1]:   File "/job/data.py", line 7, in load\n'
    "[node0:1]:[rank1]: ValueError: <b>bad</b> \x1b[31mrow\x1b[0m\n"
)

INDENTED = "ValueError: <b>bad</b> row"


def run(*words: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Return exit code, standard output and standard error of a command."""
    code = main(["logs", *words])
    out, err = capsys.readouterr()
    return code, out, err


def test_json_keeps_the_contract(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "job.out"
    log.write_text(RAISED)
    code, out, _ = run(str(log), "--json", capsys=capsys)
    document: dict[str, Any] = json.loads(out)
    validate(document)
    assert code == 1
    assert document["kind"] == "logs"
    first = document["first_failure"]
    assert first == {
        "label": "node0:1",
        "rank": 1,
        "host": "node0",
        "what": "ValueError: <b>bad</b> row",
        "means": None,
        "file": str(log),
        "line": 6,
        "confidence": "certain",
        "ranks": [1],
    }
    assert document["candidates"] == []
    assert [victim["rank"] for victim in document["victims"]] == [0]
    assert document["diagnoses"][0]["id"] == "rank_raised"
    assert "\x1b" not in out


@pytest.mark.parametrize("form", [[], ["--markdown"], ["-v"]])
def test_reports_say_it_first(
    form: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "job.out"
    log.write_text(RAISED)
    code, out, _ = run(str(log), *form, capsys=capsys)
    assert code == 1
    assert "rank 1 on node0 failed first: ValueError" in " ".join(out.splitlines()[:3])
    assert "\x1b" not in out
    if form == ["--markdown"]:  # as code, which no renderer of Markdown obeys
        assert "<b>" not in out.replace("`<b>bad</b>`", "").replace(INDENTED, "")


def test_exit_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str], prose: Prose) -> None:
    healthy = tmp_path / "ok.out"
    healthy.write_text("[rank0]: step 1\n[rank1]: step 1\n")
    assert run(str(healthy), capsys=capsys)[0] == 0
    failed = tmp_path / "bad.out"
    failed.write_text(RAISED)
    assert run(str(failed), "--exit-zero", capsys=capsys)[0] == 0
    code, _, err = run(str(tmp_path / "none.out"), capsys=capsys)
    assert code == 3
    prose(err)
    assert run(str(healthy), "--world-size", "0", capsys=capsys)[0] == 2
    assert run(capsys=capsys)[0] == 2


def test_what_is_no_log_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, data in {"core": b"\x7fELF\0\0\n" * 50, "zero": bytes(4096), "empty": b""}.items():
        path = tmp_path / name
        path.write_bytes(data)
        code, out, err = run(str(path), capsys=capsys)
        assert code == 3, name
        assert out == ""
        assert err.startswith("postmortem: ")
        assert "Traceback" not in err
    assert run(str(tmp_path / "nothing-here"), capsys=capsys)[0] == 3


def test_packed_logs_and_standard_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    packed = tmp_path / "job.out.gz"
    packed.write_bytes(gzip.compress(RAISED.encode()))
    code, out, _ = run(str(packed), "--json", capsys=capsys)
    assert code == 1
    assert json.loads(out)["first_failure"]["rank"] == 1
    assert json.loads(out)["inputs"][0]["compression"] == "gzip"
    command = [sys.executable, "-m", "postmortem", "logs", "-", "--json"]
    piped = subprocess.run(command, input=RAISED.encode(), capture_output=True, check=False)
    assert piped.returncode == 1
    assert json.loads(piped.stdout)["first_failure"]["rank"] == 1


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[  24.106350] NVRM: Xid (PCI:0000:61:00): 79, pid=9, GPU is gone\n", "kernel_log_notes"),
        ('[{"textPayload": "RuntimeError: bad row", "severity": "ERROR"}]\n', "last_words"),
    ],
)
def test_what_is_piped_in_is_read_as_a_file_is(
    text: str, told: str, packed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = gzip.compress(text.encode()) if packed else text.encode()
    (tmp_path / "it").write_bytes(data)
    monkeypatch.chdir(tmp_path)
    command = [sys.executable, "-m", "postmortem", "logs", "--json", "-"]
    piped = subprocess.run(command, input=data, capture_output=True, check=False)
    of_file = run_here("logs", "--json", "it")
    assert piped.returncode == of_file.returncode
    diagnoses = json.loads(piped.stdout)["diagnoses"]
    assert [one["id"] for one in diagnoses] == [told]
    assert diagnoses == json.loads(of_file.stdout.replace('"it', '"-'))["diagnoses"]


def test_cut_packed_logs_are_read_as_far_as_they_go(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packed = tmp_path / "job.out.gz"
    noise = "".join(f"[rank0]: step {i} {os.urandom(8).hex()}\n" for i in range(2000))
    packed.write_bytes(gzip.compress((RAISED + noise).encode())[:-3000])
    code, out, _ = run(str(packed), "--json", capsys=capsys)
    document = json.loads(out)
    assert code == 1
    assert document["problems"]
    assert document["inputs"][0]["truncated"]


def test_split_writes_a_file_for_each_rank(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, target = tmp_path / "job.out", tmp_path / "by-rank"
    log.write_text(RAISED + "no prefix\n[../../etc:7]:evil\n")
    code, _, err = run(str(log), "--split", str(target), capsys=capsys)
    assert code == 1
    assert "files in" in err
    names = sorted(path.name for path in target.glob("*.log"))
    assert names == [
        "_.._etc_7.log",
        "rank-0-node0.log",
        "rank-1-node0.log",
        "unlabelled-job.out.log",
    ]
    text = (target / "rank-1-node0.log").read_text()
    assert text.splitlines()[-1] == "ValueError: <b>bad</b> row"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["by-rank", "job.out"]
    # Once more: its own files are replaced, not added to.
    run(str(log), "--split", str(target), capsys=capsys)
    assert (target / "rank-1-node0.log").read_text() == text


def test_split_touches_no_foreign_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], prose: Prose
) -> None:
    log, target = tmp_path / "job.out", tmp_path / "mine"
    log.write_text(RAISED)
    target.mkdir()
    (target / "notes.log").write_text("mine")
    code, _, err = run(str(log), "--split", str(target), capsys=capsys)
    assert code == 3
    prose(err)
    assert [p.name for p in target.iterdir()] == ["notes.log"]


def test_a_log_that_is_cut_in_a_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "job.out"
    log.write_text("".join(RAISED.splitlines(keepends=True)[3:5]))
    code, out, _ = run(str(log), "--json", capsys=capsys)
    document = json.loads(out)
    assert code == 1
    assert document["first_failure"] is None
    assert [party["rank"] for party in document["candidates"]] == [1]


def test_errors_that_were_caught_are_no_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "job.out"
    steps = "".join(f"[node0:{r}]:[rank{r}]: step {i}\n" for i in range(30) for r in (0, 1))
    log.write_text(RAISED + steps)
    code, out, _ = run(str(log), "--json", capsys=capsys)
    document = json.loads(out)
    assert code == 0
    assert document["first_failure"] is None
    assert len(document["tracebacks"]) == 2


def test_random_bytes_are_no_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], prose: Prose
) -> None:
    log = tmp_path / "noise"
    log.write_bytes(random.Random(7).randbytes(100_000).replace(b"\0", b"x"))
    code, _, err = run(str(log), capsys=capsys)
    assert code == 3
    prose(err)
