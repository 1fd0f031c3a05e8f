"""Measures reading of strace logs: bench/strace.py [--size MB] [--rounds N] [--exports].

Logs are built from the recordings of the corpus, repeated. Every tool reads the same warm file, in
rounds that take turns; medians of wall and CPU time, peak memory from wait4(2), both times against
`grep -c` with LC_ALL=C, and wall time against ripgrep. Tools that are not installed are left out.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import Any

from machine import machine

HERE = Path(__file__).resolve().parent
CORPUS = HERE.parent / "corpus" / "strace"
LOGS = {
    "plain (-f)": ("ckpt_enospc.strace.zst", "ml_shm_buserror.strace.zst"),
    "annotated (-f -tt -T -y)": ("torchrun_tTy.strace.zst",),
    "halves (-f)": ("torchrun_tTy.strace.zst",),
}
# What the second one has and the last one has not: a third of its lines are halves of calls.
_OPTIONS = re.compile(
    rb"(?m)(?<=^\d{5} )[\d:.]{15} | <\d+\.\d{6}>$|"
    rb"(?<=[0-9D])<(?:/|anon_inode|pipe|socket|UNIX|TCP|UDP|NETLINK)[^>\n]*>(?:\(deleted\))?"
)
ASK = "ENOSPC"
NOT_THERE = "ESTALE"

_NATIVE = """
import os, sys
from postmortem import _native
log = _native.read_strace([(os.open(sys.argv[1], os.O_RDONLY), 0)], errors=[sys.argv[2]],
                          threads=int(sys.argv[3]), statistics=sys.argv[4] == "all")
"""


def main() -> None:
    """Build the logs, run all tools, print and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=1000, metavar="MB", help="of each log")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "strace.json")
    parser.add_argument("--folder", help="where the logs are built (default: a temporary folder)")
    parser.add_argument(
        "--exports", action="store_true", help="measure the exports, against the summary alone"
    )
    args = parser.parse_args()
    if args.exports and args.out == HERE / "results" / "strace.json":
        args.out = HERE / "results" / "strace_exports.json"
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        for name, parts in LOGS.items():
            path = Path(folder) / "log"
            size = build(path, parts, args.size * 1_000_000, shorn=name.startswith("halves"))
            if args.exports:
                rows += measure(name, path, size, ASK, args.rounds, exports(path))
                continue
            for find in (ASK, NOT_THERE):
                rows += measure(name, path, size, find, args.rounds, tools(path, find))
    document = {
        "machine": machine(),
        "load_at_end": os.getloadavg()[0],
        "rounds": args.rounds,
        "rows": rows,
    }
    args.out.parent.mkdir(exist_ok=True)
    args.out.write_text(json.dumps(document, indent=1) + "\n")
    for row in rows:
        print(
            f"{row['log']:26} {row['find']:7} {row['tool']:26} {row['wall_s']:7.3f} s "
            f"{row['cpu_s']:7.3f} s CPU {row['mb_per_s']:7.0f} MB/s {row['rss_mib']:6.0f} MiB "
            f"{row['against_grep']:5.2f} x grep, {row['cpu_against_grep']:5.2f} x its CPU"
            + (
                f" {row['cpu_against_summary']:5.2f} x CPU of the summary"
                if "cpu_against_summary" in row
                else ""
            )
        )


def build(path: Path, parts: tuple[str, ...], size: int, *, shorn: bool = False) -> int:
    """Write a log of about `size` bytes, `shorn` of -tt, -T and -y, and return its size."""
    zstd = import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
    data = b"".join(zstd.decompress((CORPUS / part).read_bytes()) for part in parts)
    if shorn:
        data = _OPTIONS.sub(b"", data)
    with path.open("wb") as out:
        for _ in range(-(-size // len(data))):
            out.write(data)
    return path.stat().st_size


def tools(path: Path, find: str) -> dict[str, list[str]]:
    """Return the commands to compare."""
    native = [sys.executable, "-c", _NATIVE, str(path), find]
    found = {
        "grep -c": ["grep", "-c", find, str(path)],
        "postmortem --find, 1 thread": [*native, "1", "errors"],
        "postmortem --find, 2 threads": [*native, "2", "errors"],
        "postmortem, all, 2 threads": [*native, "2", "all"],
        "command --find": [sys.executable, "-m", "postmortem", "strace", str(path), "--find", find],
    }
    if shutil.which("rg"):
        found["rg -c"] = ["rg", "-c", find, str(path)]
    return found


def exports(path: Path) -> dict[str, list[str]]:
    """Return the commands that write every call in one form or another."""
    command = [sys.executable, "-m", "postmortem", "strace", str(path)]
    table = "import sys, postmortem; postmortem.read_strace(sys.argv[1])"
    found = {
        "grep -c": ["grep", "-c", ASK, str(path)],
        "summary": command,
        "read_strace()": [sys.executable, "-c", table, str(path)],
    }
    for option, ending in (
        ("--calls", ".csv"),
        ("--calls", ".ndjson"),
        ("--calls", ".parquet"),
        ("--folded", ".folded"),
        ("--trace", ".trace"),
        ("--trace-all --trace", ".trace"),
    ):
        out = str(path.with_suffix(ending))
        found[f"{option} {ending}"] = [*command, *option.split(), out]
    return found


def measure(
    name: str, path: Path, size: int, find: str, rounds: int, commands: dict[str, list[str]]
) -> list[dict[str, Any]]:
    """Run every tool in turns, after one run to warm up."""
    samples: dict[str, list[tuple[float, float, float]]] = {tool: [] for tool in commands}
    for turn in range(rounds + 1):
        for tool, command in commands.items():
            sample = run(command)
            if turn:
                samples[tool].append(sample)
    medians = {
        tool: tuple(statistics.median(row[i] for row in taken) for i in range(3))
        for tool, taken in samples.items()
    }
    grep, grep_cpu, _ = medians["grep -c"]
    ripgrep = medians.get("rg -c", (None, None, None))[0]
    summary = medians.get("summary", (None, None, None))[1]
    return [
        {
            "log": name,
            "find": find,
            "tool": tool,
            "bytes": size,
            "wall_s": round(wall, 4),
            "cpu_s": round(cpu, 4),
            "mb_per_s": round(size / 1e6 / wall),
            "rss_mib": round(rss),
            "against_grep": round(grep / wall, 3),
            "cpu_against_grep": round(cpu / grep_cpu, 2),
            **({} if ripgrep is None else {"against_ripgrep": round(ripgrep / wall, 3)}),
            **({} if summary is None else {"cpu_against_summary": round(cpu / summary, 2)}),
        }
        for tool, (wall, cpu, rss) in medians.items()
    ]


# An installed package has its bytecode; the first run, which is not counted, writes it here.
BYTECODE = tempfile.TemporaryDirectory()


def run(command: list[str]) -> tuple[float, float, float]:
    """Return wall seconds, CPU seconds and peak memory in MiB of one run."""
    environment = {**os.environ, "LC_ALL": "C", "PYTHONPYCACHEPREFIX": BYTECODE.name}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryFile() as out:  # grep stops at the first hit when it sees /dev/null
        began = time.perf_counter()
        process = subprocess.Popen(command, stdout=out, stderr=out, env=environment)
        _, _, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - began
        process.returncode = 0
    return wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


if __name__ == "__main__":
    main()
