"""Pairs of texts that say almost the same: in the one somebody went on, in the other nobody did."""

from pathlib import Path

import pytest

from builders.ranklogs import report_of
from postmortem.analyses.ranklogs import RankLogOptions, analyse

_CAUGHT = (
    "Traceback (most recent call last):\n"
    '  File "/job/resume.py", line 19, in try_load\n'
    "    return load(path)\n"
    "RuntimeError: no index in it\n"
)
_MAIN = _CAUGHT.replace("try_load", "<module>").replace("no index in it", "nothing is left")
_STEPS = "".join(f"step {n} loss {9 / n:.3f}\n" for n in range(1, 5))
_TABLE = (
    "JobID           JobName  Partition      State ExitCode\n"
    "71                 eval        gpu    TIMEOUT      0:0\n"
    "72                 test        gpu     FAILED      1:0\n"
)
_EVENTS = (
    "30m  Warning  FailedScheduling  pod/notebook-0  0/3 nodes are available: 3 Insufficient cpu.\n"
    "22m  Warning  Evicted  pod/old-4  The node was low on resource: ephemeral-storage.\n"
    "20m  Normal   Started  pod/train-7-worker-0  Started container trainer\n"
)
_KILLED = "Memory cgroup out of memory: Killed process 88123 (python) total-vm:2kB, anon-rss:1kB\n"
_TRIAL = "[I 2026-11-06 12:0{0}:00,100] Trial {0} finished with value: 0.{0}. Best is trial 0.\n"
_TRIAL_FAILED = (
    "[W 2026-11-06 12:05:00,100] Trial 1 failed with parameters: {'lr': 0.3} because of the "
    "following error: RuntimeError('no index in it').\n" + _CAUGHT.replace("try_load", "_run_trial")
)
_SNAKE = (
    "/bin/sh: line 1: 40112 Killed                  align a > b\n"
    "Error in rule align:\n    jobid: 1\n    output: b\n\n"
)
_UNIT = "Nov 07 16:{0}:11 h3 {1}\n"
_CRASHED = _UNIT.format(
    20, "systemd[1]: a.service: Main process exited, code=dumped, status=11/SEGV"
)
_RESTART = _UNIT.format(
    20, "systemd[1]: a.service: Scheduled restart job, restart counter is at 1."
)
_SERVES = "".join(_UNIT.format(n, f"a[9]: INFO answered {n} requests") for n in range(21, 25))
_GIVES_UP = _UNIT.format(20, "systemd[1]: a.service: Start request repeated too quickly.")
_E_LEVEL = (
    "E1103 07:53:02.901000 25 lumen/select.py:21] [1/0] Runtime error: out of shared memory\n"
    "E1103 07:53:02.901000 25 lumen/select.py:21] [1/0] Ignoring this choice.\n"
)
_PROGRAM = (
    "[box] exit 1: Traceback (most recent call last):\n"
    '  File "/tmp/box/main.py", line 3, in <module>\n    print(best)\n'
    "NameError: name 'best' is not defined\n"
)
_BAR = "{0:3}%|{1}| {0}/100 [00:{0:02}<00:10,  2.0it/s]\n"
_PAIRS = {
    "a loader took another checkpoint": (_CAUGHT + _STEPS, _CAUGHT + "giving up\n"),
    "a level and its stack": (
        f"2026-11-06T09:10:02Z ERROR worker 2 raised\n{_CAUGHT}"
        "2026-11-06T09:12:00Z INFO served 4 blocks\n2026-11-06T09:13:00Z INFO served 5 blocks\n",
        f"2026-11-06T09:10:02Z ERROR worker 2 raised\n{_CAUGHT}"
        "2026-11-06T09:10:03Z ERROR the server stops\n",
    ),
    "a bar came to its end": (
        _CAUGHT + _BAR.format(60, "###") + _BAR.format(100, "###"),
        _CAUGHT + _BAR.format(60, "###"),
    ),
    "jobs of others": ("== before ==\n" + _TABLE + _STEPS, "== after ==\n" + _TABLE),
    "events of others": (
        _EVENTS + "2m   Normal   Completed  job/train-7  Job completed\n",
        _EVENTS + f"2m   Warning  OOMKilling  node/gpu-3  {_KILLED}",
    ),
    "a study goes on": (
        _TRIAL.format(0) + _TRIAL_FAILED + _TRIAL.format(2),
        _TRIAL.format(0) + _TRIAL_FAILED,
    ),
    "a rule is tried again": (
        _SNAKE + "Trying to restart job 1.\nFinished job 1.\n2 of 2 steps (100%) done\n",
        _SNAKE + "Exiting because a job execution failed. Look above for error message\n",
    ),
    "a script ends its server": (
        "+ python eval.py\nacc 0.61\n+ kill 811\nrun.sh: line 3: 811 Terminated  python serve.py\n",
        "+ python eval.py\nacc 0.61\nrun.sh: line 3: 811 Terminated    python serve.py\n",
    ),
    "a unit is started again": (_CRASHED + _RESTART + _SERVES, _CRASHED + _RESTART + _GIVES_UP),
    "a choice is ignored": (_E_LEVEL + _STEPS, _E_LEVEL.partition("\n")[0] + "\n"),
    "a program that was started": (
        "step 1 loss 9.0\n" + _PROGRAM + "step 2 loss 4.5\nstep 3 loss 3.0\n",
        "step 1 loss 9.0\n" + _PROGRAM,
    ),
    "a job that was requeued": (
        "step 1 loss 9.0\nslurmstepd: error: *** JOB 71 ON n1 CANCELLED AT 2026-11-04T03:10:11 DUE "
        "TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***\nSLURM_RESTART_COUNT=1\n" + _STEPS,
        "step 1 loss 9.0\nslurmstepd: error: *** JOB 71 ON n1 CANCELLED AT 2026-11-04T03:10:11 DUE "
        "TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***\n",
    ),
    "a task was submitted again": (
        "[77/1f0e4c] Submitted process > ALIGN (1)\n[77/1f0e4c] NOTE: Process `ALIGN (1)` "
        "terminated with an error exit status (137) -- Execution is retried (1)\n"
        "[5d/447b01] Submitted process > MERGE\nSucceeded   : 2\nFailed      : 1\n",
        "[77/1f0e4c] Submitted process > ALIGN (1)\nERROR ~ Error executing process > 'ALIGN (1)'\n"
        "\nCaused by:\n  Process `ALIGN (1)` terminated with an error exit status (137)\n",
    ),
}  # fmt: skip


