"""Ends that no line of the process itself tells, and failures that were not why it ended."""

from collections.abc import Callable
from pathlib import Path

import pytest

from builders.prose import Prose
from postmortem.analyses.strace import StraceOptions, analyse
from postmortem.report.model import Confidence, Report, Role

Golden = Callable[[str, str], None]

EXEC = 'execve("/bin/x", ["x"], 0x7f /* 9 vars */) = 0\n'
FORK = "clone(child_stack=NULL, flags=CLONE_CHILD_SETTID|SIGCHLD) = 8\n"
LOOKED = (
    'openat(AT_FDCWD, "/opt/lib/libextra.so.1", O_RDONLY|O_CLOEXEC) = -1 ENOENT (No such file)\n'
)


def report(folder: Path, text: str) -> Report:
    log = folder / "log"
    log.write_text(text)
    return analyse([str(log)], StraceOptions())


def child(code: str, status: str) -> str:
    return f"--- SIGCHLD {{si_signo=SIGCHLD, si_code={code}, si_pid=8, si_status={status}}} ---\n"


@pytest.mark.parametrize(
    ("signal", "told"),
    [
        (child("CLD_EXITED", "3"), True),
        (child("CLD_KILLED", "SIGKILL"), False),
        (child("CLD_STOPPED", "SIGSTOP"), False),
    ],
)
def test_a_child_without_lines_ended_as_its_parent_was_told(
    signal: str, told: bool, tmp_path: Path
) -> None:
    made = report(tmp_path, f"{EXEC}{FORK}{signal}exit_group(3) = ?\n+++ exited with 3 +++\n")
    assert ("first_to_fail" in [d.id for d in made.diagnoses]) == told


@pytest.mark.parametrize(
    ("told", "signal"),
    [
        (child("CLD_DUMPED", "SIGSEGV"), "SIGSEGV"),
        ("wait4(8, [{WIFSIGNALED(s) && WTERMSIG(s) == SIGBUS}], 0, NULL) = 8\n", "SIGBUS"),
        (
            "waitid(P_ALL, 0, {si_signo=SIGCHLD, si_code=CLD_KILLED, si_pid=8, si_uid=0, "
            "si_status=SIGABRT, si_utime=0, si_stime=0}, WEXITED, NULL) = 0\n",
            "SIGABRT",
        ),
        ("wait4(8, [{WIFSTOPPED(s) && WSTOPSIG(s) == SIGSEGV}], WSTOPPED, NULL) = 8\n", None),
        ("wait4(8, [{WIFEXITED(s) && WEXITSTATUS(s) == 3}], 0, NULL) = 8\n", None),
    ],
)
@pytest.mark.parametrize("before", [EXEC + FORK, "strace: Process 6 attached\n"])
def test_a_child_that_nobody_traced_crashed_as_its_parent_was_told(
    told: str, signal: str | None, before: str, tmp_path: Path
) -> None:
    made = report(tmp_path, before + told + "getppid() = 1\n")
    crashes = [(d.about.pid, d.about.signal) for d in made.diagnoses if d.id == "crashed"]
    assert crashes == ([(8, signal)] if signal else [])


def test_who_has_no_lines_is_not_said_to_run_on(tmp_path: Path, golden: Golden) -> None:
    made = report(tmp_path, f"{EXEC}{FORK}exit_group(0) = ?\n+++ exited with 0 +++\n")
    golden("child_without_lines.txt", f"{made.verdict}\n")


@pytest.mark.parametrize("pid", ["", "7 "])
def test_the_kernel_sends_sigpipe_in_the_writers_name(pid: str, tmp_path: Path) -> None:
    text = (
        f"{pid}{EXEC}{pid}--- SIGPIPE {{si_signo=SIGPIPE, si_code=SI_USER, si_pid=7, si_uid=0}} "
        f"---\n{pid}+++ killed by SIGPIPE +++\n"
    )
    made = report(tmp_path, text)
    (best,) = made.diagnoses
    assert (best.id, best.about.pid, best.about.signal) == ("ended_by_signal", 7, "SIGPIPE")


