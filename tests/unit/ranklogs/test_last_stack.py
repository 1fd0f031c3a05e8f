"""What stands behind an error, or below a stack without a head, and tells of no work."""

from pathlib import Path

import pytest

from postmortem.analyses.ranklogs import RankLogOptions, analyse
from postmortem.report.model import Outcome

STEPS = "".join(f"[{n:4}/900] objective {8 - n / 100:.2f}\n" for n in range(10, 300, 10))
PYTHON = (
    '  File "/job/run.py", line 88, in forward\n    return self.inner(x)\n'
    '  File "/job/ops.py", line 12, in inner\n    raise Unavailable(name)\n'
)
JAVA = "\tat org.lumen.Loader.open(Loader.java:31)\n\tat org.lumen.Main.main(Main.java:5)\n"
JULIA = " [44] step(::Array{Float32}) at /job/a.jl:58\n [45] top-level scope at /job/a.jl:71\n"
INLINED = "ERROR: no shard 3\nStacktrace:\n" + " [2] sqrt\n   @ ./math.jl:6 [inlined]\n" * 40
TCL = (
    "ERROR: [SIM 7] the test failed\nINFO: [SIM 8] finish\n4\n"
    '    while executing\n"source run.tcl"\nINFO: [SIM 9] peak 3 MB\n'
)
NODE = "    at Object.<anonymous> (/job/serve.js:12:9)\n    at node:internal/main:17:47\n"
NATIVE = "frame #3: lumen::check(int) + 0x64 (0x7f in liblumen.so)\nframe #4: main + 0x1 (0x5)\n"
DIED = "ERROR 01-02 03:04:05 [pool.py:135] worker 3 is not there any more\n"
CLOSES = (
    "INFO 01-02 03:04:06 [pool.py:80] Shutting down the front\n"
    "INFO:     Waiting for application shutdown.\nINFO:     Application shutdown complete.\n"
)
TRACEBACK = (
    "ERROR 01-02 03:04:05 [loop.py:12] the output handler failed\n"
    "Traceback (most recent call last):\n"
    '  File "/job/loop.py", line 9, in turn\n    raise Gone("engine")\nGone: engine\n'
)
SERVED = "INFO:     10.0.0.1:80 - one answer was sent\n"


@pytest.mark.parametrize(
    ("text", "outcome", "failed"),
    [
        (PYTHON + "lumen.Unavailable: device 3\n", Outcome.FAILED, True),
        (PYTHON + SERVED, Outcome.UNKNOWN, False),
        (PYTHON + "lumen.Unavailable: device 3\n" + STEPS, Outcome.UNKNOWN, False),
        (PYTHON + "lumen.Unavailable: device 3\n" + SERVED, Outcome.UNKNOWN, False),
        (PYTHON + "lumen.Unavailable: device 3\nthe group is closed\n", Outcome.FAILED, True),
        (PYTHON + "lumen.Unavailable: device 3\n" + CLOSES, Outcome.FAILED, True),
        (STEPS + PYTHON + "lumen.Unavailable: device 3\n", Outcome.UNKNOWN, True),
        (STEPS + PYTHON[-68:] + "_queue.Empty\n", Outcome.UNKNOWN, True),
        (STEPS + JAVA, Outcome.UNKNOWN, True),
        (STEPS + JULIA, Outcome.UNKNOWN, True),
        (STEPS + INLINED + "sys 0.00\n", Outcome.UNKNOWN, True),
        (STEPS + TCL, Outcome.FAILED, True),
        (STEPS + NODE, Outcome.UNKNOWN, True),
        (STEPS + NATIVE, Outcome.UNKNOWN, True),
        (
            STEPS + "*** Error in `job': bad size ***\n" + NATIVE + "the map:\n0-1 r\n",
            Outcome.UNKNOWN,
            True,
        ),
        (STEPS + "   at Lumen.Load(String[] a) in /a.cs:line 2\n" * 2, Outcome.UNKNOWN, True),
        (STEPS + PYTHON.split("\n")[0] + "\n", Outcome.UNKNOWN, False),
        (JAVA + STEPS, Outcome.UNKNOWN, False),
        (STEPS + JAVA + "INFO tried again\n", Outcome.UNKNOWN, False),
        (STEPS + JAVA + "a\nb says\nc says more\n", Outcome.UNKNOWN, False),
        (
            STEPS + "WARNING slow shard\nStack (most recent call last):\n" + PYTHON,
            Outcome.UNKNOWN,
            False,
        ),
        (STEPS + '  File "/job/run.py", line 88, in forward\n', Outcome.UNKNOWN, False),
        (STEPS + DIED + CLOSES, Outcome.UNKNOWN, True),
        (STEPS + DIED + SERVED + CLOSES, Outcome.HEALTHY, False),
        (STEPS + CLOSES[:91] * 2 + DIED + CLOSES, Outcome.HEALTHY, False),
        (
            STEPS + "ERROR: lumen 2 needs b<3\nSuccessfully installed b-3.1\n",
            Outcome.UNKNOWN,
            False,
        ),
        (STEPS + "ERROR: lumen 2 needs b<3\nSuccess with b-3.1\n", Outcome.UNKNOWN, True),
        (STEPS + CLOSES, Outcome.HEALTHY, False),
        (STEPS + DIED + "Training complete, shutting down\n", Outcome.HEALTHY, False),
        (STEPS + TRACEBACK + CLOSES, Outcome.FAILED, True),
        (STEPS + "the session crashed after using all of its memory\n", Outcome.UNKNOWN, True),
        (STEPS + "cannot find libnet.so, using the other one\n", Outcome.UNKNOWN, False),
        (STEPS + "LUMEN_ASSERT: src/reduce.cu:48: width > 0\n", Outcome.UNKNOWN, True),
        (STEPS + "/data: No space left on device\n", Outcome.UNKNOWN, True),
        (STEPS + "training aborted at step 300\n", Outcome.UNKNOWN, True),
        (STEPS + "no task failed at step 300\n", Outcome.UNKNOWN, False),
        (STEPS + "lumen.exceptions.OutOfRange: shard 7\n", Outcome.UNKNOWN, True),
        (STEPS + "lumen.loaders.Range: shard 7\n", Outcome.UNKNOWN, False),
        (STEPS + "[E 2026-01-02 10:00:00,1] loop: no device\n", Outcome.UNKNOWN, True),
        (STEPS + "[I 2026-01-02 10:00:00,1] loop: no error\n", Outcome.UNKNOWN, False),
        (STEPS + "node 3 gave up after 5 attempts\n", Outcome.UNKNOWN, True),
        (STEPS + "32 GiB are left on the device\n", Outcome.UNKNOWN, False),
        (STEPS + "loss is nan, stopping here\n", Outcome.UNKNOWN, True),
        (STEPS + "loss is nan, this batch is left out\n" + STEPS, Outcome.UNKNOWN, False),
    ],
)
def test_outcome(tmp_path: Path, text: str, outcome: Outcome, failed: bool) -> None:
    path = tmp_path / "job.log"
    path.write_text(text)
    report = analyse([str(path)], RankLogOptions())
    assert (report.outcome, report.failed) == (outcome, failed), report.verdict


