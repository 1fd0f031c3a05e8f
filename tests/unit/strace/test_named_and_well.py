"""Errors that a process named on standard error, and exited with 0 all the same."""

from pathlib import Path

import pytest

from builders.prose import Prose
from postmortem.analyses.strace import StraceOptions, analyse

START = 'execve("/usr/bin/tool", ["tool"], 0x7 /* 3 vars */) = 0\n'
FAILED = 'openat(AT_FDCWD, "/srv/results/out.csv", O_WRONLY|O_CREAT, 0666) = -1 ENOENT (No such)\n'
END = "exit_group(0) = ?\n+++ exited with 0 +++\n"


def verdict(path: Path, text: str) -> str:
    log = path / "log.strace"
    log.write_text(text)
    report = analyse([str(log)], StraceOptions())
    assert not report.failed
    return report.verdict


@pytest.mark.parametrize(
    "words",
    [
        'write(2, "tool: No such file or directory\\n", 32) = 32\n',
        'write(2, "could not write /srv/results/o"..., 60) = 60\n',
        'write(2, "out.csv: not written\\n", 21) = 21\n',
    ],
)
def test_what_it_named_is_told(tmp_path: Path, words: str, prose: Prose) -> None:
    prose(verdict(tmp_path, START + FAILED + words + END))


@pytest.mark.parametrize(
    "words",
    [
        "",
        'write(2, "reading /srv/other/o"..., 60) = 60\n',
        'write(1, "out.csv: gone\\n", 14) = 14\n',
    ],
)
def test_a_failed_call_that_nobody_named_is_none(tmp_path: Path, words: str, prose: Prose) -> None:
    prose(verdict(tmp_path, START + FAILED + words + END))


@pytest.mark.parametrize(
    ("name", "above"),
    [("counts.txt", ""), ("counts.md", "All day long:\n\n```\n$ strace -c -p 7\n")],
)
def test_the_table_of_counts_is_no_log(name: str, above: str, tmp_path: Path) -> None:
    from postmortem.readers.inventory import take_inventory

    table = tmp_path / name
    head = "% time     seconds  usecs/call     calls    errors syscall\n------ ----\n"
    table.write_text(above + head)
    [item] = take_inventory([str(table)]).items
    assert item.why is not None
    assert "strace -c" in item.why
