"""What the summary says beside hits: who waits for whom, connections, folders, time, last words."""

from typing import Any

import pytest

from builders.recordings import read

Row = dict[str, Any]


def summary(log: str, **options: Any) -> Any:
    got = read(log, statistics=True, **options)
    assert got["counts"]["unparsed"] == 0, got["first_unparsed"]
    return got


def task(log: Any, pid: int) -> Any:
    return next(row for row in log["processes"] if row["pid"] == pid)


PIPE = """\
1 pipe2([3, 4], 0) = 0
1 clone(child_stack=NULL, flags=SIGCHLD) = 2
2 close(3) = 0
1 close(4) = 0
2 nanosleep({tv_sec=9, tv_nsec=0},  <unfinished ...>
1 read(3,  <unfinished ...>
"""


def test_who_has_the_other_end_of_a_pipe() -> None:
    (one,) = task(summary(PIPE), 1)["blocked"]["awaited"]
    assert one["other_end_known"]
    assert one["holders"] == ({"pid": 2, "fd": 4},)


def test_a_pipe_whose_other_end_is_closed_has_no_holder() -> None:
    log = PIPE.replace("2 nanosleep", "2 close(4) = 0\n2 nanosleep")
    (one,) = task(summary(log), 1)["blocked"]["awaited"]
    assert not one["other_end_known"]
    assert one["holders"] == ()


def test_poll_and_epoll_say_what_they_wait_for() -> None:
    log = (
        "1 socketpair(AF_UNIX, SOCK_STREAM, 0, [3, 4]) = 0\n"
        "1 clone(child_stack=NULL, flags=SIGCHLD) = 2\n2 close(3) = 0\n1 close(4) = 0\n"
        "1 epoll_create1(EPOLL_CLOEXEC) = 5\n"
        "1 epoll_ctl(5, EPOLL_CTL_ADD, 3, {events=EPOLLIN, data={u32=3, u64=3}}) = 0\n"
        "1 epoll_wait(5,  <unfinished ...>\n"
        "2 poll([{fd=4, events=POLLIN}], 1, -1 <unfinished ...>\n"
    )
    got = summary(log)
    (epoll,) = task(got, 1)["blocked"]["awaited"]
    assert (epoll["fd"], epoll["holders"]) == (3, ({"pid": 2, "fd": 4},))
    (poll,) = task(got, 2)["blocked"]["awaited"]
    assert (poll["fd"], poll["holders"]) == (4, ({"pid": 1, "fd": 3},))


LISTEN = """\
1 socket(AF_INET, SOCK_STREAM, IPPROTO_IP) = 3
1 bind(3, {sa_family=AF_INET, sin_port=htons(0), sin_addr=inet_addr("127.0.0.1")}, 16) = 0
1 getsockname(3, {sa_family=AF_INET, sin_port=htons(5000), sin_addr=inet_addr("127.0.0.1")}, [16]) = 0
1 listen(3, 1) = 0
1 clone(child_stack=NULL, flags=SIGCHLD) = 2
2 socket(AF_INET, SOCK_STREAM, IPPROTO_IP) = 4
2 connect(4, {sa_family=AF_INET, sin_port=htons(5000), sin_addr=inet_addr("127.0.0.1")}, 16) = 0
1 accept4(3, {sa_family=AF_INET, sin_port=htons(40000), sin_addr=inet_addr("127.0.0.1")}, [16], 0) = 7
2 recvfrom(4,  <unfinished ...>
"""  # noqa: E501


def test_the_other_end_of_a_tcp_connection() -> None:
    got = summary(LISTEN)
    (one,) = task(got, 2)["blocked"]["awaited"]
    assert one["holders"] == ({"pid": 1, "fd": 7},)
    assert one["target"]["path"] == "127.0.0.1:5000"
    rows = {(r["pid"], r["fd"]): (r["peer"], r["result"]) for r in got["connections"]}
    assert rows == {
        (2, 4): ("127.0.0.1:5000", "connected"),
        (1, 7): ("127.0.0.1:40000", "accepted"),
    }


TO = '{sa_family=AF_INET, sin_port=htons(9), sin_addr=inet_addr("10.0.0.1")}'
BEGUN = (
    "1 socket(AF_INET, SOCK_STREAM|SOCK_NONBLOCK, IPPROTO_IP) = 3\n"
    f"1 connect(3, {TO}, 16) = -1 EINPROGRESS (Operation now in progress)\n"
)


