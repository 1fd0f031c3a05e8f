"""Single lines as strace writes them, the nasty ones above all."""

from typing import Any

import pytest

from builders.recordings import read
from postmortem import _native

SHAPES = [
    ('29516 openat(AT_FDCWD, "/etc/hostname", O_RDONLY|O_CLOEXEC) = 3', "call", 29516, 3, None),
    (
        'openat(AT_FDCWD, "a", O_RDONLY) = -1 ENOENT (No such file or directory)',
        "call",
        None,
        -1,
        "ENOENT",
    ),
    ("29516 wait4(29517,  <unfinished ...>", "entry", 29516, None, None),
    ("29516 <... wait4 resumed>NULL, 0, NULL) = 29517", "resumed", 29516, 29517, None),
    ("515:500   <... read resumed> <unfinished ...>) = ?", "text", None, None, None),
    ("500   <... read resumed> <unfinished ...>) = ?", "dead", 500, None, None),
    (
        "[pid 25948] close(-1)                  = -1 EBADF (Bad file descriptor)",
        "call",
        25948,
        -1,
        "EBADF",
    ),
    (
        "7 restart_syscall(<... resuming interrupted read ...> <detached ...>",
        "detached",
        7,
        None,
        None,
    ),
    (
        "29611 02:14:02.266643 (+     0.000000) brk(NULL) = 0x5639591e0000",
        "call",
        29611,
        0x5639591E0000,
        None,
    ),
    (
        "29592      0.000356 brk(NULL)           = 0x5634576b5000",
        "call",
        29592,
        0x5634576B5000,
        None,
    ),
    ("     0.000356 brk(NULL)           = 1", "call", None, 1, None),
    ("29649 1795227242.450328035 brk(NULL) = 1 <0.000315128>", "call", 29649, 1, None),
    ("1795227242 brk(NULL) = 1", "call", None, 1, None),
    ("29668 [00007f3d0a004ad7] brk(NULL) = 1", "call", 29668, 1, None),
    ("29668 [????????????????] brk(NULL) = 1", "call", 29668, 1, None),
    ("29687 [  12] brk(NULL) = 1", "call", 29687, 1, None),
    ("29768<fds> brk(NULL) = 1", "call", 29768, 1, None),
    (
        "29768<a b> [unconfined_u:unconfined_r:unconfined_t:s0] brk(NULL) = 1",
        "call",
        29768,
        1,
        None,
    ),
    ("7 poll([{fd=3, events=POLLIN}], 1, 1000) = 0 (Timeout)", "call", 7, 0, None),
    (
        "7 connect(3, {sa_family=AF_INET}, 16) = ? ERESTARTSYS (To be restarted) <2.9>",
        "call",
        7,
        None,
        "ERESTARTSYS",
    ),
    (
        '7 write(18, "q", 1) = -1 ENOSPC (No space left on device) (INJECTED)',
        "call",
        7,
        -1,
        "ENOSPC",
    ),
    ("7 write(1, 0x7f, 9) = -1 (errno 28)", "call", 7, -1, "errno 28"),
    ("7 exit_group(0)                           = ?", "call", 7, None, None),
    ("7 +++ killed by SIGSEGV (core dumped) +++", "exit", 7, None, None),
    (
        "7 --- SIGSEGV {si_signo=SIGSEGV, si_code=SEGV_MAPERR, si_addr=NULL} ---",
        "signal",
        7,
        None,
        None,
    ),
    ("02:14:07.107670 [ Process PID=30221 runs in 32 bit mode. ]", "notice", None, None, None),
    ("5759  [  28] ???()                      = ?", "notice", 5759, None, None),
    (" > /usr/lib/libc.so.6(_dl_catch_error+0x26f0) [0x1ab70]", "trace", None, None, None),
    (" | 00000  7f 45 4c 46 = -1 ENOSPC (No)  .ELF |", "dump", None, None, None),
    ("strace: Process 25948 attached", "diagnostic", None, None, None),
    (" 37.93    0.001094         364         3           wait4", "summary", None, None, None),
    ("program output", "text", None, None, None),
    ("", "empty", None, None, None),
]


@pytest.mark.parametrize(("line", "shape", "pid", "result", "error"), SHAPES)
def test_shapes(
    line: str, shape: str, pid: int | None, result: int | None, error: str | None
) -> None:
    read = _native.read_strace_line(line.encode())
    assert (read["shape"], read["pid"]) == (shape, pid)
    assert (read["result"], read["errno"]) == (result, error)
    assert read.get("agrees", True)


ARGUMENTS: list[tuple[str, list[str]]] = [
    ('f(3, "a, b)", [1, 2], {x=1, y="}"}) = 0', ["3", '"a, b)"', "[1, 2]", '{x=1, y="}"}']),
    (r'f("a\"b, \\", 1) = 0', [r'"a\"b, \\"', "1"]),
    (
        'f("x) = -1 ENOSPC (No space left on device)", 1) = 5',
        ['"x) = -1 ENOSPC (No space left on device)"', "1"],
    ),
    ("f(3</a, b) = 1>, 1) = 0", ["3</a, b) = 1>", "1"]),
    ("f(3</gone>(deleted), 1) = 0", ["3</gone>(deleted)", "1"]),
    ("f(0</dev/null<char 1:3>>, 1) = 0", ["0</dev/null<char 1:3>>", "1"]),
    ("f(3<TCP:[127.0.0.1:1->127.0.0.1:2]>, 1) = 0", ["3<TCP:[127.0.0.1:1->127.0.0.1:2]>", "1"]),
    ('f(3<UNIX-STREAM:[1->2,"/a>b"]>, 1) = 0', ['3<UNIX-STREAM:[1->2,"/a>b"]>', "1"]),
    ('f(3</we"ird>, "x") = 0', ['3</we"ird>', '"x"']),
    ("f(-100 /* AT_FDCWD, (x) */, 1) = 0", ["-100 /* AT_FDCWD, (x) */", "1"]),
    ("f(fd=3, count=5) = 0", ["3", "5"]),
    ("f(1<<3, 21<<MAP_HUGE_SHIFT) = 0", ["1<<3", "21<<MAP_HUGE_SHIFT"]),
    ("f({flags=0} => {parent_tid=[3]}, 88) = 3", ["{flags=0} => {parent_tid=[3]}", "88"]),
    ("f() = 0", []),
]


@pytest.mark.parametrize(("line", "arguments"), ARGUMENTS)
def test_arguments(line: str, arguments: list[str]) -> None:
    read: Any = _native.read_strace_line(line.encode())
    assert [argument.decode() for argument in read["arguments"]] == arguments
    assert read["shape"] == "call"
    assert read["agrees"]


def test_annotated_results() -> None:
    line = b'7 openat(AT_FDCWD</d>, "a", O_RDONLY) = 3</d/a) = -1 ENOSPC (No)> <0.1>'
    read: Any = _native.read_strace_line(line)
    assert (read["result"], read["errno"]) == (3, None)
    assert read["annotation"] == "/d/a) = -1 ENOSPC (No)"


@pytest.mark.parametrize("behind", ["0x7fe70c6fa00g", "12345678x", "0x"])
def test_what_looks_like_a_number_behind_an_error_hides_nothing(behind: str) -> None:
    failed = f"7 ioctl(4, TCGETS, 0x7f) = -1 ENOTTY (No terminal) = {behind}\n"
    got = read(f"7 brk(NULL) = 0x5\n{failed}", errors=["ENOTTY"])
    assert [match["line"] for match in got["matches"]] == [2]
