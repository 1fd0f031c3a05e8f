"""What the processor found is in the line of a signal, whichever thread was told of it."""

from pathlib import Path

import pytest

from postmortem.analyses.strace import StraceOptions, analyse
from postmortem.diagnose.strace.signals import CRASHES, crash_words
from postmortem.facts.syscalls import Ending
from postmortem.readers.strace import Question, read_recordings
from postmortem.report.model import Report

THREADS = """\
7 clone3({flags=CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_SIGHAND|CLONE_THREAD}, 88) = 8
8 --- SIGSEGV {si_signo=SIGSEGV, si_code=SEGV_ACCERR, si_addr=0x7f6f21bb1000} ---
8 --- SIGSEGV {si_signo=SIGSEGV, si_code=SI_TKILL, si_pid=7, si_uid=0} ---
8 +++ killed by SIGSEGV +++
7 +++ killed by SIGSEGV +++
"""


def faults(log: Path) -> list[str | None]:
    (read,) = read_recordings([str(log)], Question(statistics=True))
    return [task.ending.fault for task in read.calls.tasks if task.ending is not None]


def test_a_process_has_the_fault_of_its_thread(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(THREADS)
    assert [fault and "si_addr=0x7f6f21bb1000" in fault for fault in faults(log)] == [True, True]


def test_the_fault_of_another_signal_is_not_that_of_the_end(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(THREADS.replace("killed by SIGSEGV", "killed by SIGABRT"))
    assert faults(log) == [None, None]


@pytest.mark.parametrize(
    ("signal", "fields", "word"),
    [
        ("SIGSEGV", "si_code=SEGV_MAPERR, si_addr=NULL", "null"),
        ("SIGSEGV", "si_code=SEGV_MAPERR, si_addr=0x8", "null"),
        ("SIGSEGV", "si_code=SEGV_MAPERR, si_addr=0x55d0c0de1000", "0x55d0c0de1000"),
        ("SIGSEGV", "si_code=SEGV_MAPERR, si_addr=0x7fffa98b0b4c", "stack"),
        ("SIGSEGV", "si_code=SEGV_ACCERR, si_addr=0x55d0c0de1000", "read-only"),
        ("SIGFPE", "si_code=FPE_INTDIV, si_addr=0x55d0c0de1000", "zero"),
        ("SIGSYS", "si_code=SYS_SECCOMP, si_call_addr=0x7f, si_syscall=__NR_mbind", "mbind"),
        ("SIGSEGV", "si_code=SEGV_NEW, si_addr=0x8", CRASHES["SIGSEGV"]),
        ("SIGSEGV", "si_code=SEGV_MAPERR, si_addr=…", CRASHES["SIGSEGV"]),
    ],
)
def test_words_say_what_the_processor_found(signal: str, fields: str, word: str) -> None:
    fault = f"{signal} {{si_signo={signal}, {fields}}} ---"
    assert word in crash_words(Ending("log", 1, None, signal, False, fault=fault))


def test_the_call_that_failed_is_told_not_the_look_why(tmp_path: Path) -> None:
    log = tmp_path / "log"
    said = "mkdir: cannot create directory '/proc/ckpt': No such file or directory"
    log.write_text(
        'mkdir("/proc/ckpt", 0777) = -1 ENOENT (No such file or directory)\n'
        'chdir("/proc/ckpt") = -1 ENOENT (No such file or directory)\n'
        f'write(2, "{said}\\n", {len(said) + 1}) = {len(said) + 1}\n'
        "exit_group(1) = ?\n+++ exited with 1 +++\n"
    )
    (found,) = analyse([str(log)], StraceOptions()).diagnoses
    assert (found.id, found.evidence[0].where) == ("named_its_error", "log:1")


def test_memory_for_a_stack_counts_not_what_malloc_tried_before(tmp_path: Path) -> None:
    log = tmp_path / "log"
    refused = "-1, 0) = -1 ENOMEM (Cannot allocate memory)\n"
    log.write_text(
        f"8 mmap(NULL, 134217728, PROT_NONE, MAP_PRIVATE|MAP_ANONYMOUS|MAP_NORESERVE, {refused}"
        f"7 mmap(NULL, 8392704, PROT_NONE, MAP_PRIVATE|MAP_ANONYMOUS|MAP_STACK, {refused}"
        "7 exit_group(1) = ?\n7 +++ exited with 1 +++\n8 +++ exited with 1 +++\n"
    )
    (found,) = [
        row for row in analyse([str(log)], StraceOptions()).diagnoses if row.id == "memory_refused"
    ]
    assert "/proc/7/maps" in found.next_steps[1]


def analyse_text(folder: Path, log: str) -> Report:
    path = folder / "log"
    path.write_text(log)
    return analyse([str(path)], StraceOptions())


def test_a_process_that_kills_itself_is_a_culprit_but_not_one_that_passes_it_on(
    tmp_path: Path,
) -> None:
    itself = "8 kill(8, SIGKILL) = ?\n8 +++ killed by SIGKILL +++\n"
    (found,) = analyse_text(tmp_path, itself).diagnoses
    assert (found.id, found.about.pid) == ("killed_by_process", 8)
    child = "7 clone(child_stack=NULL, flags=CLONE_CHILD_SETTID|SIGCHLD) = 8\n" + itself
    passed = "7 kill(7, SIGKILL) = ?\n7 +++ killed by SIGKILL +++\n"
    report = analyse_text(tmp_path, child + passed)
    assert [row.about.pid for row in report.diagnoses] == [8]


def test_sigkill_at_the_limit_of_processor_time_cites_the_limit(tmp_path: Path) -> None:
    limited = "7 prlimit64(0, RLIMIT_CPU, {rlim_cur=1, rlim_max=1}, NULL) = 0\n"
    (found,) = analyse_text(tmp_path, f"{limited}7 +++ killed by SIGKILL +++\n").diagnoses
    assert [row.where for row in found.evidence] == ["log:2", "log:1"]
    (found,) = analyse_text(tmp_path, "7 brk(NULL) = 0x1\n7 +++ killed by SIGKILL +++\n").diagnoses
    assert [row.where for row in found.evidence] == ["log:2"]
