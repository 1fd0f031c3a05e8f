"""A call comes taken apart: its arguments by their places, and what it returned."""

from pathlib import Path

import pytest

from postmortem.diagnose.strace.arguments import argument, flags, member, number
from postmortem.facts.call_query import CallQuery
from postmortem.facts.syscalls import Match
from postmortem.readers.strace import Question, read_recordings

FAILED = " = -1 ENOENT (No such file or directory)"


def call(tmp_path: Path, text: str, name: str) -> Match:
    """Return the call with a name in a log."""
    path = tmp_path / "strace.txt"
    path.write_text(text + "\n1 +++ exited with 0 +++\n")
    (read,) = read_recordings([str(path)], Question(queries=(CallQuery(calls=(name,)),)))
    (found,) = read.calls.matches
    return found


@pytest.mark.parametrize(
    ("text", "arguments", "returned"),
    [
        ('1 openat(AT_FDCWD, "/a, b) = 3", O_RDWR|O_CREAT, 0644) = 3',
         ("AT_FDCWD", '"/a, b) = 3"', "O_RDWR|O_CREAT", "0644"), 3),
        ('1 openat(AT_FDCWD, "/O_WRONLY", O_RDONLY)' + FAILED,
         ("AT_FDCWD", '"/O_WRONLY"', "O_RDONLY"), -1),
        ('1 openat(dfd=AT_FDCWD, filename="/a", flags=O_RDONLY) = 3</a, b>',
         ("AT_FDCWD", '"/a"', "O_RDONLY"), 3),
        ('1 openat(AT_FDCWD</home/user>, "a\\"b", O_RDONLY) = ? ERESTARTSYS',
         ("AT_FDCWD</home/user>", '"a\\"b"', "O_RDONLY"), None),
        ("1 openat() = -1 EFAULT (Bad address)", (), -1),
    ],
)  # fmt: skip
def test_arguments(
    tmp_path: Path, text: str, arguments: tuple[str, ...], returned: int | None
) -> None:
    found = call(tmp_path, text, "openat")
    assert (found.arguments, found.returned) == (arguments, returned)


def test_what_is_asked_of_them(tmp_path: Path) -> None:
    text = "1 mmap(NULL, 4096, PROT_READ|PROT_EXEC, MAP_PRIVATE, -1, 0) = 0x7f"
    found = call(tmp_path, text, "mmap")
    assert (number(found, 1), number(found, 4), number(found, 0)) == (4096, -1, None)
    assert flags(found, 2) == {"PROT_READ", "PROT_EXEC"}
    assert (argument(found, 9), number(found, 9)) == ("", None)


@pytest.mark.parametrize(
    ("text", "place", "name", "value"),
    [
        ("1 prlimit64(0, RLIMIT_AS, {rlim_cur=8192*1024, rlim_max=RLIM64_INFINITY}, NULL) = 0",
         2, "rlim_max", "RLIM64_INFINITY"),
        ("1 prlimit64(0, RLIMIT_AS, {rlim_cur=8192*1024, rlim_max=RLIM64_INFINITY}, NULL) = 0",
         2, "rlim_cur", "8192*1024"),
        ("1 prlimit64(0, RLIMIT_AS, NULL, NULL) = 0", 2, "rlim_cur", ""),
        ('1 sendmmsg(3, [{msg_hdr={msg_iov=[{iov_base="a, \\"}b", iov_len=4}]}}], 1, 0) = 1',
         1, "iov_base", '"a, \\"}b"'),
        ('1 sendmmsg(3, [{msg_hdr={msg_iov=[{iov_base="cut off"..., iov_len=4}]}}], 1, 0) = 1',
         1, "iov_base", '"cut off"'),
    ],
)  # fmt: skip
def test_members_of_structures(
    tmp_path: Path, text: str, place: int, name: str, value: str
) -> None:
    found = call(tmp_path, text, text.partition("(")[0].split()[1])
    assert member(found, place, name) == value
