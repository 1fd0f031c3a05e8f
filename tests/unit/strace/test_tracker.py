"""What calls do to descriptors, one rule of the kernel at a time."""

from typing import Any

import pytest

from builders.recordings import read

ENOSPC = "-1 ENOSPC (No space left on device)"


def found(log: str, **options: Any) -> list[str | None]:
    """Return the paths of the failed writes."""
    got = read(log, errors=["ENOSPC"], **options)
    assert got["counts"]["unparsed"] == 0, got["first_unparsed"]
    return [match["target"]["path"] for match in got["matches"]]


def opened(pid: int, name: str, fd: int, flags: str = "O_WRONLY") -> str:
    return f'{pid} openat(AT_FDCWD, "/m/{name}", {flags}) = {fd}\n'


def failed(pid: int, fd: int) -> str:
    return f'{pid} write({fd}, "x"..., 9) = {ENOSPC}\n'


CASES = {
    "a clone3 whose arguments strace could not read, and a thread": (
        "1 syscall_0x1b3(0x7ffc1d04bf50, 0x58, 0x7f57, 0x8, 0x7f57, 0x7ffc) = 2\n"
        "2 set_robust_list(0x7f57, 24) = 0\n" + opened(2, "a", 3) + failed(1, 3),
        "/m/a",
    ),
    "the same, with a thread that begins first": (
        "1 clone3(0x7ffc1d04bf50, 88 <unfinished ...>\n2 rseq(0x7f, 0x20, 0, 0x53053053) = 0\n"
        "1 <... clone3 resumed>) = 2\n" + opened(2, "a", 3) + failed(1, 3),
        "/m/a",
    ),
    "the same, and a process: what it does changes nothing for its parent": (
        opened(1, "a", 3)
        + "1 clone3(0x7ffc1d04bf50, 88) = 2\n2 close(3) = 0\n"
        + opened(2, "decoy", 3)
        + "2 set_robust_list(0x7f57, 24) = 0\n"
        + failed(1, 3),
        "/m/a",
    ),
    "close_range by its number": (
        opened(1, "a", 3)
        + opened(1, "b", 4)
        + "1 dup2(3, 9) = 9\n1 syscall_0x1b4(0x3, 0x8, 0, 0x7f, 0x7f, 0x7f) = 0\n"
        + opened(1, "decoy", 3)
        + failed(1, 9),
        "/m/a",
    ),
    "a deleted file, as strace before 5.19 annotates it": (
        opened(1, "a", 3) + f'1 write(3</m/a (deleted)>, "x"..., 9) = {ENOSPC}\n',
        "/m/a",
    ),
    "a file whose own name ends so": (
        opened(1, "a (deleted)", 3) + f'1 write(3</m/a (deleted)>, "x"..., 9) = {ENOSPC}\n',
        "/m/a (deleted)",
    ),
    "a superseded thread's end within the line of its call": (
        opened(1, "a", 3)
        + "1 clone(child_stack=0x7f, flags=CLONE_VM|CLONE_FILES|CLONE_FS|CLONE_THREAD) = 2\n"
        + '2 execve("/bin/sh", ["sh"], 0x7f /* 9 vars */ <unfinished ...>\n'
        + "1 execve(0x7f01, 0x7f02, 0x7f031 +++ superseded by execve in pid 2 +++\n"
        + "1 <... execve resumed>) = 0\n"
        + failed(1, 3),
        "/m/a",
    ),
    "children of a pid namespace, whose forks return numbers of their own": (
        opened(10, "a", 3)
        + "10 unshare(CLONE_NEWPID) = 0\n10 clone(child_stack=NULL, flags=SIGCHLD) = 11\n"
        + "11 set_tid_address(0x7f) = 1\n11 clone(child_stack=NULL, flags=SIGCHLD) = 2\n"
        + "11 close(3) = 0\n"
        + opened(11, "decoy", 3)
        + "12 dup2(3, 1) = 1\n12 vfork( <unfinished ...>\n"
        + failed(13, 1)
        + "12 <... vfork resumed>) = 3\n",
        "/m/a",
    ),
    "a number of a pid namespace that is another task's in the log": (
        opened(2, "decoy", 3)
        + "2 clone(child_stack=NULL, flags=CLONE_NEWPID|SIGCHLD) = 11\n11 close(3) = 0\n"
        + opened(11, "a", 3)
        + "11 clone(child_stack=NULL, flags=SIGCHLD) = 2\n11 close(3) = 0\n"
        + failed(12, 3),
        "/m/a",
    ),
    "pids that strace itself translates": (
        opened(11, "a", 3)
        + "11 getpid() = 1 /* 11 in strace's PID NS */\n"
        + "11 clone(child_stack=NULL, flags=SIGCHLD) = 2 /* 12 in strace's PID NS */\n"
        + "11 close(3) = 0\n"
        + failed(12, 3),
        "/m/a",
    ),
    "a path within a chroot": (
        '1 chroot("/jail") = 0\n1 chdir("/") = 0\n1 openat(AT_FDCWD, "a", O_WRONLY) = 3\n'
        + failed(1, 3),
        "/jail/a",
    ),
    "chroot moves those that share it, and no others": (
        "1 fork() = 2\n1 clone(child_stack=0x7f, flags=CLONE_VM|CLONE_FS|CLONE_THREAD) = 3\n"
        + '3 chroot("/jail") = 0\n'
        + opened(1, "a", 3)
        + opened(2, "a", 3)
        + failed(1, 3)
        + failed(2, 3),
        ["/jail/m/a", "/m/a"],
    ),
    "a closed number is another file": (
        opened(1, "a", 3) + "1 close(3) = 0\n" + opened(1, "b", 3) + failed(1, 3),
        "/m/b",
    ),
    "close takes effect when it begins": (
        opened(1, "a", 3)
        + "1 clone(child_stack=0, flags=CLONE_VM|CLONE_FILES|CLONE_THREAD) = 2\n"
        + "1 close(3 <unfinished ...>\n"
        + opened(2, "b", 3)
        + "1 <... close resumed>) = 0\n"
        + failed(2, 3),
        "/m/b",
    ),
    "a table shared by a clone whose flags are numbers": (
        "1 clone(child_stack=0x55d0, flags=0x500|17) = 2\n"
        + opened(2, "a", 3)
        + "2 exit(0) = ?\n2 +++ exited with 0 +++\n"
        + failed(1, 3),
        "/m/a",
    ),
    "a table shared by a thread whose flags are numbers": (
        "1 clone3({flags=0x3d0f00, child_tid=0x7f0, exit_signal=0, tls=0x7f1}, 88) = 2\n"
        + opened(2, "a", 3)
        + failed(1, 3),
        "/m/a",
    ),
    "a child has what was there when the fork began": (
        opened(1, "a", 3)
        + "1 clone(child_stack=NULL, flags=SIGCHLD <unfinished ...>\n1 <... clone resumed>) = 2\n"
        + "1 close(3) = 0\n"
        + opened(1, "decoy", 3)
        + failed(2, 3),
        "/m/a",
    ),
    "a child may be seen before its parent's call returns": (
        opened(1, "a", 3)
        + "1 vfork( <unfinished ...>\n2 dup2(3, 1) = 1\n"
        + failed(2, 1)
        + "1 <... vfork resumed>) = 2\n",
        "/m/a",
    ),
    "two forks at once": (
        opened(1, "a", 3)
        + opened(5, "b", 3)
        + "1 vfork( <unfinished ...>\n5 vfork( <unfinished ...>\n7 getuid() = 0\n"
        + failed(7, 3)
        + "5 <... vfork resumed>) = 7\n1 <... vfork resumed>) = 6\n",
        "/m/b",
    ),
    "a failed close frees the number, unless it was not open": (
        opened(1, "a", 3)
        + "1 close(3) = -1 EIO (Input/output error)\n"
        + opened(1, "b", 3)
        + "1 close(9) = -1 EBADF (Bad file descriptor)\n"
        + failed(1, 3),
        "/m/b",
    ),
    "exec closes what is close-on-exec": (
        opened(1, "a", 3)
        + opened(1, "b", 4, "O_RDWR|O_CLOEXEC")
        + "1 ioctl(3, FIONCLEX) = 0\n"
        + '1 execve("/x", ["x"], 0x7f /* 1 var */) = 0\n'
        + failed(1, 4)
        + failed(1, 3),
        [None, "/m/a"],
    ),
    "a failed exec closes nothing": (
        opened(1, "a", 3, "O_RDWR|O_CLOEXEC")
        + '1 execve("/x", ["x"], 0x7f /* 1 var */) = -1 ENOENT (No such file or directory)\n'
        + failed(1, 3),
        "/m/a",
    ),
    "dup3 with flags": (
        opened(1, "a", 3) + "1 dup3(3, 7, O_CLOEXEC) = 7\n1 close(3) = 0\n" + failed(1, 7),
        "/m/a",
    ),
    "fcntl in raw numbers": (
        '1 openat(-100 /* AT_FDCWD */, "/m/a", 0x1 /* O_WRONLY */) = 3\n'
        "1 fcntl(3, 0x406 /* F_DUPFD_CLOEXEC */, 10) = 10\n" + failed(1, 10),
        "/m/a",
    ),
    "close_range keeps what is outside": (
        opened(1, "a", 3) + "1 dup2(3, 90) = 90\n1 close_range(3, 89, 0) = 0\n" + failed(1, 90),
        "/m/a",
    ),
    "rename while open": (
        opened(1, "tmp", 3) + '1 rename("/m/tmp", "/m/final") = 0\n' + failed(1, 3),
        "/m/final",
    ),
    "rename of a folder above": (
        opened(1, "d/f", 3)
        + '1 renameat2(AT_FDCWD, "/m/d", AT_FDCWD, "/m/e", 0) = 0\n'
        + failed(1, 3),
        "/m/e/f",
    ),
    "a descriptor through a socket pair": (
        "1 socketpair(AF_UNIX, SOCK_STREAM, 0, [5, 6]) = 0\n"
        + opened(1, "a", 3)
        + "1 clone(child_stack=NULL, flags=SIGCHLD) = 2\n"
        + "1 sendmsg(5, {msg_control=[{cmsg_type=SCM_RIGHTS, cmsg_data=[3]}]}, 0) = 1\n"
        + "2 recvmsg(6, {msg_control=[{cmsg_type=SCM_RIGHTS, cmsg_data=[9]}]}, 0) = 1\n"
        + failed(2, 9),
        "/m/a",
    ),
    "the directory moves with fchdir": (
        '1 openat(AT_FDCWD, "/m/d", O_RDONLY|O_DIRECTORY) = 3\n1 fchdir(3) = 0\n'
        '1 openat(AT_FDCWD, "../f", O_WRONLY) = 4\n' + failed(1, 4),
        "/m/f",
    ),
    "a path known later": (
        '1 openat(AT_FDCWD, "f", O_WRONLY) = 4\n1 getcwd("/home/me", 4096) = 9\n' + failed(1, 4),
        "/home/me/f",
    ),
    "threads take over at exec": (
        opened(1, "a", 3)
        + "1 clone(child_stack=0, flags=CLONE_VM|CLONE_FILES|CLONE_FS|CLONE_THREAD) = 2\n"
        + '2 execve("/x", ["x"], 0x7f /* 1 var */ <unfinished ...>\n'
        + "1 +++ superseded by execve in pid 2 +++\n1 <... execve resumed>) = 0\n"
        + failed(1, 3),
        "/m/a",
    ),
    "a pid that comes back is another process": (
        opened(1, "a", 3)
        + "1 fork() = 2\n2 +++ exited with 0 +++\n1 close(3) = 0\n"
        + opened(1, "b", 3)
        + "1 fork() = 2\n"
        + failed(2, 3),
        "/m/b",
    ),
    "copy_file_range writes to its third argument": (
        opened(1, "in", 3)
        + opened(1, "out", 4)
        + f"1 copy_file_range(3, NULL, 4, NULL, 9, 0) = {ENOSPC}\n",
        "/m/out",
    ),
    "sendfile writes to its first": (
        opened(1, "in", 3) + opened(1, "out", 4) + f"1 sendfile(4, 3, NULL, 9) = {ENOSPC}\n",
        "/m/out",
    ),
    "a rename that fails is about its second path": (
        f'1 rename("/m/a", "/m/b") = {ENOSPC}\n',
        "/m/b",
    ),
    "through /proc/self/fd": (
        opened(1, "a", 3)
        + '1 openat(AT_FDCWD, "/proc/self/fd/3", O_WRONLY) = 5\n1 close(3) = 0\n'
        + failed(1, 5),
        "/m/a",
    ),
    "output glued in": (opened(1, "a", 3) + '1 write(3, "y\\n", 2y\n' + f") = {ENOSPC}\n", "/m/a"),
    "a carriage return at every end": (
        (opened(1, "a", 3) + failed(1, 3)).replace("\n", "\r\n"),
        "/m/a",
    ),
}


