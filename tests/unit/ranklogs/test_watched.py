"""The word of who watches a program is told for its own error only where none stands above it."""

import gzip
from pathlib import Path
from typing import Any

import pytest

from builders.prose import Prose
from builders.ranklogs import raised_first, report_of
from postmortem.analyses.ranklogs import RankLogOptions, analyse
from postmortem.report.model import Outcome

QUIET = "".join(f"reading shard {n} of 90\n" for n in range(60))
GITLAB = """\
$ make shards
cp: lumen.bin: No such file or directory
$ make train
{}Cleaning up project directory and file based variables
00:01
ERROR: Job failed: {}
"""
JENKINS = """\
[Pipeline] sh
+ ./train.sh
{}[Pipeline] }}
[Pipeline] // stage
[Pipeline] stage
[Pipeline] {{ (Deploy)
Stage "Deploy" skipped due to earlier failure(s)
[Pipeline] }}
[Pipeline] stage
[Pipeline] {{ (Declarative: Post Actions)
[Pipeline] sh
+ docker rmi lumen
Error: No such image: lumen
[Pipeline] End of Pipeline
ERROR: script returned exit code 1
Finished: FAILURE
"""
GITHUB = """\
2026-01-02T03:04:05.1Z ##[group]Run make shards
2026-01-02T03:04:05.1Z ##[endgroup]
2026-01-02T03:04:05.2Z fatal: lumen is no repository
2026-01-02T03:04:05.3Z ##[group]Run make train
2026-01-02T03:04:05.3Z ##[endgroup]
{}2026-01-02T03:04:09.1Z ##[error]{}
2026-01-02T03:04:09.2Z Post job cleanup.
"""
EXTENSION = """\
[1/2] nvcc -c lumen.cu -o lumen.o
FAILED: lumen.o
lumen.cu(31): error: identifier "half8" is undefined
ninja: build stopped: subcommand failed.
Traceback (most recent call last):
  File "/job/train.py", line 3, in <module>
    load()
  File "/job/ops.py", line 9, in load
    subprocess.run(["ninja", "-v"], check=True)
subprocess.CalledProcessError: Command '['ninja', '-v']' returned non-zero exit status 1.

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/job/train.py", line 5, in <module>
    load()
  File "/job/ops.py", line 11, in load
    raise RuntimeError("Error building extension 'lumen'") from e
RuntimeError: Error building extension 'lumen'
"""
PIP = """\
  Building wheel for lumen (pyproject.toml): finished with status 'error'
  error: subprocess-exited-with-error

  × Building wheel for lumen (pyproject.toml) did not run successfully.
  │ exit code: 1
  ╰─> [3 lines of output]
      running build_ext
      lumen/ops.c:3:10: fatal error: lumen.h: No such file or directory
          3 | #include <lumen.h>
      error: command '/usr/bin/gcc' failed with exit code 1
      [end of output]

  note: This error originates from a subprocess, and is likely not a problem with pip.
  ERROR: Failed building wheel for lumen
ERROR: Could not build wheels for lumen, which is required to install it
"""
LSF = """\
lumen: fatal: no shard 3

------------------------------------------------------------
Sender: LSF System <lsfadmin@node1>
Subject: Job 71: <./train> in cluster <lumen> Exited

Your job looked like:

------------------------------------------------------------
# LSBATCH: User input
./train
------------------------------------------------------------

Exited with exit code 3.

Resource usage summary:

    CPU time :                                   0.31 sec.
"""
MAVEN = (
    "[ERROR] /job/src/Lumen.java:[3,1] class, interface, enum, or record expected\n"
    "[ERROR] -> [Help 1]\n"
    "org.apache.maven.lifecycle.LifecycleExecutionException: Failed to execute goal compile\n"
    + "    at org.apache.maven.cli.MavenCli.main (MavenCli.java:206)\n" * 60
    + "[ERROR] \n[ERROR] Re-run Maven using the -X switch to enable full debug logging.\n"
)
GRADLE = """\
> Task :compileJava FAILED
/home/user/src/Lumen.java:3: error: cannot find symbol
        shard();
1 error

FAILURE: Build failed with an exception.

* What went wrong:
> Compilation failed; see the compiler error output for details.

BUILD FAILED in 3s
1 actionable task: 1 executed
"""
AIRFLOW = """\
[2026-01-02, 03:04:06 UTC] {subprocess.py:93} INFO - ./train.sh: line 3: lumen: command not found
[2026-01-02, 03:04:06 UTC] {subprocess.py:97} INFO - Command exited with return code 127
[2026-01-02, 03:04:06 UTC] {taskinstance.py:1937} ERROR - Task failed with exception
[2026-01-02, 03:04:06 UTC] {local_task_job_runner.py:228} INFO - Task exited with return code 1
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "/home/user/step.cpp:3:1: error: 'shard' does not name a type\n"
            "gmake[2]: *** [CMakeFiles/step.dir/build.make:76: step.cpp.o] Error 1\n"
            "gmake: *** [Makefile:91: all] Error 2\n",
            "/home/user/step.cpp:3:1: error: 'shard' does not name a type",
        ),
        (
            "lumen: error: no shard 3\nCommand exited with non-zero status 3\n"
            "\tUser time (seconds): 0.31\n\tExit status: 3\n",
            "lumen: error: no shard 3",
        ),
        (
            "lumen: error: no shard 3\nApplication 4711 exit codes: 3\n"
            "Application 4711 resources: utime ~0s, stime ~0s, Rss ~9000\n",
            "lumen: error: no shard 3",
        ),
        (
            "remote: error: File shards.bin is 150 MB; this exceeds the limit\n"
            "To https://example.org/lumen.git\n"
            " ! [remote rejected] main -> main (pre-receive hook declined)\n"
            "error: failed to push some refs to 'https://example.org/lumen.git'\n",
            "remote: error: File shards.bin is 150 MB; this exceeds the limit",
        ),
        (PIP, "lumen/ops.c:3:10: fatal error: lumen.h: No such file or directory"),
        (LSF, "lumen: fatal: no shard 3"),
        (MAVEN, MAVEN.split("\n", 1)[0]),
        (GRADLE, "/home/user/src/Lumen.java:3: error: cannot find symbol"),
        (AIRFLOW, "./train.sh: line 3: lumen: command not found"),
        (GITLAB.format("train: error: no shard 3\n", "exit code 1"), "train: error: no shard 3"),
        (JENKINS.format("ValueError: no shard 3\n"), "ValueError: no shard 3"),
        (
            GITHUB.format(
                "2026-01-02T03:04:06.1Z Type error: no field 'step'\n"
                "2026-01-02T03:04:06.2Z   > 31 | throw new Error('never: shown')\n",
                "Process completed with exit code 2.",
            ),
            "Type error: no field 'step'",
        ),
        (EXTENSION, 'lumen.cu(31): error: identifier "half8" is undefined'),
        (
            "lumen.c:7:1: error: unknown type name 'shard'\nlumen.c:9:1: error: no more\n"
            "make[1]: *** [Makefile:3: lumen.o] Error 1\nmake: *** [Makefile:1: all] Error 2\n",
            "lumen.c:7:1: error: unknown type name 'shard'",
        ),
        (
            "@lumen/ops: Killed\n@lumen/ops: error Command failed with exit code 137.\n"
            "@lumen/ops: info Visit https://example.org/run for documentation\n"
            "lerna ERR! yarn run build exited 137 in '@lumen/ops'\n"
            "Exited with code exit status 137\n",
            "@lumen/ops: Killed",
        ),
        (
            "CMake Error at CMakeLists.txt:14 (find_package):\n  No package lumen\n"
            + QUIET
            + "-- Configuring incomplete, errors occurred!\nlumen-runner: exited with code 1\n",
            "CMake Error at CMakeLists.txt:14 (find_package): No package lumen",
        ),
        (
            f"p=7 | fatal: [lumen]: FAILED! => no shard\n{QUIET}"
            "p=7 | lumen : ok=8 changed=2 unreachable=0 failed=1 skipped=0\n"
            + "".join(f"p=7 | cp {part} ----------- 0.12s\n" for part in "abcdefghijkl"),
            "p=7 | fatal: [lumen]: FAILED! => no shard",
        ),
        (
            "#9 12.31 lumen/ops.py:3:1: error: no name 'step'\n"
            '#9 ERROR: process "make" did not complete successfully: exit code: 1\n'
            'ERROR: failed to solve: process "make" did not complete successfully: exit code: 1\n',
            "#9 12.31 lumen/ops.py:3:1: error: no name 'step'",
        ),
        (
            "n3:7:8 [6] NCCL WARN Call to ibv_modify_qp failed with error Connection timed out\n"
            "n1:5:6 [0] NCCL WARN Call to recv from 10.0.0.3<41> failed : Broken pipe\n"
            "[rank0]: torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:7, "
            "remote process exited or there was a network error, NCCL version 2.19.3\n",
            "n3:7:8 [6] NCCL WARN Call to ibv_modify_qp failed with error Connection timed out",
        ),
        # of a chain of causes the innermost, of two chains that of the first
        (
            "[INFO] --- exec:3.1:java (default-cli) @ lumen ---\n"
            "[WARNING]\na.b.JobException: Job failed.\n    at a.b.Job.run (Job.java:7)\n"
            "Caused by: a.b.JobException: No restart\n    at a.b.Job.plan (Job.java:9)\n"
            "Caused by: c.d.GoneException: no broker at 10.0.0.3\n    at c.d.Net.ask (Net.java:3)\n"
            "Exception in thread t-2: state\n"
            "Caused by: e.f.StateException: not open\n    at e.f.It.get (It.java:5)\n"
            "[INFO] BUILD FAILURE\n"
            "[ERROR] Failed to execute goal org.x:exec:3.1:java (default-cli) on project lumen: "
            "An exception occurred while executing the Java class. Job failed. -> [Help 1]\n",
            "Caused by: c.d.GoneException: no broker at 10.0.0.3",
        ),
    ],
)
def test_the_error_above_is_told(tmp_path: Path, text: str, said: str) -> None:
    report = report_of(tmp_path, text)
    assert report.verdict == said
    assert [one.id for one in report.diagnoses] == ["last_words"]
    assert report.failed


@pytest.mark.parametrize(
    ("text", "said"),
    [
        # of another command, from which the runner went on
        (GITLAB.format("", "exit code 1"), "Job failed: exit code 1"),
        (GITHUB.format("", "Process completed with exit code 2."), "completed with exit code 2"),
        (JENKINS.format(""), "exit code 1"),
        # the program went on
        (
            "error: shard 3 is slow\n"
            + "".join(f"step {n} of 40: loss {2.4 - n / 100:.2f}\n" for n in range(30))
            + "lumen-runner: train ended with exit status 3\n",
            "exit status 3",
        ),
        # a mere word, far above
        ("error: shard 3 is slow\n" + QUIET + "lumen-runner: exited with code 1\n", "code 1"),
        # the name of a test stands between lines, and says what failed alone
        (
            "=====\nERROR: shard 3\n-----\nTraceback (most recent call last):\n"
            '  File "/job/check.py", line 3, in <module>\n    check()\n'
            "RuntimeError: process 1 exited with code 3\n",
            "RuntimeError: process 1 exited with code 3",
        ),
        # of an artifact, below the word on the program
        (
            "error: shard 3 is slow\n$ make train\nUploading artifacts...\n"
            "FATAL: too large\nERROR: Job failed: exit code 1\n",
            "FATAL: too large",
        ),
    ],
)
def test_what_is_no_error_of_it_is_left(tmp_path: Path, text: str, said: str) -> None:
    report = report_of(tmp_path, text)
    assert said in report.verdict
    assert "shard 3" not in report.verdict
    assert report.failed


INDENTED = """\
  Preparing metadata (setup.py) ... error
      Traceback (most recent call last):
        File "/home/user/setup.py", line 3, in <module>
          import lumen
      ModuleNotFoundError: No module named 'lumen'
      [end of output]

