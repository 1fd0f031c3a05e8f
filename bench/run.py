"""Measures what `postmortem run` costs: bench/run.py [--rounds N] [--out FILE].

Start: a program that ends at once, bare and under run, taking turns; the time to its end, and what
of it the hook in a Python process takes. Step: a small GPT-2-like model (forward, backward, AdamW),
one process each way that trains side by side with the other in turns of ten steps; CPU time of the
process, median of the ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from machine import machine

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
    for _ in range(10):
        step()
    print(time.process_time() - began, flush=True)
"""


def seconds(command: list[str]) -> float:
    """Return how long a command takes to its end."""
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def start(rounds: int) -> dict[str, float]:
    """Return milliseconds: bare, under run, and of a Python with and without the hook."""
    import postmortem.run.environment as environment

    python = [sys.executable, "-c", "pass"]
    rows: dict[str, list[float]] = {}
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
                rows.setdefault(name, []).append(seconds(command))
    finally:
        for path in sorted(folder.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        folder.rmdir()
    return {name: round(1000 * statistics.median(row), 1) for name, row in rows.items()}


def step(rounds: int) -> dict[str, float]:
    """Return milliseconds of a step bare and under run, and the median of the ratios."""
    command = [sys.executable, "-c", TRAIN]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    both = [
        subprocess.Popen(words, **pipes)  # type: ignore[call-overload]
        for words in (command, [*RUN, *command])
    ]
    times: list[list[float]] = [[], []]
    for turn in range(rounds):
        for index in (0, 1) if turn % 2 else (1, 0):
            both[index].stdin.write("go\n")
            both[index].stdin.flush()
            times[index].append(float(both[index].stdout.readline()) / 10)
    for one in both:
        one.stdin.close()
        one.wait()
    ratios = [watched / bare for bare, watched in zip(*times, strict=True)]
    return {
        "bare ms": round(1000 * statistics.median(times[0]), 2),
        "run ms": round(1000 * statistics.median(times[1]), 2),
        "ratio": round(statistics.median(ratios), 4),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    found = {
        "machine": machine(),
        "start, ms": start(args.rounds),
        "step": step(args.rounds),
    }
    text = json.dumps(found, indent=2)
    print(text)
    if args.out is not None:
        args.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
