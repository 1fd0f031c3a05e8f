"""Incidents of a program whose lines name no process, laid out as others lay them out: for make.py.

The words of Slurm, of a supervisor and of a kernel are written with what the run left.
"""

import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from corpus.incidents.joined import killed_by_kernel
from corpus.incidents.make import HERE, case, postmortem, small_disk, torchrun, traced
from corpus.incidents.silent import until

PRETRAIN = HERE / "programs" / "pretrain.py"
_CANCELLED = "slurmstepd: error: *** JOB {} ON node031 CANCELLED AT {} DUE TO PREEMPTION ***\n"
_SEGFAULT = (
    "[Sat Nov 28 04:40:10 2026] python3[88123]: segfault at 10 ip 00007f1d2c3b4e10 "
    "sp 00007ffd1f2c3a40 error 4 in libzmq.so.5.2.4[7f1d2c390000+7c000]\n"
)


def run(folder: Path, log: str, *words: str, **more: object) -> None:
    torchrun(folder, *words, program=PRETRAIN, log=log, **more)  # type: ignore[arg-type]


def _ended(log: Path, after: float = 0) -> Callable[[subprocess.Popen[bytes]], None]:
    """Return what ends a job from outside, once it trains and some seconds later."""

    def stop(job: subprocess.Popen[bytes]) -> None:
        until(lambda: "step 4/" in log.read_text())
        time.sleep(after)
        job.send_signal(signal.SIGTERM)

    return stop


@case
def handler_raised(folder: Path) -> None:
    """All ranks raise as the job is preempted; a table of jobs beside says that it was, too."""
    log = folder / "slurm-8123401.out"
    env = {"HANDLER": "1", "STEPS": "4000"}
    run(folder, log.name, env=env, after=_ended(log))
    head, mark, rest = log.read_text().partition("Sending process")
    above, _, line = head.rpartition("\n")
    stop = _CANCELLED.format("8123401", "2026-11-28T05:51:13")
    log.write_text(f"{above}\n{stop}{line}{mark}{rest}")
    (folder / "sacct.txt").write_text(
        "JobID        JobName     Partition  State      ExitCode\n"
        "------------ ----------- ---------- ---------- --------\n"
        "8123401      pretrain    spot       PREEMPTED  0:0\n"
    )


@case
def nothing_saved(folder: Path) -> None:
    """A job that did well, though metrics were refused and no checkpoint had room."""
    calls = traced(folder / "st.out", "openat,write,connect,exit_group,process")
    with small_disk(4) as place:
        env = {"SAVE": str(place), "STEPS": "8"}
        run(folder, "nightly.log", "1=retry", env=env, ranks=2, before=(*calls, "-y"))
    lines = (folder / "st.out").read_text(errors="replace").splitlines(keepends=True)
    rest = re.compile(r"openat\(|write\([0-9]+<(?:pipe|socket|/dev|anon)")  # most of a start
    (folder / "st.out").write_text("".join(line for line in lines if not rest.search(line)))


@case
def own_number_bad(folder: Path) -> None:
    """All see a bad mean and raise; the line of one has its own number behind it."""
    run(folder, "loss.log", "1=nan", env={"CHECKED": "1"})


@case
def tracked(folder: Path) -> None:
    """What a tracker kept of a run lies beside what Hydra kept of it."""
    at = time.strftime("%Y-%m-%d/%H-%M-%S")
    out, files = folder / "outputs" / at, folder / "wandb" / f"run-{re.sub('[-/]', '', at)}-a1b2"
    out.mkdir(parents=True)
    files.mkdir(parents=True)
    run(out, "train.log", "1=value", ranks=2)
    said = re.findall(r"(?m)^\[default0\]:(.*INFO.*\n)", (out / "train.log").read_text())
    (files / "output.log").write_text("".join(said))
    (files / "debug-internal.log").write_text(
        '{"level":"ERROR","msg":"monitor: gpu: error getting metrics: connection error"}\n'
        '{"level":"INFO","msg":"handler: closed"}\n'
    )


@case
def watched_loop(folder: Path) -> None:
    """Two starts that failed otherwise, and what the loop around them wrote."""
    run(folder, "attempt-1.err", "1=value")
    time.sleep(6)
    run(folder, "attempt-2.err", "2=files")
    (folder / "loop.txt").write_text(
        "start training, try 1\nended with status 1, try 2\ntraining failed, giving up\n"
    )


@case
def other_nodes_segfault(folder: Path) -> None:
    """A rank was killed for memory, and on its node a process of somebody else crashed too."""
    run(folder, "train.log", "2=kill")
    named = re.search(r"exitcode  : -9 \(pid: (\d+)\)", (folder / "train.log").read_text())
    assert named
    killed_by_kernel(folder / "node.dmesg", named[1], "python")
    with (folder / "node.dmesg").open("a") as log:
        log.write(_SEGFAULT)


@case
def exit_recorded(folder: Path) -> None:
    """A rank ended by a code without a word; the recording has the same end."""
    run(folder, "job.stderr", "2=exit", before=traced(folder / "syscalls", "process"))


@case
def lock_and_recorders(folder: Path) -> None:
    """Recorders name who never came, and stacks in torchrun's folders where it stands."""

    def look(job: subprocess.Popen[bytes]) -> None:
        until(lambda: len(list(folder.glob("fr_*"))) == 3)
        done = subprocess.run(
            ["pgrep", "-P", str(job.pid)], capture_output=True, text=True, check=False
        )
        for pid in done.stdout.split():
            subprocess.run(["kill", "-USR1", pid], check=True)
        time.sleep(1)
        job.send_signal(signal.SIGTERM)

    more = ("--log-dir", str(folder / "logs"), "-r", "3")
    env = {"FLIGHT": "15", "TORCH_FR_BUFFER_SIZE": "500"}
    run(folder, "launcher.log", "2=lock", env=env, more=more, after=look)
    for path in (folder / "logs").glob("*/attempt_0/*/stderr.log"):
        text = path.read_text()
        path.write_text("".join(line for line in text.splitlines(True) if " - INFO - " not in line))


@case
def time_was_up(folder: Path) -> None:
    """Ranks write their stacks into the job's log every 14 s; one of them never stops counting."""
    log = folder / "joblog"
    run(folder, log.name, "2=spin", env={"LATER": "14"}, after=_ended(log, 18))


@case
def snapshots(folder: Path) -> None:
    """gcore's snapshots of both ranks, of which one stands before a lock; the log only stops."""

    def look(job: subprocess.Popen[bytes]) -> None:
        until(lambda: "step 4/" in (folder / "output.log").read_text())
        time.sleep(4)
        done = subprocess.run(
            ["pgrep", "-P", str(job.pid)], capture_output=True, text=True, check=False
        )
        for pid in done.stdout.split():
            core = folder / f"rank.{pid}.core"
            dump = ("-ex", f"generate-core-file {core}")
            subprocess.run(["gdb", "-p", pid, "-batch", *dump], capture_output=True, check=False)
        job.kill()
        for pid in done.stdout.split():
            subprocess.run(["kill", "-KILL", pid], check=True)

    run(folder, "output.log", "0=lock", ranks=2, after=look)
    for core in folder.glob("*.core"):
        report = postmortem("core", str(core), "--engine", "native", "--json")
        core.with_suffix(".json").write_text(report)
        core.unlink()
    text = (folder / "output.log").read_text()
    (folder / "output.log").write_text(re.split(r"(?m)^.*(?:Traceback|closing signal)", text)[0])
