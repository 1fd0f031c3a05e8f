"""Incidents that no kind of evidence tells alone, and those of several runs: for make.py.

What a kernel would write of a memory kill is put beside them with the pids of the run.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from corpus.incidents.make import JOB, case, full_disk, reported, torchrun, traced

SLOW = ("--monitor-interval", "3")
"""The agent looks so seldom that a second rank has time to fail by itself."""
_KERNEL = """\
[    0.000000] Linux version 6.8.0-60-generic #63 SMP
[ 4711.121212] {name} invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE), order=0
[ 4711.121288] oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/job,task={name},pid={pid},uid=1000
[ 4711.121299] Memory cgroup out of memory: Killed process {pid} ({name}) total-vm:9251224kB, \
anon-rss:7841220kB, file-rss:2304kB, shmem-rss:0kB, UID:1000 pgtables:15900kB oom_score_adj:0
"""
_JAVA = """\
import java.lang.reflect.Field;
public class Indexer {
    static void put(sun.misc.Unsafe memory, long at) { memory.putLong(at, 1L); }
    public static void main(String[] words) throws Exception {
        Field field = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");
        field.setAccessible(true);
        put((sun.misc.Unsafe) field.get(null), 16L);
    }
}
"""
_SWEPT = """\
import logging, sys
seed = int(sys.argv[1])
form = "[%(asctime)s][%(name)s][%(levelname)s] - %(message)s"
logging.basicConfig(level=logging.INFO, format=form)
log = logging.getLogger("__main__")
def main():
    log.info("seed %d", seed)
    if seed == 1:
        open("/data/shard-00017.bin")
    for epoch in range(4):
        loss = float("nan") if seed == 3 and epoch > 2 else 1 / (epoch + seed + 1)
        log.info("epoch %d loss %.4f", epoch, loss)
        if loss != loss:
            raise FloatingPointError(f"loss is {loss} at epoch {epoch}")
    log.info("best loss %.4f, model saved", loss)
main()
"""
_FOLD = """\
import sys, time
fold = int(sys.argv[1])
print(f"task {fold} of the array", flush=True)
for epoch in range(60 if fold == 1 else 4):
    print(f"epoch {epoch} loss {1 / (epoch + 1):.4f}", flush=True)
    time.sleep(0.1 if fold == 1 else 0)
    if fold == 3 and epoch == 2:
        raise ValueError("could not convert string to float: 'n/a'")
