"""How logs read of which no known form says how they ended."""

import json
from pathlib import Path

import pytest

from builders.ranklogs import report_of
from postmortem.report.model import Outcome

_WELL = (Outcome.HEALTHY, False)
UNKNOWN, FAILED = (Outcome.UNKNOWN, False), (Outcome.FAILED, True)
AWAY = "waits for the pods\nerror: no name was given\n"
CUT = 'Traceback (most recent call last):\n  File "a.py", line 3, in a\n'
MORE = 'Additional GRPC error information:\n:{"created":"@1.2","grpc_status":14}\n'
GOES = (
    "Exception ignored in: <function A.__del__ at 0x7f>\nTraceback (most recent call last):\n"
    '  File "a.py", line 3, in __del__\n    self.b()\nAttributeError: no b\n'
)
CANCELLED = "slurmstepd: error: *** STEP 71.0 ON n1 CANCELLED AT 2026-11-21T02:03:32 ***\n"
BARS = "".join(f" {n}%|{'█' * n}▏{' ' * (9 - n)}| {n}/30 [1:{n}<9:0, 7.1s/it]\n" for n in (3, 5, 6))
SHELL = (
    "At line:1 char:1\n+ python a.py > a.log 2>&1\n+ ~~~~~~~~~\n"
    "    + CategoryInfo          : NotSpecified: (python : x:String) [], RemoteException\n"
    "    + FullyQualifiedErrorId : NativeCommandError\n \n"
)
_TEX = "! LaTeX Error: {0} is undefined.\n\nSee the LaTeX manual for more.\nl.7 \\{0}\n\n? \n"
_FRAMED = "*****\nLUMEN FAILED TO START\n*****\n\n"
STEPS = "".join(f"step {n} of 40: loss {2.4 - n / 100:.2f}\n" for n in range(30))

STOPS = "ERROR: (lumen) DENIED\n  reason: SCOPE\nThe stop failed - using halt instead.\n"
ANSWERED = '[2026-01-02T03:04:05.678Z]  "GET /lumen.glb" Error ({}\nhttp-server stopped.\n'


