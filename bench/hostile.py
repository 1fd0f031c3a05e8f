"""Measures what small hostile inputs cost: bench/hostile.py [--limit GB] [--seconds N] [NAME…].

Each is given to its command in a process of its own, under a limit of address space and of CPU
time; peak memory and CPU seconds are those of wait4(2). Inputs are those of
tests/builders/hostile.py and hostile_rooms.py.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from machine import machine

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))
from builders import hostile  # noqa: E402
from builders.hostile_rooms import ROOMS  # noqa: E402

INPUTS = hostile.INPUTS | ROOMS


def main() -> None:
    """Measure all inputs, or those that are named, and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--limit", type=float, default=2, metavar="GB", help="of address space")
    parser.add_argument("--seconds", type=int, default=60, help="of CPU time")
    parser.add_argument("--out", type=Path, help="where to write the figures as JSON")
    parser.add_argument("names", nargs="*", metavar="NAME")
    args = parser.parse_args()
    rows = []
    for name in args.names or INPUTS:
        row = measure(name, round(args.limit * 1e9), args.seconds)
        rows.append(row)
        print(
            f"{name:28} {row['bytes']:>11,} bytes {row['cpu_s']:8.2f} s CPU "
            f"{row['rss_mb']:7,} MB  exit {row['exit']}  {row['last']}",
            flush=True,
        )
    if args.out:
        document = {"machine": machine(), "limit_gb": args.limit, "rows": rows}
        args.out.write_text(json.dumps(document, indent=1) + "\n")


def measure(name: str, limit: int, seconds: int) -> dict[str, Any]:
    """Return size, CPU seconds, peak memory and exit code of one input."""
    make, size = INPUTS[name]
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as err:
        words = make(Path(folder), size)
        files = [path for path in Path(folder).iterdir() if path.is_file()]

        def bounded() -> None:
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))

        process = subprocess.Popen(
            [sys.executable, "-m", "postmortem", *words],
            stdout=subprocess.DEVNULL,
            stderr=err,
            preexec_fn=bounded,
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        err.seek(0)
        said = err.read().decode(errors="replace").strip().splitlines()
        return {
            "input": name,
            "bytes": sum(
                path.stat().st_blocks * 512
                if path.stat().st_size > 1 << 29
                else path.stat().st_size
                for path in files
            ),
            "cpu_s": round(usage.ru_utime + usage.ru_stime, 2),
            "rss_mb": round(usage.ru_maxrss / 1000),
            "exit": process.returncode,
            "last": said[-1][:90] if said else "",
        }


if __name__ == "__main__":
    main()