print("fold done, accuracy 0.93")
"""


def _pid(text: str, rank: int) -> str:
    found = re.search(rf"rank {rank} of \d+ is pid (\d+)", text)
    assert found, text
    return found[1]


def _written(log: Path) -> tuple[str, ...]:
    """Record what is written where, without the bytes."""
    return ("strace", "-y", "-s", "0", *traced(log, "write,process")[1:])


def killed_by_kernel(path: Path, pid: int | str, name: str) -> None:
    path.write_text(_KERNEL.format(pid=pid, name=name))


@case
def disk_and_worker(folder: Path) -> None:
    """Rank 1 cannot save, and rank 2 loses a worker: neither has to do with the other."""
    with full_disk() as place:
        torchrun(
            folder,
            *("1=disk", "2=worker-segv"),
            program=JOB,
            env={"CKPT": str(place)},
            before=_written(folder / "strace.txt"),
            more=SLOW,
        )
    reported(folder)


@case
def survived_disk(folder: Path) -> None:
    """Rank 0 caught that the disk is full; the kernel killed rank 2."""
    with full_disk() as place:
        torchrun(
            folder,
            *("0=disk-retried", "2=kill"),
            program=JOB,
            env={"CKPT": str(place)},
            before=_written(folder / "calls.strace"),
        )
    killed_by_kernel(folder / "dmesg.txt", _pid((folder / "job.log").read_text(), 2), "python3")


@case
def frightening(folder: Path) -> None:
    """A job that did well, with errors that it caught; the kernel killed a browser."""
    torchrun(folder, "0=frightening", "2=frightening", program=JOB)
    killed_by_kernel(folder / "dmesg.txt", "77123", "chrome")


@case
def worker_killed_quietly(folder: Path) -> None:
    """The rank makes another error of the death of its worker, which the kernel killed."""
    calls = traced(folder / "strace.txt", "clone,clone3,fork,vfork,exit_group")
    torchrun(folder, "1=worker-kill", program=JOB, before=calls)
    killed = re.search(r"(?m)^(\d+) \+\+\+ killed by SIGKILL", (folder / "strace.txt").read_text())
    assert killed
    killed_by_kernel(folder / "kern.log", killed[1], "pt_data_worker")


@case
def java_child(folder: Path) -> None:
    """A JVM that rank 1 started crashes."""
    with tempfile.TemporaryDirectory() as built:
        (Path(built) / "Indexer.java").write_text(_JAVA)
        subprocess.run(["javac", "Indexer.java"], cwd=built, check=True, capture_output=True)
        words = f"-XX:+CreateCoredumpOnCrash -Xmx64m -Xint -cp {built} Indexer"
        torchrun(folder, "1=java", program=JOB, env={"JAVA_WORDS": words})
    reported(folder)
    for path in folder.glob("hs_err*"):
        path.unlink()  # it describes the whole machine


@case
def helper_survived(folder: Path) -> None:
    """A helper of rank 1 crashed, which rank 1 could do without; rank 2 failed."""
    torchrun(folder, "1=helper", "2=value", program=JOB)
    reported(folder)


@case
def masks_and_error(folder: Path) -> None:
    """A checkpoint with a mask of -inf beside a plain error."""
    import torch

    mask = torch.full((4, 4), float("-inf")).triu(1)
    torch.save({"weight": torch.ones(4, 4), "attn_mask": mask}, folder / "step_2.pt")
    torchrun(folder, "0=raise", program=JOB)


@case
def tries(folder: Path) -> None:
    """Three runs, a log for each: two failed, the third one did well."""
    torchrun(folder, "0=raise", program=JOB, log="run1.log")
    torchrun(folder, "2=value", program=JOB, log="run2.log")
    torchrun(folder, program=JOB, log="run3.log")


@case
def two_failed_jobs(folder: Path) -> None:
    """Two jobs that failed otherwise."""
    torchrun(folder, "0=value", program=JOB, log="jobA.log")
    torchrun(folder, "1=exit", program=JOB, log="jobB.log", ranks=2)


@case
def sweep(folder: Path) -> None:
    """What Hydra's multirun leaves, two of four runs failed."""
    runs = folder / "multirun" / "2026-11-20" / "10-00-00"
    for seed in range(4):
        run = runs / str(seed)
        run.mkdir(parents=True)
        with (run / "train.log").open("wb") as out:
            words = [sys.executable, "-c", _SWEPT, str(seed)]
            subprocess.run(words, stdout=out, stderr=subprocess.STDOUT, check=False)
    (runs / "multirun.yaml").write_text("seed: 0,1,2,3\n")


@case
def array(folder: Path) -> None:
    """What an array of Slurm's leaves: one task reached its time limit, one raised."""
    for fold in range(5):
        with (folder / f"slurm-90210_{fold}.out").open("wb") as out:
            task = subprocess.Popen(
                [sys.executable, "-c", _FOLD, str(fold)], stdout=out, stderr=subprocess.STDOUT
            )
            if fold == 1:
                time.sleep(1.5)
                task.send_signal(signal.SIGTERM)
            task.wait()
            if fold == 1:
                out.seek(0, os.SEEK_END)
                out.write(
                    b"slurmstepd: error: *** JOB 90211 ON node3 CANCELLED AT "
                    b"2026-11-20T12:00:21 DUE TO TIME LIMIT ***\n"
                )