@pytest.mark.parametrize(
    ("text", "outcome", "failed"),
    [
        (STEPS, Outcome.UNKNOWN, False),
        (STEPS + "Training complete.\n", Outcome.HEALTHY, False),
        (STEPS + "==== 3 passed in 0.31s ====\n", Outcome.HEALTHY, False),
        ("lumen finished successfully\n" + STOPS, Outcome.UNKNOWN, False),
        ("lumen begins\n" + STOPS, Outcome.UNKNOWN, True),
        (STEPS + SHELL.replace("ErrorId", "ErrorI\nd"), Outcome.UNKNOWN, False),
        (STEPS + '03:04:05: Debug: window lumen ("bar") lost focus\n', Outcome.UNKNOWN, False),
        (STEPS + ANSWERED.format("404): Not found"), Outcome.UNKNOWN, False),
        (STEPS + ANSWERED.format("500): Not found"), Outcome.UNKNOWN, True),
        ("Training complete.\n" + STEPS, Outcome.UNKNOWN, False),
        ("ValueError: bad batch\n" + STEPS, Outcome.UNKNOWN, False),
        (STEPS + "ValueError: bad batch\n", Outcome.FAILED, True),
        (STEPS + "Training complete.\nValueError: at exit\n", Outcome.FAILED, True),
        (STEPS + "2026-01-02 03:04:05 ERROR trainer gave up\n", Outcome.UNKNOWN, True),
        (STEPS + "loss: nan\nloss: nan\n", Outcome.FAILED, True),
        (STEPS + "loss: nan\nloss: nan\nloss: 2.1\n", Outcome.UNKNOWN, False),
        (STEPS + "The server process has exited.\n", Outcome.UNKNOWN, False),
        (STEPS + "The actor process has died.\n", Outcome.FAILED, True),
        (STEPS + "12:00:01 - ❌ not deployed\n", Outcome.UNKNOWN, True),
        (STEPS + "❌ 0 failed\n", Outcome.UNKNOWN, False),
        (STEPS + "Training complete.\nhelper: received SIGTERM, leaving\n", *UNKNOWN),
        (STEPS + "helper: received SIGTERM, leaving\n", *FAILED),
        (STEPS + "Training complete.\n" + CANCELLED, *UNKNOWN),
        (STEPS + "Training complete.\nscored 1\nscored 2\nscored 3\n" + CANCELLED, *FAILED),
        (STEPS + CANCELLED, *FAILED),
        (STEPS + "* thread #1, stop reason = signal SIGSEGV\n    frame #0: 0x77 a`f\n", *FAILED),
        (STEPS + "| ERROR | stderr | loading: 3/3\n", Outcome.UNKNOWN, False),
        (STEPS + "2026-01-02 03:04:05.6: W a/b.cc:7] x: DATA_LOSS: cut\n" * 3, UNKNOWN[0], True),
        (STEPS + "2026-01-02 03:04:05.6: W a/b.cc:71] it is slow\n" * 3, Outcome.UNKNOWN, False),
        ("lr: must be a number\n3 errors\n", *FAILED),
        ("Found 2 errors:\n  lr: must be a number\n  path: is no folder\n", *FAILED),
        ("lr: must be a number\nFound 0 errors\n", *UNKNOWN),
        ("Found 2 errors\n" + STEPS, *UNKNOWN),
        (STEPS + "train.py: 137\n", Outcome.UNKNOWN, True),
        (STEPS + "exit code of train.py = 3\n", Outcome.UNKNOWN, True),
        (STEPS + "exit code of train.py = 0\n", Outcome.UNKNOWN, False),
        ("preflight: disk=pass fabric=fail gpu=pass\n", Outcome.UNKNOWN, True),
        ("settings: retries=3 on_error=fail\n", Outcome.UNKNOWN, False),
        (STEPS + "loss: -nan\nloss: -nan\n", *FAILED),
        (STEPS + "train.py: 31\n", Outcome.UNKNOWN, False),
        (STEPS + "Exited at line 12 with 1\n", Outcome.UNKNOWN, True),
        (STEPS + "| NVLink  | Fail |\n" + "| Clock  | Pass |\n" * 9, Outcome.UNKNOWN, True),
        (STEPS + "| Fail | Pass | Test |\n| 0 | 3 | Clock |\n", Outcome.UNKNOWN, False),
        (STEPS + "agent: spot interruption notice received\n", *FAILED),
        (STEPS + "The system is going down for reboot NOW!\n", *FAILED),
        (STEPS + "agent: the interruption handler is active\n", Outcome.UNKNOWN, False),
        (STEPS + "ERROR trainer gave up\nINFO:     Started server process [7]\n", *UNKNOWN),
        (STEPS + "F0102 03:04:05.678901 47 a.cc:31] Check failed: n > 0\n", Outcome.FAILED, True),
        (STEPS + "[x] [INFO] [launch.py:347:main] Process 7 exits successfully.\n", *_WELL),
        ("The worker process has died.\n" + STEPS, Outcome.UNKNOWN, False),
        ("2026-01-02 03:04:05.6: E a/b.cc:71] twice\n" + STEPS, Outcome.UNKNOWN, False),
        (STEPS + "2026-01-02 03:04:05.6: W a/b.cc:71] UNAVAILABLE: gone\n", Outcome.UNKNOWN, False),
        (STEPS + "2026-01-02 03:04:05.6: E a/b.cc:71] UNAVAILABLE: gone\n", Outcome.UNKNOWN, True),
        (STEPS + "2026-01-02 03:04:05.6: W a/b.cc:71] Socket closed\n" + MORE, *UNKNOWN),
        (STEPS + "2026-01-02 03:04:05.6: E a/b.cc:71] Socket closed\n" + MORE, *FAILED),
        (STEPS + "Training complete.\n" + AWAY * 2, Outcome.UNKNOWN, False),
        (STEPS + "Training complete.\n" + AWAY, Outcome.UNKNOWN, True),
        (STEPS + AWAY * 2, Outcome.UNKNOWN, True),
        ("KeyError: 'w'\n\na child failed\n" + CUT, *FAILED),
        ("KeyError: 'w'\n" + STEPS + CUT, *FAILED),
        (STEPS + "ValueError: bad batch\n" + GOES, *FAILED),
        (STEPS + "Training complete.\n" + GOES, *_WELL),
        (STEPS + GOES, *UNKNOWN),
        ("2026-01-02 03:04:05.6: W ./xla/l/fix.h:50] Unexpectedly many passes\n" * 2, *UNKNOWN),
        ("[n1:7] 3 more processes have sent help message help-l.txt / error in link\n", *UNKNOWN),
        (STEPS + "a:b 71.71 E: shard 3 is gone\n[0] a::b(int)\n", Outcome.UNKNOWN, True),
        (STEPS + "done\nEncountered problems while solving:\n  - no __lumen\n", *FAILED),
        (STEPS + "01/02/2026 03:04:05  L    Simulation: preempting job\n", *FAILED),
        ("Error: the buffer exited with error status.\n" + BARS, *UNKNOWN),
        (STEPS + "[W1 a.cpp:3] [c10d] send failed on SocketImpl(d=8): Broken pipe\n", *FAILED),
        (STEPS + "    reason: PodRunning\n    reason: Succeeded\n", Outcome.UNKNOWN, False),
        (STEPS + "      Reason: Completed\n      Exit Code: 0\n", *_WELL),
        (STEPS + "Child process with PID 7 terminated with code 1.\n", Outcome.FAILED, True),
        (STEPS + "Child process with PID 7 terminated with code 0.\n", *_WELL),
        (STEPS + "[2026-01-02 03:04:05,6 E 7 9] pool.cc:3: none\n", Outcome.UNKNOWN, True),
        (STEPS + "[2026-01-02 03:04:05,6 I 7 9] pool.cc:3: none\n", Outcome.UNKNOWN, False),
        (STEPS + "zsh: segmentation fault  python train.py\n", Outcome.FAILED, True),
        (STEPS + "shard 3 is lost\nclosing readers\nfreeing buffers\n", Outcome.UNKNOWN, True),
        (STEPS + "shard 3 is lost\nclosing readers\nDone.\n", Outcome.UNKNOWN, False),
        (STEPS + "shard 3 is lost\nshard 4 is lost\nshard 5 is lost\n", Outcome.UNKNOWN, False),
        (STEPS + "rank 3 is lost\nrank 0 is lost\nrank 1 is lost\n", Outcome.UNKNOWN, True),
        (
            STEPS + "".join(f"shard {n} is lost\nreads on\nhas read\n" for n in range(3)),
            Outcome.UNKNOWN,
            False,
        ),
        (STEPS + "der Auftrag wurde abgebrochen\n", Outcome.UNKNOWN, True),
        (STEPS + "Training complete, 3 workers crashed\n", Outcome.UNKNOWN, True),
        (STEPS + "Training complete, 0 failed\n", Outcome.HEALTHY, False),
        ("shard 3 is lost\n" + STEPS, Outcome.UNKNOWN, False),
        (STEPS + "[2026-01-02 03:04:05 TP4] Watchdog timeout (300)\n", Outcome.FAILED, True),
        (STEPS + " 0  /opt/libucs.so.0(ucs_error+0x2dc) [0x7f5a]\n", Outcome.FAILED, True),
        (STEPS + "api.py:858] Sending process 7 closing signal SIGTERM\n", Outcome.FAILED, True),
        (
            STEPS + "a.py:13: UserWarning: not read\n  warn(f'Failed: {e}')\n",
            Outcome.UNKNOWN,
            False,
        ),
        (STEPS + "a.py:13: not read\n  warn(f'Failed: {e}')\n", Outcome.UNKNOWN, True),
        (STEPS + "Skipping shard 3 due to error: no rows\n", Outcome.UNKNOWN, False),
        (STEPS + "shard 3 ends due to error: no rows\n", Outcome.UNKNOWN, True),
        (STEPS + "MailUser=me@example.org MailType=END,FAIL\n", Outcome.UNKNOWN, False),
        (STEPS + "JobState=FAIL\n", Outcome.UNKNOWN, True),
        (STEPS + "trap: Floating point exception trapping enabled\n", *UNKNOWN),
        (STEPS + "trap: Floating point exception in fit\n", Outcome.UNKNOWN, True),
        (STEPS + "python : warms up\n" + SHELL + "loading\n", Outcome.UNKNOWN, False),
        (STEPS + "python : error: no such file\n" + SHELL, Outcome.UNKNOWN, True),
        (STEPS + "2 errors in 0.65s\n", Outcome.FAILED, True),
        (STEPS + "0 errors in 0.65s\n", Outcome.UNKNOWN, False),
        (STEPS + "    self.last = error\n", Outcome.UNKNOWN, False),
        (STEPS + "console.warn: Feed: Failed to fetch data\n", Outcome.UNKNOWN, False),
        (STEPS + "console.error: Feed: Failed to fetch data\n", Outcome.UNKNOWN, True),
        (STEPS + "slopes of log-error over log-dt:\n", Outcome.UNKNOWN, False),
        (STEPS + "slopes of the error over dt:\n", Outcome.UNKNOWN, True),
        (STEPS + "fit {'at': 3, 'error': None}\n", Outcome.UNKNOWN, False),
        (STEPS + "fit {'at': 3, 'error': 'no shard'}\n", Outcome.UNKNOWN, True),
        (STEPS + "['we lost " + "one of the shards " * 30 + "']\n", Outcome.UNKNOWN, False),
        (STEPS + "['we lost one of the shards']\n", Outcome.UNKNOWN, True),
        (
            "Process 7: CUDA_VISIBLE_DEVICES = 0\n" + STEPS + "KeyError: 'lr'\n",
            Outcome.FAILED,
            True,
        ),
        (
            STEPS + "Cannot count PReLU. It is 0.\n[INFO]: train job success!\n",
            Outcome.UNKNOWN,
            False,
        ),
    ],
)
def test_outcome(tmp_path: Path, text: str, outcome: Outcome, failed: bool) -> None:
    report = report_of(tmp_path, text)
    assert (report.outcome, report.failed) == (outcome, failed), report.verdict


