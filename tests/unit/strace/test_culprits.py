"""Who is blamed, where several processes ended badly or several calls failed."""

from collections.abc import Callable
from pathlib import Path

import pytest

from builders.prose import Prose
from postmortem.analyses.strace import StraceOptions, analyse
from postmortem.diagnose.strace.ending.killed_by_process import GivenUp
from postmortem.diagnose.strace.lastfailures import is_asking
from postmortem.errors import EvidenceError
from postmortem.facts.syscalls import Ending, LastFailure, SystemCalls, Task
from postmortem.readers.strace import Question, read_strace
from postmortem.readers.stracefind import find_logs
from postmortem.report.model import Report

Golden = Callable[[str, str], None]

EXEC = 'execve("/bin/x", ["x"], 0x7f /* 9 vars */) = 0\n'
CLONE = "clone(child_stack=NULL, flags=SIGCHLD) = "


def report(folder: Path, **files: str) -> Report:
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)
    one = folder / "log"
    return analyse([str(one if one.exists() else folder)], StraceOptions())


def test_a_single_file_keeps_its_name_and_files_of_ff_their_prefix(tmp_path: Path) -> None:
    for name in ("core.7", "log.1", "log.2"):
        (tmp_path / name).write_text(EXEC)
    assert find_logs([str(tmp_path / "core.7")])[0].name == str(tmp_path / "core.7")
    pair = find_logs([str(tmp_path / "log.1"), str(tmp_path / "log.2")])
    assert [(one.name, len(one.files)) for one in pair] == [(str(tmp_path / "log"), 2)]


def calls(folder: Path, text: str) -> SystemCalls:
    log = folder / "log"
    log.write_text(text)
    return read_strace(find_logs([str(log)])[0], Question(statistics=True)).calls


def ended_files(stamp: str) -> dict[str, str]:
    """Return the logs of -ff of a launcher whose second worker fails, and then is the first."""
    died = "+++ exited with 1 +++\n"
    return {
        "log_1": f"{stamp}1.0 {EXEC}{stamp}1.1 {CLONE}2\n{stamp}1.2 {CLONE}3\n"
        f"{stamp}3.1 exit_group(1) = ?\n{stamp}3.2 {died}",
        "log_2": f"{stamp}1.3 close(3) = 0\n{stamp}3.0 {died}",
        "log_3": f"{stamp}1.4 close(3) = 0\n" + f"{stamp}1.5 getppid() = 1\n" * 9
        + f"{stamp}2.0 {died}",
    }  # fmt: skip


def test_files_of_ff_are_in_the_order_of_their_stamps(tmp_path: Path) -> None:
    (found,) = report(tmp_path, **ended_files("170000000")).diagnoses
    assert found.id == "first_to_fail"
    assert found.about.pid == 3


def test_who_was_killed_before_the_launcher_ended_is_no_cascade_of_its_end(tmp_path: Path) -> None:
    launcher = f"1 {EXEC}1 {CLONE}2\n1 kill(2, SIGTERM) = 0\n1 exit_group(9) = ?\n"
    worker = (
        "1700000002.0 close(3) = 0\n1700000002.1 --- SIGTERM {si_signo=SIGTERM, si_code=SI_USER, "
        "si_pid=1, si_uid=0} ---\n1700000002.2 +++ killed by SIGTERM +++\n"
    )
    lines = launcher.replace("\n1 ", "\n").removeprefix("1 ").splitlines()
    stamped = "".join(f"170000000{n}.0 {line}\n" for n, line in enumerate(lines))
    made = report(tmp_path, log_1=stamped + "1700000005.0 +++ exited with 9 +++\n", log_2=worker)
    (found,) = [one for one in made.diagnoses if one.id == "killed_by_process"]
    assert found.role == "root"


@pytest.mark.parametrize(("code", "sender", "failed"), [(0, 1, False), (9, 1, True), (0, 7, True)])
def test_who_ends_a_child_and_then_ends_well_meant_it(
    tmp_path: Path, code: int, sender: int, failed: bool
) -> None:
    log = (
        f"1 {EXEC}1 {CLONE}2\n2 {EXEC}{sender} kill(2, SIGKILL) = 0\n"
        f"2 +++ killed by SIGKILL +++\n1 exit_group({code}) = ?\n1 +++ exited with {code} +++\n"
    )
    assert report(tmp_path, log=log).failed is failed


