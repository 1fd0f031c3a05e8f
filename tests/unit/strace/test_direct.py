"""EINVAL of files opened with O_DIRECT: why, where the program or its end points at it."""

from pathlib import Path

import pytest

from builders.prose import Prose
from postmortem.analyses.strace import StraceOptions, analyse

OPEN = '7 openat(AT_FDCWD, "/m/ckpt", O_WRONLY|O_CREAT|{flag}, 0644) = {result}\n'
INVALID = "-1 EINVAL (Invalid argument)"
END = "7 exit_group(1) = ?\n7 +++ exited with 1 +++\n"


def causes(log: str, tmp_path: Path) -> str:
    path = tmp_path / "strace.txt"
    path.write_text(log + END)
    return " ".join(found.cause for found in analyse([str(path)], StraceOptions()).diagnoses)


@pytest.mark.parametrize(
    ("flag", "said"), [("O_DIRECT", True), ("O_SYNC", False), ("O_DIRECTORY", False)]
)
def test_a_write_that_is_not_aligned(flag: str, said: bool, tmp_path: Path, prose: Prose) -> None:
    opened = OPEN.format(flag=flag, result=3)
    found = causes(f'{opened}7 pwrite64(3, "abc", 3, 0) = {INVALID}\n', tmp_path)
    prose(found)


@pytest.mark.parametrize(("flag", "said"), [("O_DIRECT", True), ("O_SYNC", False)])
def test_a_file_system_without_it(flag: str, said: bool, tmp_path: Path, prose: Prose) -> None:
    found = causes(OPEN.format(flag=flag, result=INVALID), tmp_path)
    prose(found)
