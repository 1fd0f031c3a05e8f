"""Measures fastscan(): bench/scan.py [--rounds N] [--out FILE] [--calls-only].

For each size and data type: our scan, a pure load loop of the same width over the same memory (what
reading it once costs), torch.aminmax, and the recipe of Hugging Face's debug_utils, in rounds that
take turns; medians, and ratios to ours. One and two threads. Then the call itself: 16 floats, and
100 tensors of 16 floats in one list; then a checkpoint in the page cache.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from postmortem import _scan, fastscan

HERE = Path(__file__).resolve().parent
SIZES = {"64 KiB": 64 << 10, "1 MiB": 1 << 20, "16 MiB": 16 << 20, "256 MiB": 256 << 20}
DTYPES = ("float32", "bfloat16", "float16", "float8_e5m2")
Way = Callable[[torch.Tensor], object]


def recipe(x: torch.Tensor) -> tuple[float, float, bool, bool]:
    """What transformers.debug_utils does for one tensor."""
    absolute = x.abs()
    return (
        absolute.min().item(),
        absolute.max().item(),
        bool(torch.isnan(x).any().item()),
        bool(torch.isinf(x).any().item()),
    )


def load_loop(x: torch.Tensor) -> object:
    """Read the memory once and do nothing else."""
    return _scan.read_memory(x.data_ptr(), x.numel() * x.element_size())


def seconds(way: Way, x: torch.Tensor, repeat: int) -> float:
    """Time of one call, of `repeat` in a row."""
    began = time.perf_counter()
    for _ in range(repeat):
        way(x)
    return (time.perf_counter() - began) / repeat


def compare(ways: dict[str, Way], x: torch.Tensor, rounds: int) -> dict[str, float]:
    """Median seconds of each way, which take turns."""
    size = x.numel() * x.element_size()
    repeats = {
        name: max(1, int(2e-3 / max(seconds(way, x, 1), 1e-7))) for name, way in ways.items()
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            times[name].append(seconds(way, x, repeats[name]))
    return {name: statistics.median(rows) for name, rows in times.items()} | {"bytes": size}


def bandwidth(rounds: int) -> list[dict[str, Any]]:
    """Rows for all sizes, types, kinds of data and numbers of threads."""
    rows = []
    for threads in (1, 2):
        _scan.set_threads(threads)
        torch.set_num_threads(threads)
        for dtype in DTYPES:
            for label, size in SIZES.items():
                kind = getattr(torch, dtype)
                x = torch.randn(size // kind.itemsize).to(kind)
                for data in ("normal", "half zeros"):
                    if data == "half zeros":
                        x = x.to(torch.float32).relu().to(kind)
                    ways: dict[str, Way] = {"fastscan": fastscan, "load loop": load_loop}
                    if "float8" not in dtype:
                        ways["torch.aminmax"] = torch.aminmax
                        if size <= 1 << 20:
                            ways["recipe of HF"] = recipe
                    times = compare(ways, x, rounds)
                    row = {"threads": threads, "dtype": dtype, "size": label, "data": data}
                    row["gb_per_s"] = round(times["bytes"] / times["fastscan"] / 1e9, 2)
                    for name in ways:
                        if name != "fastscan":
                            row[f"{name} / fastscan"] = round(times[name] / times["fastscan"], 3)
                    rows.append(row)
                    print(row)
    return rows


def calls(rounds: int) -> dict[str, float]:
    """Nanoseconds of small calls."""
    small = torch.randn(16)
    many = [torch.randn(16) for _ in range(100)]
    ways: dict[str, Way] = {"fastscan": fastscan, "aminmax": torch.aminmax, "recipe": recipe}
    # Short samples, and many: most of them see no other program, however busy the machine is.
    one = {
        name: statistics.median(seconds(way, small, 20) for _ in range(50 * rounds))
        for name, way in ways.items()
    }
    listed = statistics.median(seconds(fastscan, many, 5) for _ in range(50 * rounds))  # type: ignore[arg-type]
    return {
        "16 floats, ns": round(one["fastscan"] * 1e9),
        "16 floats, torch.aminmax, ns": round(one["aminmax"] * 1e9),
        "16 floats, recipe of HF, ns": round(one["recipe"] * 1e9),
        "each of 100 in a list, ns": round(listed * 1e7),
    }


def checkpoint(rounds: int) -> dict[str, float]:
    """A checkpoint of 1 GB in the page cache, on one core: ours, and torch over its mmap."""
    from postmortem.readers.checkpoint.scanning import scan_checkpoint

    _scan.set_threads(1)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/model.pt"
        torch.save({f"layer{i}": torch.randn(4096, 4096).bfloat16() for i in range(32)}, path)
        ours, theirs = [], []
        for _ in range(rounds):
            began = time.perf_counter()
            scan_checkpoint([path])
            ours.append(time.perf_counter() - began)
            began = time.perf_counter()
            for tensor in torch.load(path, mmap=True, weights_only=True).values():
                torch.aminmax(tensor)
            theirs.append(time.perf_counter() - began)
        size = Path(path).stat().st_size
    mine, other = statistics.median(ours), statistics.median(theirs)
    return {"gb_per_s": round(size / mine / 1e9, 2), "torch.aminmax / ours": round(other / mine, 2)}


def main() -> None:
    """Run all, print and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "scan.json")
    parser.add_argument(
        "--calls-only", action="store_true", help="measure the calls, keep the rest"
    )
    args = parser.parse_args()
    if args.calls_only:
        document = json.loads(args.out.read_text())
        document["calls"] = calls(args.rounds)
        document["load_at_end_of_calls"] = os.getloadavg()[0]
        args.out.write_text(json.dumps(document, indent=1) + "\n")
        print(json.dumps(document["calls"]))
        return
    document = {
        "machine": f"{platform.processor() or platform.machine()}, {os.cpu_count()} CPUs",
        "level": _scan.level(),
        "torch": torch.__version__,
        "rounds": args.rounds,
        "bandwidth": bandwidth(args.rounds),
        "calls": calls(args.rounds),
        "checkpoint": checkpoint(args.rounds),
        "load_at_end": os.getloadavg()[0],
    }
    args.out.write_text(json.dumps(document, indent=1) + "\n")
    print(json.dumps({key: document[key] for key in ("calls", "checkpoint")}))


if __name__ == "__main__":
    main()