def test_the_line_that_comes_nearest_is_cited(tmp_path: Path) -> None:
    report = report_of(tmp_path, STEPS + "ValueError: bad batch\nstep 31 of 40: loss 2.0\n")
    assert report.diagnoses == ()
    assert "line 31: ValueError: bad batch" in report.verdict


ABORTED = "[main] DEBUG lumen.Session - Session aborted -- Cause: no such path\n"
GIVES_UP = "Shutting down\nExiting because a job execution failed. Look above\n"
ACTIVE = "".join(f"[process] {n}\n  status=ACTIVE\n  port 0: open\n" for n in "abcdef")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (STEPS + ABORTED + ACTIVE, 31),
        (STEPS + "Shutting down the pool\nclosing the cache\n" + ABORTED + ACTIVE, 33),
        (STEPS + "--> LUMEN FATAL ERROR: (lumen-2312)\nno such case\n\nLUMEN exiting\n", 31),
        (STEPS + "GoneError in rule fit in file /job/a, line 3:\nno such case\n" + GIVES_UP, 31),
        (STEPS + "[error] met an error:\nRead Error\n  no such case\n", 31),
        (
            STEPS
            + "a.h:1:4:\n\nError: no such a\na.h:2:4:\n\nError: nor b\nmake: *** [a.o] Error 1\n",
            33,
        ),
    ],
)
def test_the_word_of_an_end_far_above_the_last_line(tmp_path: Path, text: str, line: int) -> None:
    report = report_of(tmp_path, text)
    assert report.failed
    assert any(e.where == f"job.log:{line}" for e in report.diagnoses[0].evidence)
    assert "no such" in report.verdict


