"""Measures what reading in a child costs a command: bench/containment.py [--runs N].

The same command on a small log, by turns in a child and without one, each in a process of its own:
wall time and CPU time (user and system, its children's too) of each pair, and how they differ.
Other programs on the machine make a single run slower, seldom faster; so the best of each is told
beside the median of the differences.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from machine import machine

HERE = Path(__file__).resolve().parent
_CONTAINED = "from postmortem.entry import run; run()"
_BY_ITSELF = (
    "from postmortem.cli import commands; commands.CONTAINED = (); "
    "from postmortem.entry import run; run()"
)


def main() -> None:
    """Measure, print and keep the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=100, help="pairs")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "containment.json")
    args = parser.parse_args()
    env = {**os.environ, "PYTHONPATH": str(HERE.parent / "src")}
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "job.log")
        log.write_text("step 1\nstep 2\n")
        rows: dict[str, list[tuple[float, float]]] = {"contained": [], "by itself": []}
        for turn in range(args.runs + 3):
            for name, program in (("contained", _CONTAINED), ("by itself", _BY_ITSELF)):
                cost = _cost([sys.executable, "-c", program, "logs", str(log)], env)
                if turn >= 3:
                    rows[name].append(cost)
    result = {"machine": machine(), "pairs": args.runs, "milliseconds": {}}
    for which, what in enumerate(("wall", "cpu")):
        mine = [row[which] for row in rows["contained"]]
        bare = [row[which] for row in rows["by itself"]]
        pairs = sorted(a - b for a, b in zip(mine, bare, strict=True))
        quarters = statistics.quantiles(pairs, n=4)
        found = {
            "best contained": min(mine),
            "best by itself": min(bare),
            "difference of the best": min(mine) - min(bare),
            "median difference": statistics.median(pairs),
            "quartiles of it": [quarters[0], quarters[2]],
        }
        result["milliseconds"][what] = _rounded(found)
        print(what, result["milliseconds"][what])
    args.out.write_text(json.dumps(result, indent=1) + "\n")


def _cost(command: list[str], env: dict[str, str]) -> tuple[float, float]:
    """Return milliseconds of wall and of CPU time."""
    began = time.perf_counter()
    process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return 1000 * wall, 1000 * (usage.ru_utime + usage.ru_stime)


def _rounded(found: dict[str, float | list[float]]) -> dict[str, float | list[float]]:
    return {
        name: [round(one, 2) for one in value] if isinstance(value, list) else round(value, 2)
        for name, value in found.items()
    }


if __name__ == "__main__":
    main()