@pytest.mark.parametrize(
    ("after", "result"),
    [
        ("", "EINPROGRESS"),
        ("1 getsockopt(3, SOL_SOCKET, SO_ERROR, [0], [4]) = 0\n", "connected"),
        ("1 getsockopt(3, SOL_SOCKET, SO_ERROR, [111], [4]) = 0\n", "ECONNREFUSED"),
        ("1 getsockopt(3, SOL_SOCKET, SO_ERROR, [ETIMEDOUT], [4]) = 0\n", "ETIMEDOUT"),
        ('1 write(3, "x", 1) = 1\n', "connected"),
        ("1 poll([{fd=3, events=POLLOUT}], 1, 1000) = 0 (Timeout) <1.001>\n", "timeout"),
        (f"1 connect(3, {TO}, 16) = -1 EISCONN (Already)\n", "connected"),
        (
            "1 getsockopt(3, SOL_SOCKET, SO_ERROR,  <unfinished ...>\n"
            "1 <... getsockopt resumed>[113], [4]) = 0\n",
            "EHOSTUNREACH",
        ),
    ],
)
def test_how_a_connection_in_progress_ended(after: str, result: str) -> None:
    (row,) = summary(BEGUN + after)["connections"]
    assert (row["peer"], row["result"]) == ("10.0.0.1:9", result)


def test_a_wait_that_timed_out_and_one_that_did_not_wait() -> None:
    log = BEGUN + (
        "1 poll([{fd=3, events=POLLOUT}], 1, 1000) = 0 (Timeout) <1.001000>\n"
        "1 poll([{fd=3, events=POLLOUT}], 1, 1000) = 0 (Timeout) <1.002000>\n"
        "1 poll([{fd=3, events=POLLOUT}], 1, 0) = 0 (Timeout) <0.000010>\n"
    )
    (row,) = summary(log)["timeouts"]
    assert (row["syscall"], row["target"], row["count"]) == ("poll", "10.0.0.1:9", 2)
    assert row["seconds"] == 2.003


def test_who_woke_and_who_passed_a_futex() -> None:
    futex = "futex(0x7f0000001000, FUTEX_"
    log = (
        "1 clone(child_stack=1, flags=CLONE_VM|CLONE_FILES|CLONE_THREAD) = 2\n"
        "1 clone(child_stack=1, flags=CLONE_VM|CLONE_FILES|CLONE_THREAD) = 3\n"
        f"2 {futex}WAIT_PRIVATE, 2, NULL <unfinished ...>\n"
        f"1 {futex}WAKE_PRIVATE, 1) = 1\n"
        "2 <... futex resumed>) = 0\n"
        f"3 {futex}WAIT_PRIVATE, 2, NULL <unfinished ...>\n"
    )
    use = task(summary(log), 3)["blocked"]["futex"]
    assert use == {"woken_by": 1, "woken_line": 4, "passed_by": 2, "passed_line": 5}


def test_durations_from_stamps_across_blocks() -> None:
    noise = "".join(f"2 1700000000.{i:06d} getppid() = 1\n" for i in range(100))
    log = f"1 1700000000.000000 fsync(3 <unfinished ...>\n{noise}"
    log += "1 1700000002.500000 <... fsync resumed>) = 0\n"
    for size in (512, 1 << 20):
        got = summary(log, block_bytes=size)
        (slow,) = got["slow"]
        assert slow["match"]["syscall"] == "fsync"
        assert slow["seconds"] == pytest.approx(2.5)
        (row,) = (row for row in got["syscalls"] if row["name"] == "fsync")
        assert row["seconds"] == pytest.approx(2.5)
        assert row["calls"] == 1


def test_a_task_of_which_the_log_has_only_a_wait() -> None:
    got = summary("7 futex(0x7f00, FUTEX_WAIT_PRIVATE, 2, NULL <detached ...>\n")
    assert task(got, 7)["blocked"]["syscall"] == "futex"
    assert got["counts"]["detached"]


