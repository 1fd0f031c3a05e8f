"""Ends that the run-times of other languages report, with pages behind them."""

from pathlib import Path

import pytest

from postmortem.analyses.ranklogs import RankLogOptions, analyse
from postmortem.readers.java_report import java_frames_beside
from postmortem.report.model import Confidence

HEAD = """\
#
# A fatal error has been detected by the Java Runtime Environment:
#
#  SIGSEGV (0xb) at pc=0x00007f01032d430c, pid=71, tid=72
#
# JRE version: OpenJDK Runtime Environment (17.0)
# Problematic frame:
# V  [libjvm.so+0xed430c]  Unsafe_GetLong+0x12c
#
"""
STACK = """\
Native frames: (J=compiled Java code, j=interpreted, Vv=VM code, C=native code)
V  [libjvm.so+0xed430c]  Unsafe_GetLong+0x12c
j  Store.peek(J)J+2
j  Store.main([Ljava/lang/String;)V+40
v  ~StubRoutines::call_stub

siginfo: si_signo: 11 (SIGSEGV), si_code: 1 (SEGV_MAPERR), si_addr: 0x0000000000000010
"""
PAGES = "".join(f"0x{i:016x} is an unknown value\n" for i in range(300))
_ROUND = "the nodes are cleared\nstatus is sent\nclients begin\n"
HS_ERR = f"{HEAD}\n{PAGES}{STACK}{PAGES}END.\n"


def test_the_report_of_a_jvm(tmp_path: Path) -> None:
    path = tmp_path / "hs_err_pid71.log"
    path.write_text(HS_ERR)
    report = analyse([str(path)], RankLogOptions())
    assert report.failed
    assert "SIGSEGV: in Unsafe_GetLong (libjvm.so)" in report.diagnoses[0].title
    assert java_frames_beside(tmp_path / "core", 72) is None
    told = java_frames_beside(tmp_path / "core", 71)
    assert told is not None
    assert "Store.peek(J)J ← Store.main([Ljava/lang/String;)V" in told


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("#  fatal error: OutOfMemory encountered: Java heap space", "Java heap space"),
        ("FATAL ERROR: Reached heap limit - JavaScript heap out of memory", "Reached heap limit"),
        ("Uncaught TypeError: x is not a function", "TypeError: x is not a function"),
        ("Unhandled exception. App.RowError: no row 7", "App.RowError: no row 7"),
        ("app.rb:3: [BUG] Segmentation fault at 0x8", "Segmentation fault at 0x8"),
        ("panic: runtime error: index out of range [7]", "index out of range [7]"),
        ("fatal error: concurrent map writes", "concurrent map writes"),
        ("thread 71 panic: index out of bounds", "index out of bounds"),
        ("libc++abi: terminating due to uncaught exception of type a::B: no row: 7", "no row: 7"),
        ("A/libc: Fatal signal 11 (SIGSEGV), code 1 (SEGV_MAPERR), fault addr 0x8", "SIGSEGV"),
    ],
)
def test_what_follows_such_an_end_is_its_report(tmp_path: Path, line: str, said: str) -> None:
    path = tmp_path / "err.log"
    path.write_text(f"step 1\n{line}\n{PAGES}")
    report = analyse([str(path)], RankLogOptions())
    assert report.failed
    assert said in report.diagnoses[0].title


@pytest.mark.parametrize(
    "line",
    [
        "a.c:1:10: fatal error: none.h: No such file or directory",
        "#  fatal: not a git repository",
        "request of thread 71 panics: no",
        'the page said "Uncaught TypeError: x"',
    ],
)
def test_words_that_only_sound_so(tmp_path: Path, line: str) -> None:
    path = tmp_path / "err.log"
    path.write_text(f"step 1\n{line}\n" + "".join(f"step {i} loss 0.1\n" for i in range(2, 90)))
    assert not analyse([str(path)], RankLogOptions()).failed


@pytest.mark.parametrize(("behind", "sure"), [("", True), (_ROUND, False), ("round 2\n", True)])
def test_an_end_behind_which_its_log_comes_to_the_same_place_is_not_certain(
    tmp_path: Path, behind: str, sure: bool
) -> None:
    path = tmp_path / "driver.log"
    panic = "panic: no such peer\n\ngoroutine 7 [running]:\nlum.run()\n\t/lum/run.go:3 +0x1\n"
    path.write_text(_ROUND * 3 + panic + behind)
    (found,) = analyse([str(path)], RankLogOptions()).diagnoses
    assert (found.id, found.confidence is Confidence.CERTAIN) == ("rank_crashed", sure)


@pytest.mark.parametrize(
    ("nested", "said"),
    [
        ("    nested task error: SystemError: flush: disk full\n    Stacktrace:\n", "SystemError"),
        (
            "in expression starting at /job/t.jl:8\n    nested task error: KeyError: 7\n",
            "LoadError",
        ),
    ],
)
def test_of_a_task_in_julia_its_own_error_is_told(tmp_path: Path, nested: str, said: str) -> None:
    stack = "Stacktrace:\n [1] wait\n   @ ./task.jl:352 [inlined]\n"
    text = f"ERROR: LoadError: TaskFailedException\n{stack}\n{nested}"
    (tmp_path / "job.log").write_text(text)
    verdict = analyse([str(tmp_path / "job.log")], RankLogOptions()).verdict
    first, _, _ = verdict.partition("Error")
    assert f"{first.split()[-1]}Error" == said


@pytest.mark.parametrize(
    ("text", "core"),
    [
        ("panic: assignment to entry in nil map\n\ngoroutine 1 [running]:\nmain.main()\n", False),
        ("ERROR: LoadError: BoundsError: at index [4]\nStacktrace:\n [1] getindex\n", False),
        ('Exception in thread "main" java.lang.Error: no\n\tat P.main(P.java:1)\n', False),
        ("Unhandled exception. System.InvalidOperationException: no row 7\n", True),
        ("FATAL ERROR: v8::ToLocalChecked Empty MaybeLocal\n", True),
        ("thread 'main' has overflowed its stack\nfatal runtime error: stack overflow\n", True),
        ("[7] signal 11 (1): Segmentation fault\npeek at /job/t.jl:8\nAborted\n", True),
        ("==7==ERROR: AddressSanitizer: SEGV on unknown address\n    #0 0x4 in f a.c:1:2\n", False),
        ("Program received signal SIGSEGV: Segmentation fault\n\nBacktrace:\n#0 0x4 in f\n", True),
    ],
    ids="Go Julia Java .NET V8 Rust-abort Julia-signal ASan Fortran-signal".split(),
)  # fmt: skip
def test_a_core_is_looked_for_only_where_the_language_leaves_one(
    tmp_path: Path, text: str, core: bool
) -> None:
    (tmp_path / "job.log").write_text(text)
    (found,) = analyse([str(tmp_path / "job.log")], RankLogOptions()).diagnoses
    assert found.id == "rank_crashed"
    assert any("postmortem core" in step for step in found.next_steps) == core
    assert not any("PYTHON" in step for step in found.next_steps)
