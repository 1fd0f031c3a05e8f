"""Logs with text around them, as people paste them, and calls that the text breaks off."""

from collections.abc import Callable
from pathlib import Path

import pytest

from postmortem.analyses.strace import StraceOptions, analyse
from postmortem.errors import EvidenceError
from postmortem.readers.stracefind import looks_like_log
from postmortem.report.model import Report

Golden = Callable[[str, str], None]

ATTACHED = "strace: Process 7 attached\n"
CALL = 'read(5, "a", 1) = 1\n'
WAIT = "futex(0x7f, FUTEX_WAIT_PRIVATE, 0, NULL"


def report(folder: Path, text: str) -> Report:
    log = folder / "log"
    log.write_text(text)
    return analyse([str(log)], StraceOptions())


def waits(made: Report) -> list[tuple[str, int]]:
    rows = dict(made.body)["waits"]
    assert isinstance(rows, (list, tuple))
    return [(row["syscall"], row["line"]) for row in rows]


@pytest.mark.parametrize(
    ("text", "syscall"),
    [
        pytest.param(f"{CALL}{WAIT}\n```\nAny idea?\n", "futex", id="a fence"),
        pytest.param(f"{CALL}{WAIT}^CProcess 7 detached\n", "futex", id="an interrupt"),
        pytest.param(f"{CALL}wait4(-1, Segmentation fault\n$ \n", "wait4", id="another's words"),
        pytest.param(f"{CALL}[pid 9] {WAIT}\n\n", "futex", id="of one of several"),
        pytest.param(f"{CALL}{WAIT}", "futex", id="the end of the file"),
    ],
)
def test_a_call_that_text_breaks_off_is_one_that_its_task_is_in(
    text: str, syscall: str, tmp_path: Path
) -> None:
    assert waits(report(tmp_path, text)) == [(syscall, 2)]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f'write(1, "a", 1\n{CALL}', id="it went on"),
        pytest.param('write(1, "hello\\n", 6hello\n) = 6\n', id="its end is behind the words"),
        pytest.param(f"{CALL}frobnicate(this) fails (see above)\n", id="prose"),
        pytest.param('write(1, "a", 1\n+++ exited with 0 +++\n', id="it ended"),
    ],
)
def test_no_task_is_in_a_call_that_is_over(text: str, tmp_path: Path) -> None:
    assert waits(report(tmp_path, text)) == []


def test_who_says_that_strace_was_attached_shows_a_log(tmp_path: Path) -> None:
    prose = "It hangs.\n" * 9
    assert waits(report(tmp_path, f"{prose}{ATTACHED}{WAIT}\n{prose}")) == [("futex", 11)]
    with pytest.raises(EvidenceError):
        report(tmp_path, f"{prose}{WAIT}\n{prose}")


def test_a_prompt_with_its_command_shows_a_log(tmp_path: Path) -> None:
    prose = "It hangs.\n" * 9
    shown = f"{prose}[root@box tmp]# strace -e file ./app 2>&1 | tail\n"
    assert report(tmp_path, f'{shown}open("/dev/null", O_WRONLY) = -1 EMFILE (x)\n').diagnoses


def test_what_interrupted_a_process_that_went_on_is_told(tmp_path: Path, golden: Golden) -> None:
    signal = "--- SIGINT {si_signo=SIGINT, si_code=SI_KERNEL} ---\n"
    text = f"{WAIT}) = ? ERESTARTSYS (To be restarted)\n{signal}rt_sigreturn({{mask=[]}}) = 202\n"
    golden("interrupted.txt", f"{report(tmp_path, text).verdict}\n")


@pytest.mark.parametrize("own", ["strace: Process 7 attached", "Process 7 attached with 2 threads"])
def test_a_file_in_which_strace_speaks_is_taken_for_a_log(own: str) -> None:
    assert looks_like_log(f"It hangs:\n{own}\n".encode())
    assert not looks_like_log(b"Process 7 started\n")