@pytest.mark.parametrize("block_bytes", [48, 1 << 20])
@pytest.mark.parametrize("name", CASES)
def test_the_right_file(name: str, block_bytes: int) -> None:
    log, wanted = CASES[name]
    if name in ("output glued in", "two forks at once") and block_bytes == 48:
        pytest.skip("both halves must lie in blocks near each other")
    assert found(log, block_bytes=block_bytes) == (wanted if isinstance(wanted, list) else [wanted])


def test_history_of_a_target() -> None:
    log = opened(1, "a", 3, "O_WRONLY|O_CREAT") + '1 write(3, "x", 5) = 5\n1 dup(3) = 4\n'
    (match,) = read(log + failed(1, 4), errors=["ENOSPC"])["matches"]
    target = match["target"]
    assert target["opened"] == {"file": 0, "line": 1, "pid": 1, "syscall": "openat"}
    assert target["given"] == {"file": 0, "line": 3, "pid": 1, "syscall": "dup"}
    assert (target["written_bytes"], target["flags"]) == (5, "O_WRONLY|O_CREAT")
    assert (target["source"], target["kind"], match["fd"]) == ("tracked", "file", 4)


def test_very_many_processes() -> None:
    """Records of those that ended well make room; descriptors and hits stay right."""
    lines = [opened(1, "a", 3)]
    for pid in range(10, 30_010):
        lines.append(f"1 vfork() = {pid}\n")
        if pid % 10_000 == 0:
            lines.append(failed(pid, 3))
        lines.append(f"{pid} +++ exited with 0 +++\n")
    got = read("".join(lines), errors=["ENOSPC"])
    made = [(m["pid"], m["task"]["ppid"]) for m in got["matches"]]
    assert made == [(p * 10_000, 1) for p in (1, 2, 3)]
    assert {m["target"]["path"] for m in got["matches"]} == {"/m/a"}
    assert len(got["processes"]) == 20_000
    assert got["forgotten"] == 30_001 - 20_000


