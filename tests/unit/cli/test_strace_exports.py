"""Exports of ``postmortem strace`` as files: whole or not at all, and clear words when not."""

import io
import os
import sys
from pathlib import Path

import pytest

from builders.prose import Prose
from postmortem.cli.main import main

LOG = '1 1700000000.5 openat(AT_FDCWD, "/a", O_RDONLY) = 3 <0.1>\n'


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log"
    path.write_text(LOG)
    return path


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def said(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().err.strip()


def test_the_report_comes_too(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = log.parent / "calls.csv"
    assert main(["strace", str(log), "--calls", str(out)]) == 0
    captured = capsys.readouterr()
    assert "1 line, 0 unread" in captured.out
    assert captured.err == f"postmortem: {out}: 1 call\n"
    assert len(out.read_text().splitlines()) == 2
    assert files_in(log.parent) == ["calls.csv", "log"]


def test_a_log_that_cannot_be_read_leaves_files_as_they_were(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], prose: Prose
) -> None:
    bad = tmp_path / "diary"
    bad.write_text("dear diary\n")
    outs = [tmp_path / name for name in ("c.csv", "f", "t")]
    for out in outs:
        out.write_text("old")
    words = ["--calls", str(outs[0]), "--folded", str(outs[1]), "--trace", str(outs[2])]
    assert main(["strace", str(bad), *words]) == 3
    assert [out.read_text() for out in outs] == ["old"] * 3
    assert files_in(tmp_path) == ["c.csv", "diary", "f", "t"]
    prose(said(capsys))


@pytest.mark.parametrize("option", ["--calls", "--folded", "--trace"])
def test_places_that_take_nothing(
    option: str, log: Path, capsys: pytest.CaptureFixture[str], prose: Prose
) -> None:
    out = log.parent / "missing" / "x.csv"
    assert main(["strace", str(log), option, str(out)]) == 3
    prose(said(capsys))
    folder = log.parent / "folder.csv"
    folder.mkdir()
    assert main(["strace", str(log), option, str(folder)]) == 3
    prose(said(capsys))
    full = log.parent / "full.csv"
    full.symlink_to("/dev/full")
    assert main(["strace", str(log), option, str(full)]) == 3
    prose(said(capsys))
    assert full.is_symlink()


def test_the_evidence_is_not_written_over(
    log: Path, capsys: pytest.CaptureFixture[str], prose: Prose
) -> None:
    for option in ("--folded", "--trace"):
        assert main(["strace", str(log), option, str(log)]) == 3
        prose(said(capsys))
        assert main(["strace", str(log.parent), option, str(log)]) == 3
        prose(said(capsys))
    assert log.read_text() == LOG


@pytest.mark.parametrize("form", ["--json", "--markdown", "--github"])
def test_an_export_and_a_report_do_not_share_standard_output(
    form: str, log: Path, capsys: pytest.CaptureFixture[str], prose: Prose
) -> None:
    assert main(["strace", str(log), "--calls", "-", form]) == 3
    prose(said(capsys))
    kept = log.parent / "report"
    assert main(["strace", str(log), "--calls", "-", form, "-o", str(kept)]) in (0, 1)
    assert kept.read_text()


def test_two_exports_do_not_share_a_file(
    log: Path, capsys: pytest.CaptureFixture[str], prose: Prose
) -> None:
    assert main(["strace", str(log), "--folded", "-", "--trace", "-"]) == 3
    prose(said(capsys))
    out = str(log.parent / "x")
    assert main(["strace", str(log), "--folded", out, "--trace", out]) == 3
    prose(said(capsys))


def test_names_that_do_not_say_what_to_write(
    log: Path, capsys: pytest.CaptureFixture[str], prose: Prose
) -> None:
    assert main(["strace", str(log), "--calls", "calls.xlsx"]) == 2
    prose(said(capsys))
    assert main(["strace", str(log), "--folded", ""]) == 2
    prose(said(capsys))


def test_parquet_without_pyarrow(
    log: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], prose: Prose
) -> None:
    monkeypatch.setattr("postmortem.readers.strace_exports.parquet_is_there", lambda: False)
    out = log.parent / "calls.parquet"
    assert main(["strace", str(log), "--calls", str(out)]) == 3
    first, hint = said(capsys).splitlines()
    prose(first)
    prose(hint)
    assert not out.exists()


def test_a_link_stays_a_link_and_permissions_stay(log: Path) -> None:
    real = log.parent / "real.csv"
    real.write_text("old")
    real.chmod(0o600)
    link = log.parent / "link.csv"
    link.symlink_to(real)
    assert main(["strace", str(log), "--calls", str(link)]) == 0
    assert link.is_symlink()
    assert real.read_text().startswith("file,line,")
    assert real.stat().st_mode & 0o777 == 0o600


def test_standard_output_takes_the_place_of_the_report(
    log: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["strace", str(log), "--find", "ENOSPC", "--calls", "-"]) == 0
    captured = capfd.readouterr()
    (line,) = captured.out.splitlines()
    assert line.startswith('{"file":')
    assert captured.err == ""
    assert main(["strace", str(log), "--calls", "-", "-o", str(log.parent / "report")]) == 0
    assert capfd.readouterr().out.count("\n") == 1
    assert "1 line," in (log.parent / "report").read_text()


def test_a_log_from_standard_input(
    log: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    read, write = os.pipe()
    os.write(write, LOG.encode())
    os.close(write)
    with os.fdopen(read) as stream:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(stream.buffer))
        out = tmp_path / "c.csv"
        assert main(["strace", "-", "--calls", str(out)]) == 0
    assert len(out.read_text().splitlines()) == 2
