"""What stands above the word that it was meant, or is got over, ends nobody; what one did ends all.

Each kind has cases of which nothing else than that tells, and look-alikes.
"""

from pathlib import Path

import pytest

from builders.ranklogs import report_of
from postmortem.report.model import Outcome, Report

RUNNING = "2026-01-02 03:04:05,444 INFO success: {} entered RUNNING state, process has stayed up\n"
EXITED = (
    "2026-01-02 03:04:05,444 {} exited: {} (terminated by SIGSEGV (core dumped); not expected)\n"
)
STOPPED = 'Traceback (most recent call last):\n  File "a.py", line 9, in <module>\n    main()\n'
LOST = (
    'Traceback (most recent call last):\n  File "a.py", line 8, in fetch\n    get()\n'
    "TimeoutError: no answer\n"
)
BESIDE = (
    'Traceback (most recent call last):\n  File "/venv/bin/{}", line 8, in <module>\n    main()\n'
    "OSError: [Errno 98] Address already in use\n"
)
STALL = "W stall_inspector.cc:107] some ranks are waiting for remainder of ranks\n"
STEPS = "".join(f"step {n} loss {9 / n:.3f}\n" for n in range(1, 9))


def told(report: Report) -> tuple[Outcome, str, str]:
    """Return the outcome, the rule that tells it and the line that it cites first."""
    if not report.diagnoses:
        return report.outcome, "", ""
    first = report.diagnoses[0]
    return report.outcome, first.id, first.evidence[0].where.rpartition(":")[2]


@pytest.mark.parametrize(
    "text",
    [
        "Segmentation fault (core dumped)\nmake: [Makefile:9: check] Error 139 (ignored)\nok\n",
        "case 3\nt3.sh: line 9:  8812 Killed    ./writer\ncase 3 ok: it died as expected\nall ok\n",
        "./configure: line 3: 4711 Bus error    (core dumped) ./conftest\nchecking mmap... no\n",
        "p.sh: line 4:  9921 Illegal instruction  ./p\nno AVX, building without it\nok\n",
        "[ RUN      ] D.Abort\nterminate called after throwing an instance of 'std::logic_error'\n"
        "  what():  empty\n[       OK ] D.Abort (31 ms)\n[  PASSED  ] 1 test.\n",
        "ImportError: fused.so: undefined symbol: _Zlumen\nfalling back to the plain kernel\n",
        "ERROR cannot open /dev/shm/c: Permission denied; using /tmp instead\nepoch 1\n",
        "flash failed to import: libcudart.so.11: cannot open\nUsing SDPA instead of it.\nready\n",
        "curl: (22) The requested URL returned error: 404\nbuilding lumen from source\n[2/2] b\n",
        RUNNING.format("a") + EXITED.format("WARN", "a") + RUNNING.format("a"),
        "prompt: what is this?\n" + LOST + "completion: a time-out.\n",
        "<|user|> why\n" + LOST + "said my host. <|end|>\n",
        f"INFO:judge:completion: it says\n\n{STOPPED}KeyError: 3\n\nAdd 3.\nINFO:judge:score 1\n",
        f"INFO a: task 1\n```\n{STOPPED}KeyError: 3\n```\nAdd 3.\nINFO a: task 2\n",
        "INFO:judge:prompt 3/70: what is a segmentation fault?\nINFO:judge:score 1\n",
        "assistant> Exit code 139 means: Segmentation fault (core dumped)\n",
        BESIDE.format("tensorboard") + "epoch 1 loss 0.8\nfinished: best loss 0.5\n",
        "step 1\nException in thread T:\n" + LOST + "step 2\nTraining completed in 3 h\n",
        "case 3\nFatal Python error: Aborted\n\nThread 0x00007f2bdf988740 (most recent call "
        'first):\n  File "<string>", line 1 in <module>\ncase 3: it ended with -6 as expected\n',
        "Training done.\nj.sh: line 14:  4711 Terminated     nvidia-smi dmon -s u > gpu.csv\n",
        LOST + "attempt 1 of 5 failed, trying again in 2 s\nfetched b\nstep 1 loss 2.1\n",
        STEPS + STALL + "Missing ranks:\n3: [grad_0]\n" + STEPS.replace("step ", "step 1"),
        STEPS + STALL + "grad_0 [missing ranks: 3]\n" + STEPS.replace("step ", "step 1"),
    ],
)
def test_who_goes_on_knowing_of_an_error_is_not_dead(tmp_path: Path, text: str) -> None:
    assert report_of(tmp_path, text).outcome in (Outcome.UNKNOWN, Outcome.HEALTHY)