def test_midnight() -> None:
    log = "1 23:59:59.500000 fsync(3 <unfinished ...>\n1 00:00:01.000000 <... fsync resumed>) = 0\n"
    (slow,) = summary(log)["slow"]
    assert slow["seconds"] == pytest.approx(1.5)


def test_folders_are_counted_with_what_was_not_there() -> None:
    lines = [
        f'1 {1700000000 + i}.0 openat(AT_FDCWD, "/d/x/f{i}", O_RDONLY) = -1 ENOENT (No such file)\n'
        for i in range(5)
    ]
    lines += ['1 1700000009.0 stat("/d/x/a", {st_mode=S_IFREG}) = 0\n']
    lines += ['1 1700000010.0 openat(AT_FDCWD, "/d", O_RDONLY|O_DIRECTORY) = 3\n']
    lines += ['1 1700000011.0 newfstatat(3, "x/b", {st_mode=S_IFREG}, 0) = 0\n']
    lines += ['1 1700000012.0 chdir("/d") = 0\n', '1 1700000013.0 access("x/c", F_OK) = 0\n']
    rows = {row[0]: row[1:] for row in summary("".join(lines))["folders"]}
    assert rows["/d/x"] == (8, 5, 0, 1.7e9, 1.7e9 + 13)


def test_bytes_and_operations_of_a_file() -> None:
    log = (
        '1 openat(AT_FDCWD, "/a", O_RDWR) = 3\n1 write(3, "abc", 3) = 3\n'
        '1 write(3, "abc", 3) = 2\n1 pread64(3, "ab", 2, 0) = 2\n1 read(3, "", 9) = 0\n'
    )
    (row,) = summary(log)["files"]
    assert row == ("/a", 1, 2, 5, 0, 2, 2)


def test_the_words_and_failures_before_an_exit() -> None:
    log = (
        '1 openat(AT_FDCWD, "/x/train.idx", O_RDONLY) = -1 ENOENT (No such file or directory)\n'
        "1 ioctl(1, TCGETS, 0x7f) = -1 ENOTTY (Inappropriate ioctl for device)\n"
        '1 write(2, "no \\"train\\"\\n", 11) = 11\n1 exit_group(3) = ?\n1 +++ exited with 3 +++\n'
    )
    row = task(summary(log), 1)
    assert row["last_words"] == ('no "train"\n',)
    assert [(f["errno"], f["path"]) for f in row["last_failures"]] == [("ENOENT", "/x/train.idx")]
    assert row["ending"]["code"] == 3
    assert row["ending"]["told"]


def test_words_that_were_cut_say_so() -> None:
    got = summary('1 write(2, "RuntimeErr"..., 90) = 90\n1 write(2, "x\\n", 2) = 2\n')
    assert task(got, 1)["last_words"] == ("RuntimeErr…\n", "x\n")


def test_words_of_a_vector() -> None:
    log = (
        '1 writev(2, [{iov_base="/bin/x", iov_len=6}, {iov_base=": ", iov_len=2}, '
        '{iov_base="error while loading shared libra"..., iov_len=36}, '
        '{iov_base="\\n", iov_len=1}], 4) = 45\n'
    )
    (words,) = task(summary(log), 1)["last_words"]
    assert words == "/bin/x: error while loading shared libra…\n"


def test_the_signal_that_asked_a_program_to_end() -> None:
    log = (
        "1 pipe2([3, 4], 0) = 0\n"
        "1 read(3, 0x7f, 9) = ? ERESTARTSYS (To be restarted if SA_RESTART is set) <5.000000>\n"
        "1 --- SIGINT {si_signo=SIGINT, si_code=SI_USER, si_pid=77, si_uid=0} ---\n"
        "1 kill(1, SIGINT) = 0\n"
        "1 --- SIGINT {si_signo=SIGINT, si_code=SI_USER, si_pid=1, si_uid=0} ---\n"
        "1 +++ killed by SIGINT +++\n"
    )
    row = task(summary(log), 1)
    assert row["ending"]["sender_pid"] == 1
    (one,) = row["interruptions"]
    assert (one["signal"], one["sender_pid"], one["line"]) == ("SIGINT", 77, 3)
    assert (one["syscall"], one["target"], one["seconds"]) == ("read", "a pipe", 5.0)


