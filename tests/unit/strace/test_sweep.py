"""The search through large logs for words of what is asked: it may miss no failure."""

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders.prose import Prose
from builders.recordings import CORPUS, TRUTH, recording, unpacked
from postmortem import _native
from postmortem.analyses import strace
from postmortem.analyses.strace import StraceOptions
from postmortem.errors import EvidenceError
from postmortem.facts.call_query import CallQuery, parse
from postmortem.readers import strace_sweep
from postmortem.report.model import Report

PIECE = 256 << 10
"""What a thread looks at in one go."""

HEALTHY = b'7 openat(AT_FDCWD, "/data/a", O_RDONLY) = 3\n7 close(3) = 0\n'


def swept(path: Path, words: list[str], threads: int = 2) -> tuple[bool, int]:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return _native.sweep_log(descriptor, path.stat().st_size, words, threads)
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("place", [0, 1, 31, PIECE - 40, PIECE - 3, PIECE, 3 * PIECE - 1])
@pytest.mark.parametrize("threads", [1, 3])
def test_a_word_is_found_wherever_it_stands(tmp_path: Path, place: int, threads: int) -> None:
    data = bytearray(b"x" * (3 * PIECE + 100))
    data[place : place + 6] = b"ENOSPC"
    path = tmp_path / "log"
    path.write_bytes(data)
    assert swept(path, ["ESTALE", "ENOSPC"], threads)[0] is False
    assert swept(path, ["ESTALE", "EDQUOT"], threads) == (True, 1)


@given(
    data=st.lists(st.sampled_from([b"ENO", b"SPC", b"E", b"N", b"\n", b"EIO", b" ", b"\0"])),
    words=st.lists(st.sampled_from(["ENOSPC", "EIO", "SP", "res=-28", "NN"]), max_size=10),
    repeat=st.integers(1, 40),
)
@settings(max_examples=300)
def test_it_says_what_a_plain_search_says(
    tmp_path_factory: pytest.TempPathFactory, data: list[bytes], words: list[str], repeat: int
) -> None:
    text = b"".join(data) * repeat
    path = tmp_path_factory.mktemp("sweep") / "log"
    path.write_bytes(text)
    absent, lines = swept(path, words)
    assert absent == (not any(word.encode() in text for word in words))
    if absent:
        assert lines == text.count(b"\n") + (text[-1:] not in (b"", b"\n"))