@pytest.mark.parametrize(
    ("text", "rule", "line"),
    [
        ("prompt: what is this?\n" + LOST, "raised", "5"),
        ("why\n" + LOST + "completion: a time-out.\n", "raised", "5"),
        (f"INFO:a:prompt: why\n{STOPPED}KeyError: 3\nINFO:a:step 2\n", "raised", "5"),
        (f"INFO:a:prompt: why\n{STOPPED}KeyError: 3\nso\nINFO:run:it left\n", "raised", "5"),
        (f"INFO:a:step 1\n{STOPPED}KeyError: 3\nso\nINFO:a:step 2\n", "raised", "5"),
        (BESIDE.format("tensorboard"), "raised", "4"),
        (BESIDE.format("train") + "epoch 1 loss 0.8\nfinished: best loss 0.5\n", "raised", "4"),
        (LOST + "step 2\nTraining completed in 3 h\n", "raised", "4"),
        ("Training done.\nj.sh: line 14:  4711 Terminated     python fit.py\n", "ended", "2"),
        (LOST + "attempt 5 of 5 failed\nstep 1 loss 2.1\n", "raised", "4"),
        (LOST + "trying again in 2 s\n" + LOST + "step 1 loss 2.1\n", "raised", "4"),
        (
            "Segmentation fault (core dumped)\nmake: *** [Makefile:9: check] Error 139\n",
            "ended",
            "1",
        ),
        (
            "t3.sh: line 9:  8812 Killed    ./writer\ncase 3: it did not end as expected\n",
            "ended",
            "1",
        ),
        (EXITED.format("INFO", "b") + RUNNING.format("a"), "ended", "1"),
        (
            "falling back to the plain kernel\nRuntimeError: no kernel image is there\n",
            "words",
            "2",
        ),
        ("ValueError: Using a target of size 4 that differs instead of the same\n", "words", "1"),
        (
            "[a] worker 1 exited with code 3\n[a] sending SIGTERM to workers 0, 2\n"
            "[a] worker 0 killed by signal 9\n[a] worker 2 killed by signal 9\n",
            "words",
            "1",
        ),
        (
            "ERROR:run:worker 1 (pid=812) exited with code -9\nINFO:run:terminating other workers\n"
            f"{STOPPED}KeyboardInterrupt\n",
            "words",
            "1",
        ),
        (
            "ERROR a: s-1 died (signal 11)\nINFO a: 2 others are left, terminating them\n"
            "WARN a: s-0 has not ended in 30 s, killing it\nERROR a: s-0 died (signal 9)\n",
            "words",
            "1",
        ),
        (
            "INFO a: received SIGTERM, terminating 2 workers\n"
            "WARN a: s-0 has not ended in 30 s, killing it\nERROR a: s-0 died (signal 9)\n",
            "stopped",
            "1",
        ),
        (
            "run: rank 1 was killed (SIGKILL)\nrun: interrupting rank 0, rank 2\n"
            "rank 0: Received SIGINT, saving a checkpoint and exiting\n",
            "words",
            "1",
        ),
        (
            "^C[run] received SIGINT, stopping parts\n[part 0] KeyboardInterrupt\n"
            "[run] part 0 (pid 71) died: killed by signal 9\n",
            "stopped",
            "1",
        ),
        (f"{STEPS}{STALL}Missing ranks:\n13: [grad_0, grad_1 ...]\n", "missing", "11"),
        (f"{STALL}Missing ranks:\n2: [grad_0, grad_1]\n5: [grad_0]\n", "missing", "3"),
        (
            "n1| step 5\nn2| step 5\nn2| Bus error (core dumped)\nn1| step 6\nn1| step 7\n",
            "ended",
            "3",
        ),
        (
            "--- FAIL: TestShard (0.02s)\nFAIL\nFAIL\texample.org/shard\t0.03s\n"
            "ok  \texample.org/index\t0.01s\nFAIL\n",
            "words",
            "1",
        ),
        ("FAIL\texample.org/shard [build failed]\nok  \texample.org/index\t0.01s\n", "words", "1"),
        (
            "FAILED: dep.stamp\ncurl: (22) The requested URL returned error: 404\n"
            "ninja: build stopped: subcommand failed.\n",
            "words",
            "2",
        ),
    ],
)
def test_look_alikes_are_told_by_what_came_first(
    tmp_path: Path, text: str, rule: str, line: str
) -> None:
    rules = {
        "ended": "process_ended",
        "raised": "rank_raised",
        "words": "last_words",
        "stopped": "stopped_from_outside",
        "missing": "rank_named_missing",
    }
    outcome, name, where = told(report_of(tmp_path, text))
    assert (name, where) == (rules[rule], line)
    assert outcome is not Outcome.HEALTHY