def test_an_end_that_only_the_call_to_exit_tells() -> None:
    got = summary("1 getpid() = 1\n1 exit_group(4) = ?\n")
    assert task(got, 1)["ending"]["code"] == 4
    assert not task(got, 1)["ending"]["told"]


def test_ranks_of_an_environment_reach_children() -> None:
    log = (
        '1 execve("/bin/x", ["x"], ["HOME=/", "RANK=3", "LOCAL_RANK=1"]) = 0\n'
        "1 clone(child_stack=NULL, flags=SIGCHLD) = 2\n"
        '2 write(9, "x", 1) = -1 ENOSPC (No space left on device)\n'
    )
    got = summary(log, errors=["ENOSPC"])
    assert got["matches"][0]["task"]["environment"] == ("RANK=3", "LOCAL_RANK=1")
    assert task(got, 2)["environment"] == ("RANK=3", "LOCAL_RANK=1")


def test_children_without_a_line() -> None:
    got = summary("1 clone(child_stack=NULL, flags=SIGCHLD) = 2\n1 getpid() = 1\n")
    assert [task(got, pid)["recorded"] for pid in (1, 2)] == [True, False]


def test_totals_of_one_process() -> None:
    log = (
        "1 clone(child_stack=NULL, flags=SIGCHLD) = 2\n"
        '1 openat(AT_FDCWD, "/a", O_RDWR) = 3\n1 write(3, "abc", 3) = 3\n'
        '2 openat(AT_FDCWD, "/b", O_RDWR) = 3\n2 write(3, "abc", 3) = -1 ENOSPC (full)\n'
        '1 write(3, "abc", 3) = -1 ENOSPC (full)\n'
    )
    got = summary(log, errors=["ENOSPC"], only=2)
    assert [match["pid"] for match in got["matches"]] == [2]
    assert [row[0] for row in got["files"]] == ["/b"]


ALL = {"errors": [], "calls": [], "pid": None, "fd": None, "path": None, "slower": 0}
ASKED = (
    '1 openat(AT_FDCWD, "/d/a", O_RDWR) = 3 <0.000010>\n'
    '1 openat(AT_FDCWD, "/e/b", O_RDWR) = 4 <0.500000>\n'
    '1 write(3, "x", 1) = 1 <0.000010>\n2 write(3, "x", 1) = 1 <2.000000>\n'
    '1 write(4, "x", 1) = -1 ENOSPC (full) <0.000010>\n'
)


@pytest.mark.parametrize(
    ("query", "lines"),
    [
        ({"path": "/d/*"}, [1, 3]),
        ({"path": "/?/[!a]"}, [2, 5]),
        ({"pid": 2}, [4]),
        ({"fd": 3}, [3, 4]),
        ({"slower": 100_000_000}, [2, 4]),
        ({"slower": 100_000_000, "calls": ["write"]}, [4]),
        ({"errors": ["ENOSPC"], "path": "/d/*"}, []),
        ({"errors": ["ENOSPC"], "path": "/e/*", "fd": 4, "pid": 1}, [5]),
    ],
)
def test_queries(query: Row, lines: list[int]) -> None:
    got = read(ASKED, queries=[{**ALL, **query}])
    assert [match["line"] for match in got["matches"]] == lines
    assert got["match_count"] == len(lines)


def test_hits_that_do_not_hold_leave_room_for_those_that_do() -> None:
    log = '1 write(3, "x", 1) = 1\n' * 50 + ASKED
    got = read(log, queries=[{**ALL, "path": "/e/*"}], most_matches=3)
    assert [match["line"] for match in got["matches"]] == [52, 55]


def test_what_an_alarm_ended() -> None:
    log = (
        '1 openat(AT_FDCWD, "/data/a.lock", O_WRONLY|O_CREAT, 0666) = 3\n'
        "1 flock(3, LOCK_EX) = ? ERESTARTSYS (To be restarted if SA_RESTART is set)\n"
        "1 --- SIGALRM {si_signo=SIGALRM, si_code=SI_KERNEL} ---\n"
    )
    got = task(summary(log + "1 +++ killed by SIGALRM +++\n"), 1)
    (one,) = got["interruptions"]
    assert (one["signal"], one["syscall"], one["target"]) == ("SIGALRM", "flock", "/data/a.lock")
    ticks = task(summary(log * 9 + "1 exit_group(1) = ?\n1 +++ exited with 1 +++\n"), 1)
    assert ticks["interruptions"] == ()  # it handled them