def test_the_code_of_a_test_is_not_why_nor_a_warning_of_a_tool(tmp_path: Path) -> None:
    said = "sudo: unable to resolve host n1\n+ /opt/a -h\n/t: 3: /t: /opt/a: not found\n"
    code = "ABORT: Aborting with RETVAL=255\n\x1b(B\x1b[mCleaning up...\n"
    assert report_of(tmp_path, STEPS + said + code).diagnoses[0].evidence[0].where == "job.log:33"


@pytest.mark.parametrize(("margin", "line"), [("  ", 34), ("", 31)])
def test_what_a_watcher_quotes_below_its_word_is_nearer_than_the_code(
    tmp_path: Path, margin: str, line: int
) -> None:
    code = "task fit terminated with an error exit status (1)"
    said = f"{code}\nits output:\n\n{margin}cat: a.txt: No such file or directory\n\n"
    report = report_of(tmp_path, f"{STEPS}{said}[main] DEBUG run - Cause: {code}\nGoodbye\n")
    assert report.diagnoses[0].evidence[-1].where == f"job.log:{line}"


def test_a_last_line_among_many_is_found_with_its_number(tmp_path: Path) -> None:
    report = report_of(tmp_path, STEPS * 40 + "RuntimeError: no room\n\n\n")
    assert report.verdict == "RuntimeError: no room"
    assert report.diagnoses[0].evidence[0].where == "job.log:1201"