@pytest.mark.parametrize(
    ("behind", "failed"), [(CLOSES, True), (SERVED, False), (SERVED + CLOSES, False), ("", True)]
)
def test_a_server_that_only_closes_behind_a_logged_exception_did_not_go_on(
    tmp_path: Path, behind: str, failed: bool
) -> None:
    lines = (SERVED * 40 + TRACEBACK + behind).splitlines()
    path = tmp_path / "serve.log"
    path.write_text("".join(f"(APIServer pid=4711) {line}\n" for line in lines))
    assert analyse([str(path)], RankLogOptions()).failed == failed


_HALTED = (
    '(gdb) r\nlink is open\n^C\nThread 1 "lum" received signal SIGINT, Interrupt.\n'
    "0x00007f5a6c0b6bdc in sched_yield () at ../yield.S:120\n(gdb) bt\n"
    "#0  0x00007f5a6c0b6bdc in sched_yield () at ../yield.S:120\n"
    "#1  0x00007f5a6c0b7bdc in lum::Link::take(int) () from /opt/liblum.so\n"
    "#2  0x00007f5a6c0b8bdc in lum::run (n=3) at lum.cc:31\n"
    "#3  0x00007f5a6c0b9bdc in main () at lum.cc:71\n"
)


@pytest.mark.parametrize(
    ("text", "rule", "line"),
    [
        (STEPS + _HALTED, "other_text", 37),
        (STEPS + _HALTED + STEPS, "", 0),  # the user let it go on
        (STEPS + _HALTED.split("(gdb) bt")[0], "stopped_from_outside", 32),
    ],
)
def test_where_a_program_waits_that_was_interrupted_in_gdb_is_the_answer(
    tmp_path: Path, text: str, rule: str, line: int
) -> None:
    (tmp_path / "job.log").write_text(text)
    report = analyse([str(tmp_path / "job.log")], RankLogOptions())
    assert [one.id for one in report.diagnoses] == [rule] * bool(rule)
    assert not rule or report.diagnoses[0].evidence[0].where == f"job.log:{line}"


_FRAME = "#" * 60 + "\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (_FRAME + "# Fatal: link 3\n# at lum_open (lum.f90:5)\n# ERROR IN: lum\n" + _FRAME, 31),
        (_FRAME + "  Error in lum (1):\n  no file x\n  check the error there\n" + _FRAME, 31),
        ("# Fatal: link 3\n# at lum_open (lum.f90:5)\n# ERROR IN: lum\n", 32),  # no frame
        (_FRAME + "# all is well\n" + _FRAME + "# ERROR IN: lum\n", 33),
    ],
)
def test_of_a_message_in_a_frame_the_line_where_it_begins_is_told(
    tmp_path: Path, text: str, line: int
) -> None:
    (tmp_path / "job.log").write_text(STEPS + text)
    report = analyse([str(tmp_path / "job.log")], RankLogOptions())
    assert report.diagnoses[0].evidence[0].where == f"job.log:{line}"