def test_a_wrong_annotation_is_told() -> None:
    log = opened(1, "a", 3) + f'1 write(3</m/z>, "x", 9) = {ENOSPC}\n'
    got = read(log, errors=["ENOSPC"])
    assert got["matches"][0]["target"]["path"] == "/m/z"
    assert got["check"]["wrong"] == 1


def test_mapped_file_under_a_bus_error() -> None:
    log = (
        opened(1, "a", 3)
        + "1 mmap(NULL, 8192, PROT_READ|PROT_WRITE, MAP_SHARED, 3, 0) = 0x7f0000001000\n"
        + "1 close(3) = 0\n"
        + "1 munmap(0x7f0000001000, 4096) = 0\n"
        + "1 --- SIGBUS {si_signo=SIGBUS, si_code=BUS_ADRERR, si_addr=0x7f0000001800} ---\n"
        + "1 --- SIGBUS {si_signo=SIGBUS, si_code=BUS_ADRERR, si_addr=0x7f0000002800} ---\n"
    )
    for text in (log, log.replace("SIGBUS, si_code=BUS_ADRERR", "7, si_code=0x2")):
        matches = read(text, errors=["ENOSPC"], infer_sigbus=True)["matches"]
        assert [m["target"]["path"] for m in matches] == [None, "/m/a"]