@pytest.mark.parametrize(
    ("signal", "sender", "words", "given_up"),
    [
        ("SIGTERM", 1, ("bad sample\n",), True),
        ("SIGTERM", 1, (), False),  # timeout(1) says nothing: its limit is the reason
        ("SIGKILL", 1, ("bad sample\n",), False),
        ("SIGTERM", 9, ("bad sample\n",), False),
    ],
)
def test_who_fails_may_end_what_it_started(
    signal: str, sender: int, words: tuple[str, ...], given_up: bool
) -> None:
    failed = Ending("log", 30, 1, None, False)
    main = Task(1, None, None, ("x",), failed, None, last_words=words)
    server = Task(2, 1, None, ("server",), Ending("log", 20, 0, None, False), None)
    killed = Ending("log", 10, None, signal, False, sender_pid=sender)
    worker = Task(3, 2, None, ("worker",), killed, None)
    assert GivenUp((main, server, worker))(worker) is given_up


def test_a_child_of_vfork_that_ends_first_is_one_process(tmp_path: Path) -> None:
    log = (
        f"1 {EXEC}1 vfork( <unfinished ...>\n"
        '2 execve("/opt/x", ["x"], 0x7f /* 9 vars */) = -1 ENOENT (No such file or directory)\n'
        "2 exit_group(255) = ?\n2 +++ exited with 255 +++\n"
        "1 <... vfork resumed>) = 2\n1 exit_group(0) = ?\n1 +++ exited with 0 +++\n"
    )
    tasks = calls(tmp_path, log).tasks
    assert [(task.pid, task.ppid, task.ending and task.ending.code) for task in tasks] == [
        (1, None, 0),
        (2, 1, 255),
    ]


@pytest.mark.parametrize(
    ("errno", "syscall", "path", "asking"),
    [
        ("ENOENT", "openat", "/data/a.bin", False),
        ("ENOENT", "newfstatat", "/data/a.bin", True),
        ("ENOENT", "openat", "/lib/x86_64-linux-gnu/libc.so.6.dwp", True),
        ("ENOENT", "openat", "/usr/lib/debug/.build-id/aa/bb.debug", True),
        ("ENOENT", "openat", None, True),
        ("EISDIR", "openat", "/usr/lib/debug", False),
    ],
)
def test_what_a_program_asks_for(errno: str, syscall: str, path: str | None, asking: bool) -> None:
    assert is_asking(LastFailure(errno, syscall, path, "log", 1, 1)) is asking


@pytest.mark.parametrize(
    "probe",
    [
        "1 ioctl(3, SIOCETHTOOL, 0x7f) = -1 EOPNOTSUPP (Operation not supported)\n",
        "1 pkey_alloc(0, 0) = -1 EINVAL (Invalid argument)\n",
        "1 fcntl(9, F_GETFL) = -1 EBADF (Bad file descriptor)\n",
        '1 execve("/usr/local/bin/x", ["x"], 0x7f /* 9 vars */) = -1 ENOENT (No such file)\n',
    ],
)
def test_what_a_kernel_refuses_is_no_reason(probe: str, tmp_path: Path) -> None:
    made = report(
        tmp_path, log=f"{probe}1 {EXEC}{probe}1 exit_group(1) = ?\n1 +++ exited with 1 +++\n"
    )
    assert (made.failed, made.diagnoses) == (True, ())


@pytest.mark.parametrize(
    ("told", "call", "sender"),
    [
        ("--- SIGCHLD {si_signo=SIGCHLD, si_code=CLD_EXITED, si_pid=2, si_uid=0} ---\n", "", None),
        ("--- SIGUSR1 {si_signo=SIGUSR1, si_code=SI_USER, si_pid=2, si_uid=0} ---\n", "", None),
        ("", "kill(0, SIGKILL) = ?\n1 ", 1),
    ],
)
def test_who_sent_another_signal_before_did_not_send_the_last(
    told: str, call: str, sender: int | None, tmp_path: Path
) -> None:
    log = f"1 {EXEC}1 {CLONE}2\n2 exit_group(0) = ?\n2 +++ exited with 0 +++\n"
    log += f"1 {told}" if told else ""
    log += f"1 {call}+++ killed by SIGKILL +++\n"
    (task,) = [one for one in calls(tmp_path, log).tasks if one.pid == 1]
    assert task.ending is not None
    assert (task.ending.signal, task.ending.sender_pid or None) == ("SIGKILL", sender)