@pytest.mark.parametrize("pair", _PAIRS.values(), ids=_PAIRS)
def test_one_of_two_that_say_almost_the_same_failed(pair: tuple[str, str], tmp_path: Path) -> None:
    assert [report_of(tmp_path, text).failed for text in pair] == [False, True]


def test_an_error_behind_which_another_one_ends_the_program_is_not_its_end(tmp_path: Path) -> None:
    report = report_of(tmp_path, _CAUGHT + _BAR.format(60, "###") + _MAIN)
    assert "nothing is left" in report.verdict
    assert "no index" not in report.verdict


def test_work_of_several_processes_tells_nothing_of_one_that_raised(tmp_path: Path) -> None:
    assert report_of(tmp_path, "rank 0 of 4 is ready\n" + _CAUGHT + _STEPS).failed


def test_the_reason_at_the_very_end_counts_more_than_a_word_above(tmp_path: Path) -> None:
    text = (
        "+ nvidia-smi -L\nrun.sh: line 3: nvidia-smi: command not found\n+ tar xf data.tar\n"
        "tar: shard-08: Cannot write: No space left on device\n"
    )
    report = report_of(tmp_path, text)
    assert "No space left on device" in report.verdict


@pytest.mark.parametrize("of_kernel", [False, True])
def test_a_journal_in_which_the_kernel_says_nothing_is_a_log(
    of_kernel: bool, tmp_path: Path
) -> None:
    said = _UNIT.format(19, "kernel: usb 1-1: new device") if of_kernel else ""
    log = tmp_path / "journal.log"
    log.write_text(said + _CRASHED + _RESTART + _GIVES_UP)
    report = analyse([str(log)], RankLogOptions())
    assert report.failed is not of_kernel
