"""Records the incidents of this folder by real runs: ``python -m corpus.incidents.make [NAME...]``.

Each run leaves what a job leaves: logs, cores, strace logs, stacks, checkpoints. Needs PyTorch,
strace, a kernel that leaves cores in the working directory (core_pattern ``core``) and root for the
small file systems. A core is kept as our report on it: the machine that reads it has other
libraries. What was recorded is kept as runs/NAME.tar.xz, its truth in truth.json, written before
anything was concluded from it.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
TRAIN = HERE / "programs" / "train.py"
JOB = HERE / "programs" / "job.py"
ENV = {
    "PATH": os.environ["PATH"],
    "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
    "LANG": "C.UTF-8",
    "OMP_NUM_THREADS": "1",
    "PYTHONUNBUFFERED": "1",
}


def torchrun(
    folder: Path,
    *words: str,
    ranks: int = 3,
    log: str = "job.log",
    before: tuple[str, ...] = (),
    after: Callable[[subprocess.Popen[bytes]], None] | None = None,
    env: dict[str, str] | None = None,
    more: tuple[str, ...] = (),
    seconds: int = 90,
    program: Path = TRAIN,
) -> None:
    """Run the program as a job in `folder`, whose output goes to a log there."""
    command = [*before, sys.executable, "-m", "torch.distributed.run", "--nproc-per-node"]
    command += [str(ranks), "--tee", "3", *more, str(program), *words]
    with (folder / log).open("wb") as out:
        job = subprocess.Popen(
            command, cwd=folder, stdout=out, stderr=subprocess.STDOUT, env={**ENV, **(env or {})}
        )
        if after is not None:
            after(job)
        try:
            job.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            job.send_signal(signal.SIGTERM)
            job.wait(timeout=60)


def postmortem(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "postmortem", *words], capture_output=True, text=True, check=False
    )
    if not done.stdout:
        raise SystemExit(done.stderr)
    return done.stdout


def reported(folder: Path) -> None:
    """Put our report in the place of every core: it says the same on any machine."""
    for core in [p for p in folder.iterdir() if p.name.startswith("core")]:
        report = postmortem("core", str(core), "--engine", "native", "--json")
        core.with_name(f"{core.name}.json").write_text(report)
        core.unlink()


def neutral(folder: Path) -> None:
    """Write the paths and the host of the machine that recorded as those of no machine."""
    names = {
        sys.prefix: "/opt/env",
        sys.base_prefix: "/usr/local",
        str(Path.home()): "/home/me",
        str(TRAIN.parent): "/job",
        str(folder): "/job/run",
        str(HERE.parents[1]): "/src",
        os.uname().nodename: "node1",
    }
    for path in folder.rglob("*"):
        if path.suffix in (".pt", ".gz", ".pickle") or not path.is_file():
            continue
        changed = path.stat().st_mtime_ns
        text = path.read_text(encoding="utf-8", errors="surrogateescape")
        for old, new in names.items():
            pattern = re.escape(old) if "/" in old else rf"\b{re.escape(old)}\b"
            text = re.sub(pattern, new, text)
        path.write_text(text, encoding="utf-8", errors="surrogateescape")
        os.utime(path, ns=(changed, changed))  # it tells which run was the last


@contextmanager
def small_disk(kib: int) -> Iterator[Path]:
    """A file system of a few KiB."""
    place = Path(tempfile.mkdtemp(prefix="small"))
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kib}k", "tmpfs", place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True)
        place.rmdir()


@contextmanager
def full_disk() -> Iterator[Path]:
    """A file system without room."""
    with small_disk(4) as place:
        (place / "fill").write_bytes(bytes(4096))
        yield place


def stacks(job: subprocess.Popen[bytes], folder: Path) -> None:
    time.sleep(12)
    pids = subprocess.run(
        ["pgrep", "-P", str(job.pid)], capture_output=True, text=True, check=False
    ).stdout.split()
    (folder / "hang.json").write_text(postmortem("hang", *pids, "--json"))


def traced(log: Path, calls: str) -> tuple[str, ...]:
    return ("strace", "-f", "-e", f"trace={calls}", "-o", str(log))


CASES: dict[str, Callable[[Path], None]] = {}


def case(run: Callable[[Path], None]) -> Callable[[Path], None]:
    CASES[run.__name__] = run
    return run


@case
def segv_core(folder: Path) -> None:
    torchrun(folder, "segv", "2")
    reported(folder)


@case
def worker_segv_core(folder: Path) -> None:
    torchrun(folder, "worker-segv", "1")
    reported(folder)


@case
def worker_killed(folder: Path) -> None:
    torchrun(folder, "worker-kill", "1")


@case
def worker_raised(folder: Path) -> None:
    torchrun(folder, "worker-raise", "2")


@case
def two_culprits(folder: Path) -> None:
    torchrun(folder, "both", "0,2")
    reported(folder)


@case
def old_core_beside(folder: Path) -> None:
    """The core is that of segv_core, of another run (truth.json, `also`)."""
    torchrun(folder, "raise", "2")


@case
def disk_full_strace(folder: Path) -> None:
    with full_disk() as place:
        torchrun(
            folder,
            "disk",
            "1",
            env={"CKPT": str(place)},
            before=traced(folder / "strace.txt", "file,desc,process"),
        )


@case
def files_strace(folder: Path) -> None:
    calls = traced(folder / "s1.txt", "clone,clone3,fork,vfork,exit_group")
    torchrun(folder, "files", "1", before=("prlimit", "--nofile=512", *calls))


@case
def killed_unknown(folder: Path) -> None:
    torchrun(folder, "kill", "1")


@case
def exit_silent(folder: Path) -> None:
    torchrun(folder, "exit", "2")


@case
def warnings_healthy(folder: Path) -> None:
    torchrun(folder, "warn")


@case
def healthy(folder: Path) -> None:
    torchrun(folder, "none")


@case
def sleeps_hang_json(folder: Path) -> None:
    torchrun(folder, "sleep", "1", env={"TIMEOUT": "25"}, after=lambda job: stacks(job, folder))


@case
def sleeps_timeout(folder: Path) -> None:
    torchrun(folder, "sleep", "2", env={"TIMEOUT": "10"}, seconds=40)


@case
def shape_mismatch(folder: Path) -> None:
    torchrun(folder, "shape", "1", env={"TORCH_DISTRIBUTED_DEBUG": "DETAIL"})


@case
def nan_checkpoint(folder: Path) -> None:
    torchrun(folder, "nan", "0", env={"CKPT": str(folder)})


@case
def raise_and_checkpoint(folder: Path) -> None:
    """A clean checkpoint beside a plain error: numbers have nothing to do with it."""
    import torch

    torch.save({"weight": torch.ones(4, 4)}, folder / "step_10.pt")
    torchrun(folder, "raise", "2")


@case
def restarts_same(folder: Path) -> None:
    torchrun(folder, "raise", "1", more=("--max-restarts", "2"))


@case
def time_limit(folder: Path) -> None:
    def stop(job: subprocess.Popen[bytes]) -> None:
        time.sleep(12)
        job.send_signal(signal.SIGTERM)

    torchrun(folder, "sleep", "0,1,2", after=stop, env={"TIMEOUT": "60"})


@case
def other_jobs_strace(folder: Path) -> None:
    """A full disk of another program, recorded in the same folder."""
    with small_disk(4) as place:
        command = f"dd if=/dev/zero of={place}/other.bin bs=1k count=64"
        subprocess.run(
            ["strace", "-f", "-o", str(folder / "dd.strace"), "sh", "-c", command], check=False
        )
    torchrun(folder, "raise", "0")


@case
def two_jobs(folder: Path) -> None:
    """Logs of two jobs in one folder: one failed, one did well."""
    (folder / "a").mkdir()
    (folder / "b").mkdir()
    torchrun(folder / "a", "none")
    torchrun(folder / "b", "raise", "1")


@case
def nan_only(folder: Path) -> None:
    """Nothing but a series of checkpoints."""
    import torch

    for step, bad in ((10, False), (20, False), (30, True)):
        weight = torch.ones(4, 4)
        if bad:
            weight[1, 2] = float("inf")
        torch.save({"layer.weight": weight}, folder / f"step_{step}.pt")


@case
def port_taken(folder: Path) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        more = ("--master-addr", "127.0.0.1", "--master-port", str(port))
        torchrun(folder, "none", more=more, seconds=60)


def main() -> None:
    """Record the incidents that are named, or all."""
    import resource

    from corpus.incidents import (  # their cases join CASES
        again,  # noqa: F401
        alone,  # noqa: F401
        apart,  # noqa: F401
        beside,  # noqa: F401
        handed,  # noqa: F401
        joined,  # noqa: F401
        others,  # noqa: F401
        outlived,  # noqa: F401
        peers,  # noqa: F401
        silent,  # noqa: F401
        slow,  # noqa: F401
        strangers,  # noqa: F401
    )

    resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    runs = HERE / "runs"
    runs.mkdir(exist_ok=True)
    for name, run in CASES.items():
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / name
            folder.mkdir()
            run(folder)
            neutral(folder)
            with tarfile.open(runs / f"{name}.tar.xz", "w:xz") as tar:
                tar.add(folder, name)
            size = (runs / f"{name}.tar.xz").stat().st_size
            print(f"{name}: {size:,} bytes, {sorted(p.name for p in folder.rglob('*'))}")
            shutil.rmtree(folder)


if __name__ == "__main__":
    from corpus.incidents.make import main as run  # CASES are those of the module, not of a script

    run()
