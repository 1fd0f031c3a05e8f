"""libaio: the call that learns of a failure works, and names no file (io_getevents(2))."""

from pathlib import Path
from typing import Any

import pytest

from builders.recordings import read
from postmortem.analyses.strace import StraceOptions, analyse
from postmortem.report.model import Confidence

OPENED = (
    '7 openat(AT_FDCWD, "/m/a", O_WRONLY) = 6\n7 openat(AT_FDCWD, "/m/b", O_WRONLY) = 8\n'
    "7 io_setup(64, [0x7f5500000000]) = 0\n"
)


def submit(*requests: tuple[int, int], text: str = "x") -> str:
    """Return a call that submits writes: the number of each, and its descriptor."""
    blocks = ", ".join(
        f"{{aio_data={data:#x}, aio_lio_opcode=IOCB_CMD_PWRITE, aio_fildes={fd}, "
        f'aio_buf="{text}"..., aio_nbytes=4096, aio_offset=0}}'
        for data, fd in requests
    )
    count = len(requests)
    return f"7 io_submit(0x7f5500000000, {count}, [{blocks}]) = {count}\n"


def ends(*results: tuple[int, int]) -> str:
    return ", ".join(f"{{data={data:#x}, obj=0x55, res={res}, res2=0}}" for data, res in results)


def collect(*results: tuple[int, int]) -> str:
    """Return a call that learns how requests ended: the number of each, and its result."""
    return f"7 io_getevents(0x7f5500000000, 1, 9, [{ends(*results)}], NULL) = {len(results)}\n"


def halves(*results: tuple[int, int]) -> str:
    begin = "7 io_getevents(0x7f5500000000, 1, 9,  <unfinished ...>\n9 brk(NULL) = 0x5\n"
    return f"{begin}7 <... io_getevents resumed>[{ends(*results)}], NULL) = {len(results)}\n"


CASES = {
    "one file": (submit((0, 6)) + collect((0, -28)), ["/m/a"]),
    "the number tells which": (submit((1, 6), (2, 8)) + collect((1, 4096), (2, -28)), ["/m/b"]),
    "two calls": (submit((1, 6)) + submit((2, 8)) + collect((1, -28)), ["/m/a"]),
    "another error": (submit((0, 6)) + collect((0, -5)), []),
    "it worked": (submit((0, 6)) + collect((0, 4096)), []),
    "submitted before the log began": (collect((0, -28)), [None]),
    "in two halves": (submit((1, 6), (2, 8)) + halves((1, -28)), ["/m/a"]),
    "those before it have ended": (
        submit((0, 6), (0, 8)) + collect((0, 4096)) + collect((0, -28)),
        ["/m/b"],
    ),
    "in halves after others have ended in halves": (
        submit((0, 6), (0, 8)) + halves((0, 4096)) + halves((0, -28)),
        ["/m/b"],
    ),
    "behind one that worked, in one call": (
        submit((0, 6), (0, 8)) + collect((0, 4096), (0, -28)),
        ["/m/b"],
    ),
    "two in one call": (submit((1, 6), (2, 8)) + collect((1, -28), (2, -28)), ["/m/a", "/m/b"]),
    "two in one call, in halves": (
        submit((1, 6), (2, 8)) + halves((2, -28), (1, -28)),
        ["/m/b", "/m/a"],
    ),
    "two of one number in one call": (
        submit((0, 6), (0, 8)) + collect((0, -28), (0, -28)),
        ["/m/a", "/m/b"],
    ),
    "behind one that failed otherwise": (
        submit((1, 6), (2, 8)) + collect((1, -5), (2, -28)),
        ["/m/b"],
    ),
    "behind an error that has no name": (
        submit((1, 6), (2, 8)) + collect((1, -4000), (2, -28)),
        ["/m/b"],
    ),
    "another call follows": (
        submit((1, 6), (2, 8), (3, 6)) + collect((1, -28), (2, -28)) + collect((3, -28)),
        ["/m/a", "/m/b", "/m/a"],
    ),
    "what was written looks like a request": (
        submit((1, 6), text="}, {aio_data=0x1, aio_fildes=8, res=-28}") + collect((1, -28)),
        ["/m/a"],
    ),
}


@pytest.mark.parametrize("statistics", [False, True])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_failed_request_names_its_file(
    case: tuple[str, list[str | None]], statistics: bool
) -> None:
    log, paths = case
    got = read(OPENED + log, errors=["ENOSPC"], statistics=statistics)
    assert got["counts"]["unparsed"] == 0
    assert [match["target"]["path"] for match in got["matches"]] == paths
    assert all(match["syscall"] == "io_getevents" for match in got["matches"])


def test_one_number_for_two_files_is_a_guess() -> None:
    def target(log: str) -> dict[str, Any]:
        (match,) = read(OPENED + log, errors=["ENOSPC"])["matches"]
        found: dict[str, Any] = match["target"]
        return found

    assert target(submit((0, 6), (0, 8)) + collect((0, -28)))["guessed"]
    assert not target(submit((0, 6), (0, 6)) + collect((0, -28)))["guessed"]
    ended = submit((0, 6), (0, 8)) + collect((0, 4096))
    assert not target(ended + collect((0, -28)))["guessed"]


@pytest.mark.parametrize(("other", "confidence"), [(8, Confidence.LIKELY), (6, Confidence.CERTAIN)])
def test_a_guess_is_never_certain(other: int, confidence: Confidence, tmp_path: Path) -> None:
    log = tmp_path / "strace.txt"
    failed = submit((0, 6), (0, other)) + collect((0, -28))
    log.write_text(f"{OPENED}{failed}7 exit_group(1) = ?\n7 +++ exited with 1 +++\n")
    (diagnosis,) = analyse([str(log)], StraceOptions()).diagnoses
    assert diagnosis.id == "disk_full"
    assert diagnosis.confidence is confidence


def test_each_failed_request_is_counted_with_its_file(tmp_path: Path) -> None:
    log = tmp_path / "strace.txt"
    both = submit((1, 6), (2, 8)) + collect((1, -5), (2, -28))
    log.write_text(f"{OPENED}{both}7 exit_group(1) = ?\n7 +++ exited with 1 +++\n")
    failures = {
        (failure["errno"], failure["path"], failure["count"])
        for failure in read(log.read_text(), statistics=True)["failures"]
    }
    assert {("EIO", "/m/a", 1), ("ENOSPC", "/m/b", 1)} <= failures
    ids = [diagnosis.id for diagnosis in analyse([str(log)], StraceOptions()).diagnoses]
    assert "disk_full" in ids


def test_a_call_that_brought_two_failures_is_one_call(tmp_path: Path) -> None:
    both = OPENED + submit((1, 6), (2, 8)) + collect((1, -28), (2, -28))
    got = read(both, statistics=True)
    (row,) = [row for row in got["syscalls"] if row["name"] == "io_getevents"]
    assert (row["calls"], row["errors"]) == (1, 1)
