"""Measures how often the verdict is right: bench/emulate.py [--only TEXT] [--rounds N] [--out F].

A job of two ranks (one for a plain script) under each launcher that is here meets each fault of
`postmortem emulate` under `postmortem run`; `postmortem triage` of what was left has to name the
fault, and the rank that met it. Where there is no fault, nothing may be left. A cell is right,
undecided (nobody is blamed), or wrong; a wrong one has the verdict. Under SLURM each rank has a
host of its own, in a network namespace, and a `run` of its own, inside of srun.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from machine import machine, tell

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))

from builders.slurm import Cluster, NoSlurm, cluster  # noqa: E402

_SECONDS = 150
_JOB = """
import datetime, os, sys, time
def variable(*names):
    return next(os.environ[name] for name in names if name in os.environ)
os.environ.setdefault("RANK", variable("RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "ZERO"))
os.environ.setdefault(
    "WORLD_SIZE", variable("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS", "ONE")
)
import torch
import torch.distributed as dist
rank, world, kind = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), sys.argv[-1]
torch.set_num_threads(1)
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=20))
meets_it = rank == world - 1
held = []
class Batches(torch.utils.data.Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, at):
        return torch.ones(1 << 20)
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Linear(4, 4)
        self.head = torch.nn.Linear(4, 1)
    def forward(self, x):
        return self.head(self.body(x))
net = Net()
optimizer = torch.optim.SGD(net.parameters(), 0.01)
def batches():
    if kind == "shm" and meets_it:
        yield from torch.utils.data.DataLoader(Batches(), 4, num_workers=1)
    while True:
        yield None
def save_checkpoint(step):
    with open(f"data/step-{step}.pt", "wb") as stream:
        stream.write(bytes(1 << 20))
def open_shards(step):
    held.extend(open("/dev/null") for _ in range(64))
def keep_activations(step):
    held.append(torch.ones(1 << 26))
work = {"disk": save_checkpoint, "fd": open_shards, "memory": keep_activations}.get(kind)
steps = 1000 if kind in ("net", "slow") else 40
for step, batch in zip(range(steps), batches()):
    if work is not None and meets_it:
        work(step)
    optimizer.zero_grad()
    net(torch.ones(2, 4)).sum().backward()
    for one in net.parameters():
        dist.all_reduce(one.grad)
    optimizer.step()
    time.sleep(0.2)