def test_who_wrote_for_a_reader_that_had_enough_is_no_failure(tmp_path: Path) -> None:
    fork = "clone(child_stack=NULL, flags=SIGCHLD) ="
    start = f"6 {EXEC}6 pipe2([3, 4], 0) = 0\n6 {fork} 7\n6 {fork} 8\n"
    broken = (
        '7 write(4, "y", 1) = -1 EPIPE (Broken pipe)\n'
        "7 --- SIGPIPE {si_signo=SIGPIPE, si_code=SI_USER, si_pid=7, si_uid=0} ---\n"
        "7 +++ killed by SIGPIPE +++\n"
    )

    def told(reader: int, shell: int) -> list[str]:
        ends = f"8 +++ exited with {reader} +++\n{broken}6 +++ exited with {shell} +++\n"
        return [d.id for d in report(tmp_path, start + ends).diagnoses]

    assert told(0, 0) == []
    assert "connection_lost" not in told(0, 3)
    assert "connection_lost" in told(0, 141)
    assert "connection_lost" in told(1, 1)


def test_what_an_interrupted_process_said_last_is_told(tmp_path: Path) -> None:
    text = f'7 {EXEC}7 write(2, "no answer yet\\n", 14) = 14\n7 +++ killed by SIGTERM +++\n'
    (best,) = report(tmp_path, text).diagnoses
    assert best.id == "ended_by_signal"
    assert "no answer yet" in best.cause


def test_a_log_of_calls_alone_tells_no_end(tmp_path: Path, golden: Golden) -> None:
    text = "epoll_wait(4, [{events=EPOLLIN, data={u32=9, u64=9}}], 32, 998) = 1\n" * 9
    golden("calls_alone.txt", f"{report(tmp_path, text).verdict}\n")


def test_threads_that_end_together_are_one_process(tmp_path: Path) -> None:
    calls = "".join(f"{n} nanosleep({{tv_sec=1, tv_nsec=0}}, NULL) = 0\n" for n in (3, 4, 5))
    ends = "".join(f"{n} +++ exited with 2 +++\n" for n in (5, 4, 3))
    assert report(tmp_path, calls + ends).diagnoses == ()
    apart = "3 +++ exited with 2 +++\n" + calls * 3 + "4 +++ exited with 2 +++\n"
    assert [d.id for d in report(tmp_path, apart).diagnoses] == ["first_to_fail"]


@pytest.mark.parametrize(
    ("ending", "role", "confidence"),
    [
        ("exit_group(127) = ?\n+++ exited with 127 +++\n", Role.ROOT, Confidence.LIKELY),
        (
            'write(2, "x: libextra.so.1: cannot open", 29) = 29\n+++ exited with 1 +++\n',
            Role.ROOT,
            Confidence.LIKELY,
        ),
        ("exit_group(1) = ?\n+++ exited with 1 +++\n", Role.ROOT, Confidence.POSSIBLE),
        ("getppid() = 1\n" * 9, Role.CONTRIBUTING, Confidence.POSSIBLE),
        (
            "getppid() = 1\n" * 4000 + "+++ exited with 1 +++\n",
            Role.CONTRIBUTING,
            Confidence.POSSIBLE,
        ),
    ],
)
def test_a_library_that_is_nowhere_counts_where_it_was_needed(
    ending: str, role: Role, confidence: Confidence, tmp_path: Path
) -> None:
    found = report(tmp_path, EXEC + LOOKED + ending).diagnoses
    (best,) = [d for d in found if d.id == "library_not_found"]
    assert (best.role, best.confidence) == (role, confidence)


def test_who_crashes_is_cited_with_its_last_words(tmp_path: Path) -> None:
    said = 'write(2, "x.c:7: Assertion `n > 2\' failed.\\n", 33) = 33\n'
    died = "--- SIGABRT {si_signo=SIGABRT, si_code=SI_TKILL, si_pid=7} ---\n"
    (best,) = report(tmp_path, f"{EXEC}{said}{died}+++ killed by SIGABRT +++\n").diagnoses
    assert "Assertion `n > 2' failed" in best.cause


@pytest.mark.parametrize(("last", "cut"), [("+++ exited with 0 +++", False), ("brk(NULL", True)])
def test_a_whole_line_without_its_newline_is_not_cut(
    last: str, cut: bool, tmp_path: Path, prose: Prose
) -> None:
    made = report(tmp_path, f"{EXEC}{last}")
    prose(*(one.what for one in made.problems))