@pytest.mark.parametrize(
    ("call", "sender"),
    [
        ("1 kill(0, SIGKILL <unfinished ...>\n", 1),
        ("1 kill(-2, SIGKILL) = 0\n", 1),
        ("1 kill(-9, SIGKILL) = 0\n", None),
        ("1 kill(-2, SIGKILL) = -1 ESRCH (No such process)\n", None),
        ("1 kill(2, SIGKILL) = 0\n", None),
        ("1 kill(-2, SIGTERM) = 0\n", None),
    ],
)
def test_who_kills_a_group_kills_what_its_members_started(
    call: str, sender: int | None, tmp_path: Path
) -> None:
    log = f"1 {EXEC}1 {CLONE}2\n2 {EXEC}2 {CLONE}3\n3 {EXEC}{call}3 +++ killed by SIGKILL +++\n"
    task = next(one for one in calls(tmp_path, log).tasks if one.pid == 3)
    assert task.ending is not None
    assert (task.ending.sender_pid or None) == sender
    found = {one.id: one for one in report(tmp_path, log=log).diagnoses}
    if sender is not None:
        assert found["killed_by_process"].confidence == "likely"


def test_words_before_an_exec_are_of_the_program_before(tmp_path: Path) -> None:
    said = '1 write(2, "sh: line 4: cd: x: No such file\\n", 32) = 32\n'
    end = "1 exit_group(1) = ?\n1 +++ exited with 1 +++\n"
    for log, words in ((f"1 {EXEC}{said}1 {EXEC}{end}", 0), (f"1 {EXEC}{said}{end}", 1)):
        (task,) = calls(tmp_path, log).tasks
        assert len(task.last_words) == words


def test_the_last_failure_of_another_process_is_said_to_be_its(
    tmp_path: Path, golden: Golden
) -> None:
    missing = 'openat(AT_FDCWD, "/data/a.bin", O_RDONLY) = -1 ENOENT (No such file)\n'
    log = f"1 {EXEC}1 {missing}1 {CLONE}2\n2 kill(2, SIGUSR1) = ?\n2 +++ killed by SIGUSR1 +++\n"
    verdict = report(tmp_path, log=log + "1 exit_group(1) = ?\n1 +++ exited with 1 +++\n").verdict
    golden("last_failure_of_another.txt", f"{verdict}\n")


def test_a_working_directory_that_is_gone(tmp_path: Path, golden: Golden) -> None:
    log = (
        f"1 {EXEC}1 getcwd(0x7f, 1024) = -1 ENOENT (No such file or directory)\n"
        '1 write(2, "OSError: [Errno 2]\\n", 19) = 19\n1 exit_group(1) = ?\n'
        "1 +++ exited with 1 +++\n"
    )
    (found,) = report(tmp_path, log=log).diagnoses
    golden("working_directory_gone.txt", f"{found.title}\n{found.cause}\n")


STOPPED = "--- stopped by {} ---\n"


def test_a_process_that_is_stopped_waits_for_a_signal(tmp_path: Path, golden: Golden) -> None:
    goes_on = "1 --- SIGCONT {si_signo=SIGCONT, si_code=SI_USER} ---\n"
    stopped = STOPPED.format("SIGSTOP")
    ends = [stopped, STOPPED.format("SIGTTIN"), stopped + goes_on]
    ends.append(stopped + "1 +++ killed by SIGKILL +++\n")
    begin = f"1 {EXEC}1 read(0, <unfinished ...>\n1 "
    said = [report(tmp_path, log=begin + lines).verdict for lines in ends]
    golden("stopped_at_the_end.txt", "".join(f"{verdict}\n" for verdict in said))


def test_an_empty_log_may_be_of_a_busy_loop(tmp_path: Path, prose: Prose) -> None:
    with pytest.raises(EvidenceError) as refused:
        report(tmp_path, log="")
    prose(refused.value)