def test_what_was_open_for_writing_when_a_process_failed() -> None:
    log = (
        '1 openat(AT_FDCWD, "/data/in", O_RDONLY) = 3\n'
        '1 openat(AT_FDCWD, "/data/out", O_WRONLY|O_CREAT, 0666) = 4\n'
        '1 openat(AT_FDCWD, "/data/done", O_RDWR|O_CREAT, 0666) = 5\n1 close(5) = 0\n'
    )
    got = summary(log + "1 exit_group(1) = ?\n1 +++ exited with 1 +++\n")
    assert task(got, 1)["open_for_writing"] == ("/data/out",)
    got = summary(log + "1 exit_group(0) = ?\n1 +++ exited with 0 +++\n")
    assert task(got, 1)["open_for_writing"] == ()


CLIENT = """\
1 socket(AF_INET, SOCK_STREAM|SOCK_CLOEXEC, IPPROTO_TCP) = 3
1 connect(3, {sa_family=AF_INET, sin_port=htons(80), sin_addr=inet_addr("10.0.0.7")}, 16) = 0
1 epoll_create1(EPOLL_CLOEXEC) = 4
1 epoll_ctl(4, EPOLL_CTL_ADD, 3, {events=EPOLLIN, data={u32=3, u64=3}}) = 0
1 sendto(3, "GET /", 5, 0, NULL, 0) = 5
1 epoll_wait(4, [], 8, 1000) = 0
1 poll([{fd=3, events=POLLIN}], 1, 500) = 0 (Timeout)
"""


def test_waits_in_vain_are_kept_with_their_connection() -> None:
    (one,) = summary(CLIENT)["connections"]
    assert (one["asked"], one["silent_waits"], one["silent_line"]) == (True, 2, 7)
    assert one["silent_text"].startswith("poll([{fd=3")
    (one,) = summary(CLIENT + '1 recvfrom(3, "HTTP", 9, 0, NULL, NULL) = 4\n')["connections"]
    assert (one["asked"], one["silent_waits"]) == (False, 0)
    (one,) = summary(CLIENT + '1 recvfrom(3, "", 9, 0, NULL, NULL) = 0\n')["connections"]
    assert one["silent_waits"] == 0  # it was closed: no silence


def test_a_look_up_after_a_traceback_is_no_failure() -> None:
    log = (
        '1 openat(AT_FDCWD, "/data/x", O_RDONLY) = -1 ENOENT (No such file or directory)\n'
        '1 write(2, "Traceback (most recent call last"..., 35) = 35\n'
        '1 openat(AT_FDCWD, "<string>", O_RDONLY) = -1 ENOENT (No such file or directory)\n'
        '1 openat(AT_FDCWD, "/data/y", O_RDONLY) = -1 EISDIR (Is a directory)\n'
        "1 +++ exited with 1 +++\n"
    )
    got = task(summary(log), 1)
    assert [row["path"] for row in got["last_failures"]] == ["/data/x", "/data/y"]
    assert got["last_word_lines"] == (2,)


def test_what_is_said_to_name_servers() -> None:
    log = (
        "1 socket(AF_INET, SOCK_DGRAM, IPPROTO_IP) = 3\n"
        '1 sendto(3, "\\1\\2", 30, 0, {sa_family=AF_INET, sin_port=htons(53), '
        'sin_addr=inet_addr("10.0.0.2")}, 16) = 30\n'
        '1 recvfrom(3, "\\3\\4", 512, 0, {sa_family=AF_INET, sin_port=htons(53), '
        'sin_addr=inet_addr("10.0.0.2")}, [16]) = 30\n'
        '1 sendto(3, "no", 2, 0, {sa_family=AF_INET, sin_port=htons(54), '
        'sin_addr=inet_addr("10.0.0.2")}, 16) = 2\n'
    )
    rows = summary(log)["name_messages"]
    assert [(r["line"], r["answer"], r["data"], r["peer"]) for r in rows] == [
        (2, False, "\\1\\2", "10.0.0.2:53"),
        (3, True, "\\3\\4", "10.0.0.2:53"),
    ]