def test_calls_of_strace_are_no_log(tmp_path: Path) -> None:
    report = report_of(tmp_path, 'read(3, "x", 1) = 1\nclose(3) = 0\n' * 5)
    assert [one.id for one in report.diagnoses] == ["other_text"]
    assert report.outcome is Outcome.UNKNOWN
    assert "postmortem strace" in report.diagnoses[0].next_steps[0]


def test_a_session_of_gdb_says_which_signal_it_saw(tmp_path: Path) -> None:
    frame = "#{0}  0x{0:012x} in step_{0} () at run.cc:{0}\n"
    frames = "".join(map(frame.format, range(12)))
    full = frames.replace("\n", "\n        left = <optimized out>\nNo locals.\n")
    begun = "$ gdb ./run\nReading symbols from ./run...\n(gdb) run\nStarting program: /job/run\n"
    seen = 'Thread 11 "run" received signal SIGSEGV, Segmentation fault.\n'
    report = report_of(
        tmp_path, f"{begun}{seen}(gdb) bt\n{frames}(gdb) bt full\n{full}{frames * 3}"
    )
    assert report.diagnoses[0].evidence[0].where == "job.log:5"
    assert (report.diagnoses[0].id, report.diagnoses[0].confidence) == ("last_words", "possible")


def test_an_error_that_the_file_outlived_by_far_is_not_certain(tmp_path: Path) -> None:
    raised = (
        'Traceback (most recent call last):\n  File "/job/a.py", line 3, in <module>\n'
        "    step()\nValueError: bad batch\n"
    )
    ranks = "".join(f"[rank{r}]: {row}\n" for r in range(2) for row in raised.splitlines())
    end = "SyntaxErrorSyntaxError: : invalid syntax\ninvalid syntax\n"
    report = report_of(tmp_path, ranks + "\n" * 600 + end)
    assert report.diagnoses[0].confidence.value != "certain"


def test_each_writer_has_its_own_last_lines_however_many_there_are(tmp_path: Path) -> None:
    """They are looked at together: 1,500 of them are more than are looked at in one call."""
    lines = [f"[rank{rank}]: step 1 of 40: loss 2.31\n" for rank in range(1500)]
    said = "[rank1203]: ValueError: no labels\n"
    report = report_of(tmp_path, "".join([*lines, said]))
    assert report.verdict == "rank 1203: ValueError: no labels"
    assert report.diagnoses[0].evidence[0].where == "job.log:1501"


@pytest.mark.parametrize(("between", "told"), [("\na child failed\n", 1), (STEPS, 32)])
def test_an_error_right_above_a_traceback_that_is_cut_is_told(
    tmp_path: Path, between: str, told: int
) -> None:
    report = report_of(tmp_path, "KeyError: 'w'\n" + between + CUT)
    assert report.diagnoses[0].evidence[0].where == f"job.log:{told}"


RAISED = (
    'Traceback (most recent call last):\n  File "/job/a.py", line 3, in <module>\n'
    "    fused(x)\nRuntimeError: nvrtc: error: no built-ins\nthe program was:\n\n"
)
CODE = '#define NAN f(0)\nextern "C" void f() {\n' + "".join(
    f"  a[{n}] = b[{n}] * 2.f; // error: none is lost\n" for n in range(60)
)