dist.barrier()
dist.destroy_process_group()
"""

Judge = Callable[[dict[str, Any], int], bool]
"""Whether a report of triage names what happened, given the rank that it happened to."""


def says(*texts: str) -> Judge:
    """Return a judge: the root, or the first of them, is that rank and speaks of one of these."""

    def judge(report: dict[str, Any], rank: int) -> bool:
        if not report["roots"]:
            return False
        root = report["roots"][0]
        words = f"{root['type']} {root['what']} {report['verdict']}"
        return root["ranks"] == [rank] and any(text in words for text in texts)

    return judge


def blames_nobody(report: dict[str, Any], rank: int) -> bool:
    """Return whether a failure is told, and no rank is said to be the cause of it."""
    return report["outcome"] != "healthy" and not any(
        one["ranks"] and one["confidence"] != "possible" for one in report["roots"]
    )


KINDS: dict[str, tuple[list[str], list[str], Judge | None]] = {
    # the fault, options of `run`, and the judge; None: nothing fails
    "none": ([], [], None),
    "clock": (["clock", "100000"], [], None),
    "disk": (["disk", "data", "--leave", "3M"], [], says("No space left")),
    "fd": (["fd", "256"], [], says("Too many open files")),
    "kill": (["kill", "{last}", "--after", "4"], [], says("SIGKILL")),
    "memory": (["memory", "3G"], [], says("memory", "MemoryError", "SIGKILL")),
    "nan": (["nan", "body", "--step", "3", "--rank", "{last}"], ["--numerics"], says("body (Lin")),
    "net": (["net", "--cut-after", "25"], ["--timeout", "80"], blames_nobody),
    "shm": (["shm", "8M"], [], says("shared memory", "/dev/shm", "Bus error", "SIGBUS")),
    "slow": (
        ["slow", "{last}", "--factor", "50", "--after", "20"],
        ["--timeout", "60"],
        says("slow", "holds up", "stopped"),
    ),
}
_PEERS = {"net", "slow"}  # without a peer there is nothing to lose, and nobody to wait
_OWN_HOSTS = {"net"}  # a namespace for each rank is no network


def launchers() -> dict[str, list[str]]:
    """Return what starts two ranks, of the launchers that are here, but for srun."""
    python = sys.executable
    found = {"plain": [python], "torchrun": [python, "-m", "torch.distributed.run"]}
    found["torchrun"] += ["--nproc-per-node", "2", "--master-port", "{port}"]
    if shutil.which("mpirun"):
        found["mpirun"] = ["mpirun", "--oversubscribe", "-np", "2", python]
    if importlib.util.find_spec("accelerate"):
        words = "-m accelerate.commands.launch --multi_gpu --num_processes 2 --num_machines 1"
        words += " --mixed_precision no --dynamo_backend no --main_process_port {port}"
        found["accelerate"] = [python, *words.split()]
    if importlib.util.find_spec("deepspeed"):
        words = "-m deepspeed.launcher.runner --num_accelerators 2 --master_port {port}"
        found["deepspeed"] = [python, *words.split()]
    return found


def cell(launcher: str, kind: str, words: list[str], slurm: Cluster | None) -> dict[str, Any]:
    """Run one job under one fault and judge what is said of it."""
    fault, options, judge = KINDS[kind]
    last = 0 if launcher == "plain" else 1
    with tempfile.TemporaryDirectory(prefix="pm-", dir="/var/tmp") as place:
        here = Path(place)
        (here / "data").mkdir()
        (here / "job.py").write_text(_JOB)
        ours = [sys.executable, "-m", "postmortem"]
        run = [*ours, "run", *options, "--into", str(here / "left"), "--"]
        emulate = [*ours, "emulate", *fault, "--"] if fault else []
        # A limit of memory is run's to see, where it stands around it.
        around = [*emulate, *run] if kind == "memory" else [*run, *emulate]
        port = free_port()
        env = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "ZERO": "0", "ONE": "1"}
        env |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        env |= {"OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu"}
        command = [*around, *(one.format(port=port) for one in words), "job.py", kind]
        who = "command" if launcher == "plain" and kind == "kill" else str(last)
        command = [one.replace("{last}", who) for one in command]
        if slurm is not None:
            env |= {"MASTER_ADDR": slurm.net.address(0), "GLOO_SOCKET_IFNAME": "e0"}
            env |= slurm.env
            child = slurm.net.spawn(0, ["srun", "-N2", "-n2", f"--chdir={here}", *command], env=env)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.communicate(timeout=_SECONDS)
            slurm.run("scancel", "--user=root")
        else:
            with subprocess.Popen(
                command, cwd=here, env={**os.environ, **env}, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
            ) as child:  # fmt: skip
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(_SECONDS)
                child.terminate()
                child.wait()
        return judged(here / "left", judge, last)


def judged(left: Path, judge: Judge | None, last: int) -> dict[str, Any]:
    """Return what is right or wrong with what triage says."""
    folders = sorted(left.iterdir()) if left.is_dir() else []
    if judge is None or not folders:
        right = judge is None and not folders
        return {"answer": "right" if right else "wrong", "verdict": f"{len(folders)} folders left"}
    words = [sys.executable, "-m", "postmortem", "triage", *map(str, folders), "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    report = json.loads(done.stdout)
    sure = [one for one in report["roots"] if one["confidence"] in ("certain", "likely")]
    answer = "right" if judge(report, last) else "wrong" if sure else "undecided"
    return {
        "answer": answer,
        "verdict": report["verdict"],
        "confidence": [one["confidence"] for one in report["roots"]][:1],
    }


def free_port() -> str:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def cells(only: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Run all cells whose name (launcher/kind) holds a text."""
    for launcher, words in launchers().items():
        for kind in KINDS:
            if only in f"{launcher}/{kind}" and not (launcher == "plain" and kind in _PEERS):
                yield launcher, kind, cell(launcher, kind, words, None)
    wanted = [kind for kind in KINDS if only in f"srun/{kind}" and kind not in _OWN_HOSTS]
    if not wanted:
        return
    try:
        with tempfile.TemporaryDirectory() as folder, cluster(Path(folder), 2) as slurm:
            for kind in wanted:
                yield "srun", kind, cell("srun", kind, [sys.executable], slurm)
    except NoSlurm as why:
        print(f"srun: {why}", file=sys.stderr)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="cells (launcher/kind) whose name has this")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    table: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for _ in range(args.rounds):
        for launcher, kind, found in cells(args.only):
            print(f"{launcher}/{kind}: {found['answer']}: {found['verdict']}", file=sys.stderr)
            table.setdefault(launcher, {}).setdefault(kind, []).append(found)
    every = [one for row in table.values() for found in row.values() for one in found]
    rows = {
        launcher: {
            kind: dict(Counter(one["answer"] for one in found))
            | {"not right": [one["verdict"] for one in found if one["answer"] != "right"]}
            for kind, found in row.items()
        }
        for launcher, row in table.items()
    }
    result = {
        "machine": machine(),
        "cells": len(every),
        **Counter(one["answer"] for one in every),
        "table": rows,
    }
    tell(result, args.out)


if __name__ == "__main__":
    main()
