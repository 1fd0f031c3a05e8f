"""The word of who watches a program is told for its own error only where none stands above it."""

from pathlib import Path

import pytest

from postmortem.analyses.ranklogs import RankLogOptions, analyse
from postmortem.report.model import Report


def _report(folder: Path, text: str) -> Report:
    path = folder / "job.log"
    path.write_text(text)
    return analyse([str(path)], RankLogOptions())


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


@pytest.mark.parametrize(
    ("text", "said"),
    [
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
            "#9 12.31 lumen/ops.py:3:1: error: no name 'step'\n#9 ERROR: process exited\n"
            "ERROR: failed to solve: process did not complete successfully: exit code: 1\n",
            "lumen/ops.py:3:1: error: no name 'step'",
        ),
    ],
)
def test_the_error_above_is_told(tmp_path: Path, text: str, said: str) -> None:
    report = _report(tmp_path, text)
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
        # the runner has a reason of its own
        (
            GITLAB.format("error: shard 3 is slow\n", "execution took longer than 1h0m0s seconds"),
            "execution took longer than 1h0m0s",
        ),
        (
            GITHUB.format(
                "2026-01-02T03:04:06.1Z error: shard 3 is slow\n",
                "The job has exceeded the maximum execution time of 6h0m0s",
            ),
            "exceeded the maximum execution time",
        ),
        # the program went on
        (
            "error: shard 3 is slow\n"
            + "".join(f"step {n} of 40: loss {2.4 - n / 100:.2f}\n" for n in range(30))
            + "lumen-runner: train ended with exit status 3\n",
            "exit status 3",
        ),
        # a mere word, far above
        ("error: shard 3 is slow\n" + QUIET + "lumen-runner: exited with code 1\n", "code 1"),
        # of an artifact, below the word on the program
        (
            "error: shard 3 is slow\n$ make train\nUploading artifacts...\n"
            "FATAL: too large\nERROR: Job failed: exit code 1\n",
            "FATAL: too large",
        ),
    ],
)
def test_what_is_no_error_of_it_is_left(tmp_path: Path, text: str, said: str) -> None:
    report = _report(tmp_path, text)
    assert said in report.verdict
    assert "shard 3" not in report.verdict
    assert report.failed