@pytest.mark.parametrize(
    ("text", "rule", "line"),
    [
        (STEPS + RAISED + CODE + "}\n", "rank_raised", 34),
        (STEPS + "error: link 3 is gone;\n", "last_words", 31),
        (STEPS + RAISED[-50:] + CODE + "}\n", "other_text", 95),
    ],
)
def test_a_program_in_the_message_of_an_exception_says_nothing_itself(
    tmp_path: Path, text: str, rule: str, line: int
) -> None:
    (one,) = report_of(tmp_path, text).diagnoses
    assert (one.id, one.evidence[0].where) == (rule, f"job.log:{line}")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "╭─ Error ────────╮\n│ no shard 3     │\n│ in the index   │\n╰────────────────╯\n",
            "no shard 3 in the index",
        ),
        (
            "! Undefined control sequence.\nl.12 \\lumen\n! Emergency stop.\n",
            "! Undefined control sequence.",
        ),
        ("ERROR: no key\nERROR: no shard\nfit.sh FAILED\n", "ERROR: no key"),
        ("Error: no key\nError: no shard\nUpload failed, exiting\n", "Error: no key"),
        ("ERROR: no key\n" + STEPS + "check of sums FAILED\n", "check of sums FAILED"),
        (_TEX.format("a") + _TEX.format("b"), "! LaTeX Error: a is undefined."),
        ('a.cu(1): error: no a\n  a;\na.cu(2): error: no b\n  b;\n2 errors in "a.cu"\n', "no a"),
        ("Error: no a\nReads what is left\nError: no b\nWrites what is left\n", "Error: no b"),
        (_FRAMED + "Description:\n\nPort 80 is in use.\n\nAction:\n\nUse 81\n", "Port 80 is"),
        ("a.B: Error creating c\nCaused by: a.GoneException: d\n" + _FRAMED, "GoneException"),
    ],
)
def test_the_message_is_told_and_not_its_head_or_what_follows(
    tmp_path: Path, text: str, told: str
) -> None:
    assert told in report_of(tmp_path, text).verdict


@pytest.mark.parametrize(
    ("behind", "rank"),
    [([], 3), ([{"rank": 3, "lvl": "info", "msg": "step", "step": n} for n in range(141, 160)], 2)],
    ids=["it fell silent", "it went on"],
)
def test_who_falls_silent_behind_an_error_comes_before_another_ones_last_words(
    tmp_path: Path, behind: list[dict[str, object]], rank: int
) -> None:
    rows: list[dict[str, object]] = [
        {"rank": 3, "lvl": "info", "msg": "worker up"},
        {"rank": 2, "lvl": "info", "msg": "worker up"},
        {"rank": 3, "lvl": "error", "msg": "vocabulary of 50257 words against 50304"},
        {"rank": 3, "lvl": "info", "msg": "closing"},
        *behind,
        {"rank": 2, "lvl": "error", "msg": "no token within 600 s"},
    ]
    report = report_of(tmp_path, "".join(f"{json.dumps(row)}\n" for row in rows))
    told = report.body["first_failure"] or report.body["candidates"][0]
    assert told["rank"] == rank


@pytest.mark.parametrize("more", ["", "make: *** [Makefile:31: train] Error 1\n"])
def test_the_node_whose_own_error_it_is_comes_before_those_that_lost_it(
    tmp_path: Path, more: str
) -> None:
    lost = "RuntimeError: Connection closed by peer [10.1.0.3]:41200"
    rows = [f"n{node}: model built" for node in range(3)]
    rows += ["n2: assert a == b", "n2: AssertionError: (71, 72)", f"n0: {lost}", f"n1: {lost}"]
    report = report_of(tmp_path, "\n".join(rows) + f"\n{more}")
    assert report.failed
    assert report.body["candidates"][0]["host"] == "n2"


@pytest.mark.parametrize(
    ("behind", "failed"),
    [
        (
            "Started cleanup.service.\nh7 systemd[1]: cleanup.service: Deactivated successfully.",
            True,
        ),
        ("train.service: Scheduled restart job, restart counter is at 1.\n" + STEPS, False),
    ],
    ids=["another unit", "it was started again"],
)
def test_how_a_unit_ended_is_told_by_systemd(tmp_path: Path, behind: str, failed: bool) -> None:
    text = (
        "h7 systemd[1]: Started train.service.\nh7 python[4410]: step 3000\n"
        "h7 systemd[1]: train.service: Main process exited, code=dumped, status=11/SEGV\n"
        f"h7 systemd[1]: {behind}\n"
    )
    report = report_of(tmp_path, text)
    assert report.failed is failed
    assert ("process_ended" in [row.id for row in report.diagnoses]) is failed


@pytest.mark.parametrize(
    ("behind", "failed"), [("", True), ("step 501 of 900\nstep 502 of 900\n", False)]
)
def test_a_watcher_that_sees_nothing_move_is_no_work(
    tmp_path: Path, behind: str, failed: bool
) -> None:
    watched = "".join(f"[W] watch: no progress for {n}00 s (last step 500)\n" for n in (6, 12, 18))
    steps = "step 499 of 900\nstep 500 of 900\n"
    assert report_of(tmp_path, steps + watched + behind).failed == failed