def test_words_that_it_cannot_look_for_are_not_said_to_be_absent(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(HEALTHY)
    assert swept(path, ["E"]) == (False, 0)
    assert swept(path, ["E" * 65]) == (False, 0)


def test_a_file_that_got_shorter_is_not_said_to_be_without(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(HEALTHY)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        assert _native.sweep_log(descriptor, len(HEALTHY) + 1, ["ENOSPC"]) == (False, 0)
    finally:
        os.close(descriptor)


def whole(name: str) -> list[bytes]:
    """The files of a recording."""
    if not (CORPUS / name).is_dir():
        return [unpacked(name)]
    return [unpacked(f"{name}/{file.name}") for file in (CORPUS / name).iterdir()]


@pytest.mark.parametrize("name", sorted(TRUTH))
def test_every_hit_of_a_recording_stands_behind_a_word(name: str) -> None:
    """The reader of calls is the oracle: what it finds, the search may not call absent."""
    names = sorted(errno.errorcode.values())
    data = b"".join(whole(name))
    log = recording(name, errors=names, infer_sigbus=True)
    found = {match["errno"] for match in log["matches"] if match["errno"]}
    if any(match["inferred"] for match in log["matches"]):
        found |= {"ENOSPC", "EDQUOT", "EIO"}
    if log["io_uring"]:
        found |= set(names)
    for error in found:
        words = strace_sweep.words_of([CallQuery((error,))])
        assert words is not None
        assert any(word.encode() in data for word in words), error


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs of any size are worth a search."""
    monkeypatch.setattr(strace_sweep, "WORTH_BYTES", 1)


def answer(path: Path, query: str, *, body: bool = False, verbose: bool = False) -> Report:
    options = StraceOptions(queries=(parse(query),), body=body, verbose=verbose)
    return strace.analyse([str(path)], options)


@pytest.mark.usefixtures("eager")
def test_a_log_without_the_word_is_searched_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(HEALTHY * 500)
    report = answer(path, "ESTALE")
    assert report.footer_line == "1,000 lines searched · recorded with -f"
    assert not report.failed
    whole = answer(path, "ESTALE", body=True)
    assert whole.footer_line == "1,000 lines, 0 unread · recorded with -f"
    assert whole.verdict == report.verdict
    assert whole.body["processes"]
    assert "unread" in answer(path, "ESTALE", verbose=True).footer_line


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(
    ("query", "line"),
    [
        ("ENOSPC", b'7 write(3, "x", 1) = -1 ENOSPC (No space left on device)\n'),
        ("ENOSPC", b"7 io_getevents(0x7f01, 1, 1, [{data=0, obj=0x1, res=-28, res2=0}]) = 1\n"),
        ("ENOSPC", b"7 --- SIGBUS {si_signo=SIGBUS, si_code=BUS_ADRERR, si_addr=0x7f} ---\n"),
    ],
)
def test_a_hit_among_a_thousand_lines_is_told_as_ever(
    tmp_path: Path, query: str, line: bytes
) -> None:
    path = tmp_path / "log"
    path.write_bytes(HEALTHY * 500 + line + HEALTHY * 500)
    report = answer(path, query)
    assert "unread" in report.footer_line
    assert report.failed


@pytest.mark.usefixtures("eager")
def test_io_uring_is_told_of_as_ever(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(
        HEALTHY + b"7 io_uring_setup(8, {flags=0}) = 4\n7 io_uring_enter(4, 1, 0, 0, NULL, 8) = 1\n"
    )
    (recording,) = answer(path, "ENOSPC", body=True).body["recordings"]  # type: ignore[misc]
    assert recording["io_uring"]


@pytest.mark.usefixtures("eager")
def test_what_is_no_log_is_refused_as_ever(tmp_path: Path, prose: Prose) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"nothing of a log\n" * 100)
    with pytest.raises(EvidenceError) as refused:
        answer(path, "ENOSPC")
    prose(refused.value)


SETUP = b"7 io_uring_setup(256, {flags=0x10000, sq_thread_cpu=0}) = 5\n"
ENTER = b"8 io_uring_enter(5, 2, 2, IORING_ENTER_GETEVENTS, NULL, 0 <unfinished ...>\n"
RESUMED = b"8 <... io_uring_enter resumed>) = 2\n"
EPOLL = b"7 epoll_create1(EPOLL_CLOEXEC) = 3\n"


@pytest.mark.parametrize(
    ("lines", "absent"),
    [
        (EPOLL + SETUP + ENTER + RESUMED, True),
        (EPOLL + b'7 openat(3, "io_uring_x", 0) = -1 ENOENT (No such file)\n' + SETUP, True),
        (b"7 io_uring_setup(8, {flags=0}) = -1 EPERM (Operation not permitted)\n", True),
        (SETUP + ENTER + RESUMED, False),
        (EPOLL + b"7 close(3) = 0\n" + SETUP, False),
        (EPOLL.replace(b"7", b"9", 1) + SETUP, False),
        (EPOLL + SETUP.replace(b"0x10000", b"IORING_SETUP_SQPOLL"), False),
        (EPOLL + SETUP.replace(b"256", b"64"), False),
        (EPOLL + SETUP + ENTER.replace(b"2, 2", b"2, 1"), False),
        (ENTER + RESUMED, False),
        (EPOLL + SETUP + b"\x1b[33mio_uring_enter\x1b[0m(5, 1, 1, 0) = 1\n", False),
        (EPOLL + SETUP.replace(b" = 5", b" <unfinished ...>"), False),
    ],
)
def test_rings_of_libuv_for_epoll_hide_nothing(tmp_path: Path, lines: bytes, absent: bool) -> None:
    path = tmp_path / "log"
    for filler in (b"", HEALTHY * (PIECE // len(HEALTHY) + 200)):
        path.write_bytes(filler + lines + filler)
        with path.open("rb") as log:
            swept = _native.sweep_log(log.fileno(), path.stat().st_size, ["io_uring_"], 2, True)
            assert swept[0] is absent
            assert not _native.sweep_log(log.fileno(), path.stat().st_size, ["io_uring_"])[0]


@pytest.mark.parametrize("name", sorted(TRUTH))
def test_no_ring_that_hides_something_is_passed_by(tmp_path: Path, name: str) -> None:
    if (CORPUS / name).is_dir():
        return
    path = tmp_path / "log"
    path.write_bytes(unpacked(name))
    with path.open("rb") as log:
        size = path.stat().st_size
        absent, _ = _native.sweep_log(log.fileno(), size, ["io_uring_"], 2, True)
    if absent:
        assert not recording(name)["io_uring"]
    if name.startswith("torchrun"):
        assert absent


def test_that_python_asked_for_a_handler_of_sigbus_is_no_reason_to_parse() -> None:
    words = strace_sweep.words_of([CallQuery(("ENOSPC",))])
    assert words is not None
    assert not any(
        word in "rt_sigaction(SIGBUS, NULL, {sa_handler=SIG_DFL}, 8) = 0" for word in words
    )