Example: lumen --no-plugins install <package>
"""


def test_a_traceback_that_a_report_indents_ends_where_it_ends(tmp_path: Path) -> None:
    report = report_of(tmp_path, INDENTED)
    assert raised_first(report) == (None, "ModuleNotFoundError: No module named 'lumen'")


def test_errors_that_an_exception_counts_are_told(tmp_path: Path) -> None:
    raised = (
        'Traceback (most recent call last):\n  File "/job/train.py", line 3, in <module>\n'
        "    step()\nlumen.errors.NotFoundError: 2 root error(s) found.\n"
        "  (0) Not found: shard-3; No such file or directory\n\t [[{{node ReadFile}}]]\n"
    )
    assert "Not found: shard-3" in report_of(tmp_path, raised).verdict


@pytest.mark.parametrize(("first", "told"), [("lum/link.cpp:64", True), ("no link", False)])
def test_below_a_place_in_a_source_the_last_plain_line_says_why(
    tmp_path: Path, first: str, told: bool
) -> None:
    raised = (
        'Traceback (most recent call last):\n  File "/job/train.py", line 3, in <module>\n'
        f"    step()\nRuntimeError: [ERROR] {first}\n[ERROR] the call failed\n"
        "LJ0001: the last run is still here\n        Solution: wait for it\n"
    )
    assert ("LJ0001" in report_of(tmp_path, raised).verdict) is told


@pytest.mark.parametrize(
    ("text", "failed"),
    [
        ("Model loading failed\n", True),
        ("no such module: lumen\n", True),
        ("reading shards\n/data/shard-3 does not exist\n", True),
        ("2026-01-02 03:04:05 [main ] [INFO ]  ERROR: reading shard 3\n", True),
        ("2026-01-02 03:04:05 [main ] [INFO ]  no ERROR: was found\n", False),
        ("missing file: /data/shard-3\n", True),
        (QUIET + "missing rows: 3\n", False),
        (QUIET + "out of memory on batch 7, halving it\n", False),
        (QUIET + "Fehler: Datei fehlt\n", True),
        ("no errors found\n", False),
        ("failed tests: 0\n", False),
        ("WARNING: shard 3 was not found\n", False),
        ("Model loading failed\n" + QUIET, False),
        (QUIET + "Model loading failed\n", True),
        (QUIET + "./train.sh: 3: lumen: not found\nleaving\n", True),
        (QUIET + "shard 3 was not found\nStep 3: loss 2.31\n", False),
    ],
)
def test_a_word_for_what_went_wrong_counts_at_the_end(
    tmp_path: Path, text: str, failed: bool
) -> None:
    report = report_of(tmp_path, text)
    assert (report.outcome, report.failed) == (Outcome.UNKNOWN, failed), report.verdict


GDB = """\
Thread 1 "python3" received signal SIGILL, Illegal instruction.
0x00007ffff556545c in lumen_kernel () from /usr/lib/liblumen.so.1
"""


def test_where_gdb_stopped_is_told(tmp_path: Path) -> None:
    assert "SIGILL: Illegal instruction in lumen_kernel (liblumen.so.1)" in (
        report_of(tmp_path, GDB).verdict
    )


@pytest.mark.parametrize(
    "text",
    [
        "node1:71:91 [0] include/socket.h:403 NCCL WARN Connect to fe80::1%6<57335> failed : "
        "Network is unreachable\n",
        'Traceback (most recent call last):\n  File "/job/train.py", line 379,\n in save\n'
        "    _save(obj)\n",
    ],
)
def test_the_word_that_matters_is_told(tmp_path: Path, text: str, prose: Prose) -> None:
    prose(report_of(tmp_path, QUIET + text).verdict)


WATCHDOG = (
    "[rank{rank}]:[E816 01:45:40.1 ProcessGroupNCCL.cpp:607] [Rank {rank}] Watchdog caught "
    "collective operation timeout: WorkNCCL(SeqNum={number}, OpType={op}, NumelIn=5, NumelOut=5, "
    "Timeout(ms)=600000) ran for 600026 milliseconds before timing out.\n"
)


@pytest.mark.parametrize(("number", "told"), [(80, True), (79, False)])
def test_watchdogs_in_different_operations_of_one_number(
    tmp_path: Path, number: int, told: bool
) -> None:
    one = WATCHDOG.format(rank=7, number=80, op="BROADCAST")
    other = WATCHDOG.format(rank=3, number=number, op="ALLREDUCE")
    report = report_of(tmp_path, one + other)
    assert ("undecided_mismatch" in [one.id for one in report.diagnoses]) is told


def test_the_error_above_is_told_of_utf_16_too(tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    path.write_text(GITLAB.format("train: error: no shard 3\n", "exit code 1"), "utf-16")
    assert analyse([str(path)], RankLogOptions()).verdict == "train: error: no shard 3"


def test_the_error_above_is_told_of_a_packed_log_too(tmp_path: Path) -> None:
    path = tmp_path / "job.log.gz"
    path.write_bytes(
        gzip.compress(GITLAB.format("train: error: no shard 3\n", "exit code 1").encode())
    )
    assert analyse([str(path)], RankLogOptions()).verdict == "train: error: no shard 3"


@pytest.mark.parametrize(
    ("above", "why"),
    [
        ("ERROR on proc 3: lost atoms (src/a.cpp:31)\n", "ERROR on proc 3: lost atoms"),
        (f"Fatal error:\nToo many warnings (1000)\n\n{'-' * 60}\n", "Too many warnings (1000)"),
        ("step 7 done\n", "errorcode 1 on MPI_COMM_WORLD"),
    ],
)
def test_why_a_rank_called_abort_stands_above(tmp_path: Path, above: str, why: str) -> None:
    notice = "MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD\nwith errorcode 1.\n"
    body: Any = report_of(tmp_path, f"step 6 done\n{above}{'-' * 60}\n{notice}").body
    assert body["first_failure"]["ranks"] == [3]
    assert why in body["first_failure"]["what"]


def test_the_code_that_lsf_reports_is_told_above_what_the_job_wrote(tmp_path: Path) -> None:
    report = report_of(tmp_path, LSF.split("\n", 2)[2] + "\nThe output follows:\n\n" + QUIET)
    assert [one.id for one in report.diagnoses] == ["unnamed_process_ended"]


_RUNS = "".join(
    f"26/01/02 03:04:0{n // 12} INFO TaskSetManager: Finished task {n}.0 in stage 1.0 (TID {n}) "
    f"in 31 ms on 10.0.0.7 (executor 1) ({n + 1}/96)\n"
    for n in range(96)
)
_LOSES = "WARN TaskSetManager: Lost task 5.0 in stage 3.0 (TID 129) (10.0.0.7 executor 2): {}\n"
_GIVES_UP = (
    "26/01/02 03:04:29 ERROR TaskSetManager: Task 5 in stage 3.0 failed 4 times; aborting job\n"
    "26/01/02 03:04:29 INFO TaskSchedulerImpl: Cancelling stage 3\n"
    "26/01/02 03:04:29 INFO DAGScheduler: Job 2 failed: count at fit.py:31, took 6.03 s\n"
)
_GOES_ON = "26/01/02 03:04:30 INFO DAGScheduler: Job {} finished: count at fit.py:40, took 1.20 s\n"
_CLOSES = "".join(
    f"26/01/02 03:04:31 INFO {row}\n"
    for row in (
        "SparkContext: Invoking stop() from shutdown hook",
        "SparkUI: Stopped Spark web UI at http://10.0.0.1:4040",
        "MemoryStore: MemoryStore cleared",
        "SparkContext: Successfully stopped SparkContext",
        "ShutdownHookManager: Deleting directory /tmp/spark-1",
    )
)


@pytest.mark.parametrize(
    ("above", "below", "said"),
    [
        (_LOSES.format("java.lang.OutOfMemoryError: Java heap space"), _GIVES_UP, "heap space"),
        ("", _GIVES_UP, "aborting job"),
        (_LOSES.format("ExecutorLostFailure"), _GIVES_UP + _GOES_ON.format(3), ""),
        (_LOSES.format("java.io.IOException: no route"), _GOES_ON.format(2), ""),
    ],
)
def test_with_what_a_task_of_spark_failed_is_told(
    tmp_path: Path, above: str, below: str, said: str
) -> None:
    report = report_of(tmp_path, f"{_RUNS}{above and '26/01/02 03:04:25 '}{above}{below}{_CLOSES}")
    assert report.failed == bool(said)
    assert said in report.verdict


@pytest.mark.parametrize(
    ("last", "told"),
    [
        ("[ERROR] Aborting.", "no map"),
        ("ERROR: Training aborted", "no map"),
        ("[ERROR] Aborting: no room is left", "no room"),
    ],
)
def test_who_only_says_that_he_gives_up_has_said_why_above(
    tmp_path: Path, last: str, told: str
) -> None:
    text = f"[INFO] it begins\n[ERROR] no map is there\n[DEBUG] the socket is closed\n{last}\n"
    assert told in report_of(tmp_path, text).verdict