MAPS = {
    "plain": "NULL, 8192, PROT_READ|PROT_WRITE, MAP_SHARED, 3, 0",
    "annotated": "NULL, 8192, PROT_READ, MAP_SHARED, 3</m/a>, 0",
    "fixed": "0x7f0000001000, 8192, PROT_READ, MAP_SHARED|MAP_FIXED, 3, 0",
    "names": "addr=NULL, length=8192, prot=PROT_READ, flags=MAP_SHARED, fd=3, offset=0",
    "raw": "0, 0x2000, 0x3, 0x1, 0x3, 0",
    "many flags": "NULL, 8192, PROT_READ, MAP_SHARED_VALIDATE|MAP_POPULATE|MAP_SYNC|MAP_NORESERVE"
    "|0x40000000 /* MAP_??? */, 3, 0",
}


@pytest.mark.parametrize("unmap", ["0x7f0000001000, 4096", "addr=0x7f0000001000, length=4096"])
@pytest.mark.parametrize("arguments", MAPS.values(), ids=MAPS)
def test_mappings_however_they_are_written(arguments: str, unmap: str) -> None:
    bus = "1 --- SIGBUS {si_signo=SIGBUS, si_code=BUS_ADRERR, si_addr=0x7f0000001800} ---\n"
    log = (
        opened(1, "a", 3)
        + f"1 mmap({arguments}) = 0x7f0000001000\n"
        + bus
        + bus.replace("1800", "2800")
        + f"1 munmap({unmap}) = 0\n"
        + bus
        + bus.replace("1800", "2800")
    )
    matches = read(log, infer_sigbus=True, errors=["ENOSPC"])["matches"]
    assert [m["target"]["path"] for m in matches] == ["/m/a", "/m/a", None, "/m/a"]


