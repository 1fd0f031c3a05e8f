"""Measures what `postmortem run` costs: bench/run.py [--rounds N] [--pairs N] [--out FILE].

Start: a program that ends at once, bare and under run, taking turns: wall-clock and processor time
of all its processes to its end; and what of it the hook in a Python process takes.
Step: a transformer (forward, backward, AdamW), a process each way that trains side by side with the
other on one processor, in turns of two steps; CPU time of the process, median of the ratios of a
pair, for several pairs. Supervisor: its own CPU time while those trained.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from machine import machine, tell

_TURNS = 16
RUN = [sys.executable, "-m", "postmortem", "run", "--"]
TRAIN = """
import sys, time, torch
torch.set_num_threads(1)
torch.manual_seed(0)
model = torch.nn.Sequential(*(torch.nn.TransformerEncoderLayer(256, 4, 512, batch_first=True)
                              for _ in range(4)))
optimizer = torch.optim.AdamW(model.parameters())
data = torch.randn(8, 64, 256)
def step():
    model(data).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
for _ in range(5):
    step()
for line in sys.stdin:
    began = time.process_time()
    for _ in range(2):
        step()
    print(time.process_time() - began, flush=True)
"""


def cost(command: list[str]) -> tuple[float, float]:
    """Return how long a command takes to its end, and the processor time of all its processes."""
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as running:
        _, status, used = os.wait4(running.pid, 0)
        running.returncode = os.waitstatus_to_exitcode(status)
    assert running.returncode == 0
    return time.perf_counter() - began, used.ru_utime + used.ru_stime


def start(rounds: int) -> dict[str, dict[str, float]]:
    """Return milliseconds: bare, under run, and of a Python with and without the hook."""
    from postmortem.run import environment

    python = [sys.executable, "-c", "pass"]
    rows: dict[str, list[tuple[float, float]]] = {}
    folder = Path(os.environ.get("TMPDIR", "/tmp")) / f"bench-run-{os.getpid()}"
    for part in ("box", "raises"):
        (folder / part).mkdir(parents=True)
    hooked = [
        "env",
        f"POSTMORTEM_RUN={folder}",
        f"PYTHONPATH={environment.with_hook(os.environ.get('PYTHONPATH'))}",
        *python,
    ]
    ways = {
        "true": ["true"],
        "run true": [*RUN, "true"],
        "python": ["env", *python],
        "python with hook": hooked,
        "run python": [*RUN, *python],
    }
    try:
        for _ in range(rounds):
            for name, command in ways.items():
                rows.setdefault(name, []).append(cost(command))
    finally:
        for path in sorted(folder.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        folder.rmdir()
    found = {}
    for name, row in rows.items():
        wall, used = zip(*row, strict=True)
        found[name] = {
            "least": _ms(min(wall)),
            "median": _ms(statistics.median(wall)),
            "processor, least": _ms(min(used)),
            "processor, median": _ms(statistics.median(used)),
        }
    return found


def _ms(seconds: float) -> float:
    return round(1000 * seconds, 1)


def steps(pairs: int) -> dict[str, object]:
    """Return the ratio of a step under run to a bare one, and of a bare one to another bare one.

    Two processes of one program differ by some percent, as their pages happen to lie: so there are
    several pairs, and pairs of bare ones beside them.
    """
    # The trainings share a processor; the supervisor is where it may be, as in a job.
    processor = str(max(os.sched_getaffinity(0)))
    bare = ["taskset", "-c", processor, sys.executable, "-c", TRAIN]
    watched, control, shares = [], [], []
    for _ in range(pairs):
        ratio, share = compared([bare, [*RUN, *bare]])
        watched.append(ratio)
        shares.append(share)
        control.append(compared([bare, bare])[0])
    return {
        "run / bare, each pair": watched,
        "run / bare, median": round(statistics.median(watched), 4),
        "bare / bare, each pair": control,
        "bare / bare, median": round(statistics.median(control), 4),
        "supervisor, share of a processor": round(statistics.median(shares), 5),
    }


def compared(commands: list[list[str]]) -> tuple[float, float]:
    """Return the median ratio of the second's steps to the first's, and its parent's share."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    both = [
        subprocess.Popen(words, **pipes)  # type: ignore[call-overload]
        for words in commands
    ]
    times: list[list[float]] = [[], []]
    began = time.perf_counter()
    for turn in range(_TURNS):
        for index in (0, 1) if turn % 2 else (1, 0):
            both[index].stdin.write("go\n")
            both[index].stdin.flush()
            times[index].append(float(both[index].stdout.readline()))
    stat = Path(f"/proc/{both[1].pid}/stat").read_text().rpartition(") ")[2].split()
    used = (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")
    lasted = time.perf_counter() - began
    for one in both:
        one.stdin.close()
        one.wait()
    ratios = [second / first for first, second in zip(*times, strict=True)]
    return round(statistics.median(ratios), 4), used / lasted


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    found = {"machine": machine(), "start, ms": start(args.rounds)}
    if args.pairs:
        found["step"] = steps(args.pairs)
    tell(found, args.out)


if __name__ == "__main__":
    main()