def test_a_program_of_supervisord_that_runs_again_and_again_is_lost(tmp_path: Path) -> None:
    loop = (EXITED.format("WARN", "b") + RUNNING.format("b")) * 4
    report = report_of(tmp_path, RUNNING.format("b") + loop)
    assert report.outcome is not Outcome.HEALTHY
    assert report.diagnoses


@pytest.mark.parametrize(
    ("first", "second", "line"),
    [
        (
            "loading the data\nepoch 1\nsrun: error: n1: task 3: Segmentation fault (core dumped)\n"
            "srun: Terminating StepId=771.0\n",
            "loading the data\nepoch 1\nepoch 2\nepoch 3\ntraining finished\n",
            None,
        ),
        (
            "srun: job 12 queued and waiting for resources\n"
            "srun: job 12 has been allocated resources\n"
            "step 1\nsrun: error: n1: task 1: Killed\n"
            "slurmstepd: error: *** STEP 12.0 ON n1 CANCELLED AT 2026-03-01T10:00:00 ***\n",
            "srun: job 13 queued and waiting for resources\n"
            "srun: job 13 has been allocated resources\n"
            "step 1\nstep 2\nsrun: error: n4: task 2: Bus error\n",
            "10",
        ),
        (
            "loading the data\nepoch 1\nsrun: error: n1: task 3: Segmentation fault (core dumped)\n"
            "srun: Terminating StepId=771.0\n",
            "loading the data\nsrun: error: n2: tasks 0-2: Terminated\n"
            "srun: Force Terminated StepId=771.0\n",
            "3",
        ),
    ],
)
def test_jobs_of_srun_behind_each_other_are_the_last_one(
    tmp_path: Path, first: str, second: str, line: str | None
) -> None:
    _, _, where = told(report_of(tmp_path, first + second))
    assert where == (line or "")


_KEPT = "2026-01-0{0} 03:04:05 - INFO - file kept: out/a.bin\n"
_SOUND = "\nError of the codec: while writing\n\nb.bin: Invalid argument\n\n"
_HELP = "In case it helps, the codec here is an old one. with name: b\n\n"
_LOST = "2026-01-0{0} 03:04:04 - ERROR - An error occurred: the codec gave up\n"
_TRIED = _LOST + _SOUND + _HELP


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (_KEPT.format(1) + _TRIED.format(2) + _KEPT.format(3) + _TRIED.format(4), "last_words"),
        (_KEPT.format(1) + (_TRIED + _KEPT).format(2) + (_TRIED + _KEPT).format(4), ""),
        (_KEPT.replace("kept", "sent").format(1) + (_TRIED + _KEPT).format(4), "last_words"),
    ],
)
def test_a_calm_line_that_stood_above_an_error_too_tells_that_the_program_went_on(
    tmp_path: Path, text: str, rule: str
) -> None:
    assert told(report_of(tmp_path, text))[1] == rule


@pytest.mark.parametrize(("times", "rule"), [(9, ""), (3, "last_words")])
def test_a_program_lives_with_a_complaint_that_stands_far_above_again_and_again(
    tmp_path: Path, times: int, rule: str
) -> None:
    tries = "".join(f"[{n}.5s] lens {n}: no reply, next\n" for n in range(40))
    loop = f"[1.9s] an account\n{tries}[73.1s] the form is filled\n[103.2s] Lens not found\n"
    text = loop * times + "[1.8s] an account\n"
    assert told(report_of(tmp_path, text))[1] == rule


_TILE = "2026-01-02 03:04:{:02} [ERROR] tile {} of the map: status code: 401\n"
_COLD = "2026-01-02 03:05:00 [DEBUG] pipe size 0\n"


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("".join(_TILE.format(n, n * n) for n in range(45)) + _COLD, "last_words"),
        (_COLD * 9 + "".join(_TILE.format(n, n * n) for n in range(9)) + _COLD, ""),
        ("Route not found: lens\n" * 12, "last_words"),
        ("at the door\nRoute not found: lens\nat the gate\nat the bridge\n" * 6, ""),
    ],
)
def test_where_nothing_but_complaints_stand_none_is_a_habit(
    tmp_path: Path, text: str, rule: str
) -> None:
    assert told(report_of(tmp_path, text))[1] == rule