def test_a_fork_that_returns_long_after_its_child_began() -> None:
    waits = "9 futex(0x7f00, FUTEX_WAKE_PRIVATE, 1) = 0\n"
    log = (
        opened(1, "a", 3)
        + opened(2, "b", 3)
        + "1 vfork( <unfinished ...>\n2 vfork( <unfinished ...>\n"
        + failed(7, 3)
        + 12 * waits
        + "2 <... vfork resumed>) = 7\n"
        + 60 * waits
    )
    for block_bytes in (200, 1 << 18):
        assert found(log, block_bytes=block_bytes) == ["/m/b"]


def test_a_call_on_one_line_that_its_task_died_in() -> None:
    futex = "futex(0x7f00, FUTEX_WAIT_PRIVATE, 0, NULL) = ?"
    log = f"1 {futex}\n1 +++ killed by SIGKILL +++\n2 exit_group(1) = ?\n2 +++ exited with 1 +++\n"
    one, other = read(log)["processes"]
    assert one["blocked"]["syscall"] == "futex"
    assert one["blocked"]["line"] == 1
    assert other["blocked"] is None


def test_what_was_open_when_no_more_could_be_had() -> None:
    log = "".join(opened(1, "shard", fd) for fd in range(3, 9))
    log += "1 pipe([9, 10]) = 0\n1 socket(AF_INET, SOCK_STREAM, 0) = 11\n"
    log += '1 openat(AT_FDCWD, "/m/b", O_RDONLY) = -1 EMFILE (Too many open files)\n'
    (match,) = read(log, errors=["EMFILE"])["matches"]
    assert match["holders"] == (("/m/shard", 6), ("pipes", 2), ("sockets", 1))


def test_a_flood_of_one_errno_does_not_hide_another() -> None:
    flood = "1 futex(0x7f00, FUTEX_WAIT, 0, {tv_sec=1}) = -1 ETIMEDOUT (Connection timed out)\n"
    log = flood * 50 + "1 connect(3, {sa_family=AF_INET}, 16) = -1 ETIMEDOUT (Timed out)\n"
    got = read(log, errors=["ETIMEDOUT"], most_of_one=10, most_matches=12)
    assert [m["syscall"] for m in got["matches"]] == ["futex"] * 10 + ["connect"]
    assert got["match_count"] == 51


@pytest.mark.parametrize("words", [" * 4096 bytes in buffer 0\n", " | 00000  78 78  xx |\n"])
def test_dumps_are_remarks(words: str) -> None:
    counts = read("1 writev(3, [{iov_base=0x7f, iov_len=2}], 1) = 2\n" + words)["counts"]
    assert (counts["remarks"], counts["unparsed"]) == (1, 0)