def test_what_kills_a_thread_kills_its_process(tmp_path: Path) -> None:
    log = f"7 {EXEC}7 clone(child_stack=0x7f, flags=CLONE_VM|CLONE_THREAD) = 8\n"
    log += "8 getppid() = 1\n7 ioctl(11, 0x19 <unfinished ...>\n8 +++ killed by SIGKILL +++\n"
    (best,) = report(tmp_path, log).diagnoses
    assert (best.id, best.about.pid, best.about.signal) == ("ended_by_signal", 7, "SIGKILL")


def test_words_written_letter_by_letter(tmp_path: Path) -> None:
    said = "".join(f'write(2, "{letter}", 1) = 1\n' for letter in "no route to host")
    made = report(tmp_path, f'{EXEC}{said}write(2, "\\n", 1) = 1\n+++ exited with 6 +++\n')
    assert "no route to host" in made.verdict


# What CUDA asks for at each start, as a user who is not root, and gets on without.
CUDA = (
    'connect(4, {sa_family=AF_UNIX, sun_path="/tmp/nvidia-mps/control"}, 110) = -1 ENOENT (No)\n'
    'unlink("/dev/char/195:0") = -1 EACCES (Permission denied)\n'
    'mknodat(AT_FDCWD, "/dev/nvidiactl", S_IFCHR|0666, makedev(0xc3, 0xff)) = -1 EACCES (No)\n'
)


@pytest.mark.parametrize("ending", ["", "+++ exited with 1 +++\n", "+++ exited with 0 +++\n"])
def test_what_cuda_tries_at_each_start_is_no_failure(ending: str, tmp_path: Path) -> None:
    assert report(tmp_path, EXEC + CUDA + ending).diagnoses == ()


def test_a_device_that_cannot_be_opened_is(tmp_path: Path) -> None:
    text = 'openat(AT_FDCWD, "/dev/nvidia0", O_RDWR) = -1 EACCES (No)\n+++ exited with 1 +++\n'
    assert [d.id for d in report(tmp_path, EXEC + text).diagnoses] == ["device_not_usable"]


ANY_4 = 'sa_family=AF_INET, sin_port=htons(80), sin_addr=inet_addr("0.0.0.0")'
ANY_6 = 'sa_family=AF_INET6, sin6_port=htons(80), inet_pton(AF_INET6, "::", &sin6_addr)'


def bind(fd: int, address: str, result: str) -> str:
    return f"bind({fd}, {{{address}}}, 28) = {result}\n"


IN_USE = "-1 EADDRINUSE (Address already in use)"


@pytest.mark.parametrize(
    ("calls", "confidence"),
    [
        (bind(3, ANY_4, IN_USE), Confidence.CERTAIN),
        (
            bind(3, ANY_4, IN_USE) + 'write(2, "Address already in use\\n", 23) = 23\n',
            Confidence.CERTAIN,
        ),
        (
            bind(3, ANY_4, IN_USE) + 'write(2, "unknown protocol\\n", 17) = 17\n',
            Confidence.POSSIBLE,
        ),
        (bind(5, ANY_6, "0") + bind(6, ANY_4, IN_USE), None),
    ],
)
def test_a_port_in_use_counts_unless_the_process_says_or_has_otherwise(
    calls: str, confidence: Confidence | None, tmp_path: Path
) -> None:
    found = report(tmp_path, f"{EXEC}{calls}exit_group(2) = ?\n+++ exited with 2 +++\n").diagnoses
    port = [d.confidence for d in found if d.id == "address_in_use"]
    assert port == ([] if confidence is None else [confidence])


def test_who_sent_a_signal_that_a_thread_took(tmp_path: Path) -> None:
    thread = "clone3({flags=CLONE_VM|CLONE_THREAD}, 88) = 8\n"
    ends = "".join(f"{pid} +++ killed by SIGALRM +++\n" for pid in (8, 7))
    sent = "8 --- SIGALRM {si_signo=SIGALRM, si_code=SI_USER, si_pid=99, si_uid=0} ---\n"
    (best,) = report(tmp_path, f"7 {EXEC}7 {thread}{sent}{ends}").diagnoses
    assert (best.id, best.about.pid) == ("ended_by_signal", 7)
    assert "pid 99" in best.title