def test_lines_without_a_pid_are_of_the_only_task() -> None:
    log = (
        'openat(AT_FDCWD, "/m/a", O_WRONLY) = 3\n'
        "clone(child_stack=NULL, flags=SIGCHLDstrace: Process 12 attached\n"
        " <unfinished ...>\n"
        "[pid    12] close(3 <unfinished ...>\n"
        "[pid    11] <... clone resumed>) = 12\n"
        "[pid    12] <... close resumed>) = 0\n"
        f'[pid    11] write(3, "x", 9) = {ENOSPC}\n'
        "[pid    12] +++ exited with 0 +++\n"
        f'write(3, "x", 9) = {ENOSPC}\n'
    )
    got = read(log, errors=["ENOSPC"])
    assert [m["target"]["path"] for m in got["matches"]] == ["/m/a", "/m/a"]
    assert [m["pid"] for m in got["matches"]] == [11, 11]
    assert [p["pid"] for p in got["processes"]] == [11, 12]


@pytest.mark.parametrize("name", ["strace", "/opt/strace-6.8/bin/strace", "./strace-7.2"])
def test_the_name_by_which_strace_was_called(name: str) -> None:
    log = (
        opened(1, "a", 3)
        + f"1 clone(child_stack=NULL, flags=SIGCHLD{name}: Process 12 attached\n"
        + ") = 12\n"
        + f"{name}: Process 12 detached\n"
        + failed(12, 3)
    )
    assert found(log) == ["/m/a"]


def test_a_child_that_ended_before_the_line_of_its_fork() -> None:
    """With -z and -e status= a line stands where its call ended."""
    log = (
        '1 execve("/bin/x", ["x"], 0x7f /* 9 vars */) = 0\n'
        '2 execve("/bin/y", ["y"], 0x7f /* 9 vars */) = 0\n1 vfork() = 2\n'
        "2 +++ exited with 3 +++\n"
    )
    rows = [(p["pid"], p["ppid"], p["argv"]) for p in read(log)["processes"]]
    assert rows == [(1, None, ("x",)), (2, 1, ("y",))]


@pytest.mark.parametrize(
    ("kill", "signal"),
    [
        ("1 kill(2, SIGKILL) = 0\n", "SIGKILL"),
        ("1 kill(2, 9) = 0\n", "SIGKILL"),
        ("1 pidfd_open(2, 0) = 3\n1 pidfd_send_signal(3, SIGKILL, NULL, 0) = 0\n", "SIGKILL"),
        ("1 syscall_0x1b2(0x2, 0) = 3\n1 syscall_0x1a8(0x3, 0x9, 0, 0) = 0\n", "SIGKILL"),
        ("3 kill(2, SIGKILL) = -1 EPERM (Operation not permitted)\n", None),
        (
            "3 kill(2, SIGKILL <unfinished ...>\n1 getppid() = 7\n"
            "3 <... kill resumed>) = -1 EPERM (Operation not permitted)\n",
            None,
        ),
    ],
)
def test_the_end_by_a_signal_that_no_task_is_told_of(kill: str, signal: str | None) -> None:
    log = (
        "1 clone(child_stack=NULL, flags=SIGCHLD) = 2\n"
        "2 clone(child_stack=0x7f, flags=CLONE_VM|CLONE_FILES|CLONE_THREAD) = 4\n" + kill
    )
    log += "4 +++ killed by SIGKILL +++\n2 +++ killed by SIGKILL +++\n"
    got = read(log, signals=["SIGKILL"])
    assert [(m["pid"], m["syscall"]) for m in got["matches"]] == [(2, "SIGKILL")]
    (killed,) = (p for p in got["processes"] if p["pid"] == 2)
    assert killed["ending"]["sender_pid"] == (1 if signal else None)


def test_a_signal_that_was_told_is_one_hit() -> None:
    log = "1 --- SIGSEGV {si_signo=SIGSEGV, si_addr=NULL} ---\n1 +++ killed by SIGSEGV +++\n"
    (match,) = read(log, signals=["SIGSEGV"])["matches"]
    assert match["line"] == 1


def test_arguments_that_were_cut_say_so() -> None:
    words = '["sh", "-c"..., "echo a\\"...\\"", "hf_abc"...]'
    text = f'1 execve("/bin/sh", {words}, 0x7f /* 3 vars */) = 0\n1 +++ exited with 3 +++\n'
    (process,) = read(text)["processes"]
    assert process["argv"] == ("sh", "-c…", 'echo a"..."', "hf_abc…")
