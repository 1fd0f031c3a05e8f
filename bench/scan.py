"""Measures fastscan(): bench/scan.py [--seconds N] [--only WORDS] [--out FILE] [--calls-only].

For each size and data type: our scan, a pure load loop of the same width over the same memory (what
reading it once costs), torch.aminmax, and the recipe of Hugging Face's debug_utils. One and two
threads. Then the call itself: 16 floats, and 100 tensors of 16 floats in one list; then a
checkpoint in the page cache.

The bandwidth of a machine that others use too moves by a third within a second. So the ways take
turns in samples of a millisecond or of one call, in another order each time; each turn gives one
ratio, and their median is told, and where the middle half of them lies.
"""

import argparse
import json
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from machine import machine

from postmortem import _scan, fastscan

HERE = Path(__file__).resolve().parent
SIZES = {
    "64 KiB": 64 << 10,
    "1 MiB": 1 << 20,
    "16 MiB": 16 << 20,
    "256 MiB": 256 << 20,
    "1 GiB": 1 << 30,
}
DTYPES = ("float32", "bfloat16", "float16", "float8_e5m2")
SAMPLE = 1e-3  # seconds of calls in a row, where one takes less
LEAST_TURNS, MOST_TURNS = 15, 300
Way = Callable[[], object]


def recipe(x: torch.Tensor) -> tuple[float, float, bool, bool]:
    """What transformers.debug_utils does for one tensor."""
    absolute = x.abs()
    return (
        absolute.min().item(),
        absolute.max().item(),
        bool(torch.isnan(x).any().item()),
        bool(torch.isinf(x).any().item()),
    )


def load_loop(x: torch.Tensor) -> Callable[[], object]:
    """Return what reads the memory once and does nothing else; asking where it is costs extra."""
    return partial(_scan.read_memory, x.data_ptr(), x.numel() * x.element_size())


def seconds(way: Way, repeat: int) -> float:
    """Time of one call, of `repeat` in a row."""
    began = time.perf_counter()
    for _ in range(repeat):
        way()
    return (time.perf_counter() - began) / repeat


def compare(ways: dict[str, Way], limit: float) -> dict[str, list[float]]:
    """Seconds of each way, one of each turn, for about `limit` seconds."""
    names = list(ways)
    once = {name: min(seconds(way, 1) for _ in range(3)) for name, way in ways.items()}
    repeats = {name: max(1, int(SAMPLE / once[name])) for name in names}
    turn = sum(once[name] * repeats[name] for name in names)
    times: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(min(MOST_TURNS, max(LEAST_TURNS, int(limit / turn)))):
        random.shuffle(names)
        for name in names:
            times[name].append(seconds(ways[name], repeats[name]))
    return times


def ratios(times: dict[str, list[float]]) -> dict[str, float | list[float]]:
    """How much longer than ours the others took."""
    row: dict[str, float | list[float]] = {}
    for name, theirs in times.items():
        if name == "fastscan":
            continue
        each = [a / b for a, b in zip(theirs, times["fastscan"], strict=True)]
        low, middle, high = statistics.quantiles(each, n=4)
        row[f"{name} / fastscan"] = round(middle, 3)
        row[f"{name} / fastscan, middle half"] = [round(low, 3), round(high, 3)]
    return row


def cases(only: list[str]) -> Iterator[tuple[int, str, str, str, torch.Tensor]]:
    """Yield threads, type, size, kind of data and tensor."""
    for threads in (1, 2):
        for dtype in DTYPES:
            for label, size in SIZES.items():
                words = {f"{threads} threads", dtype, label}
                if any(word not in words for word in only):
                    continue
                kind = getattr(torch, dtype)
                x = torch.randn(size // kind.itemsize).to(kind)
                yield threads, dtype, label, "normal", x
                yield threads, dtype, label, "half zeros", x.to(torch.float32).relu().to(kind)


def bandwidth(limit: float, only: list[str]) -> list[dict[str, Any]]:
    """Rows for all sizes, types, kinds of data and numbers of threads."""
    rows = []
    for threads, dtype, label, data, x in cases(only):
        _scan.set_threads(threads)
        torch.set_num_threads(threads)
        ways: dict[str, Way] = {"fastscan": partial(fastscan, x), "load loop": load_loop(x)}
        if "float8" not in dtype:
            ways["torch.aminmax"] = partial(torch.aminmax, x)
        times = compare(ways, limit)
        row: dict[str, Any] = {"threads": threads, "dtype": dtype, "size": label, "data": data}
        size = x.numel() * x.element_size()
        row["gb_per_s"] = round(size / statistics.median(times["fastscan"]) / 1e9, 2)
        row |= ratios(times)
        if "float8" not in dtype and size <= 1 << 20:  # apart: it empties the caches
            slow = compare({"fastscan": ways["fastscan"], "recipe of HF": partial(recipe, x)}, 0.1)
            row |= ratios(slow)
        rows.append(row)
        print(row, flush=True)
    return rows


def calls(rounds: int) -> dict[str, float]:
    """Nanoseconds of small calls."""
    small = torch.randn(16)
    many = [torch.randn(16) for _ in range(100)]
    ways: dict[str, Way] = {
        "fastscan": partial(fastscan, small),
        "aminmax": partial(torch.aminmax, small),
        "recipe": partial(recipe, small),
    }
    # Short samples, and many: most of them see no other program, however busy the machine is.
    one = {
        name: statistics.median(seconds(way, 20) for _ in range(50 * rounds))
        for name, way in ways.items()
    }
    of_all = partial(fastscan, many)
    listed = statistics.median(seconds(of_all, 5) for _ in range(50 * rounds))
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
    return {
        "gb_per_s": round(size / statistics.median(ours) / 1e9, 2),
        "torch.aminmax / ours": round(
            statistics.median(a / b for a, b in zip(theirs, ours, strict=True)), 2
        ),
    }


def main() -> None:
    """Run all, print and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7, help="of calls and of the checkpoint")
    parser.add_argument("--seconds", type=float, default=1.5, help="for each row of bandwidth")
    parser.add_argument(
        "--only",
        type=lambda words: words.split(","),
        default=[],
        metavar="WORDS",
        help="rows with all of these, nothing kept: '2 threads,float32,1 MiB'",
    )
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
    if args.only:
        bandwidth(args.seconds, args.only)
        return
    document = {
        "machine": machine(),
        "level": _scan.level(),
        "torch": torch.__version__,
        "seconds_a_row": args.seconds,
        "bandwidth": bandwidth(args.seconds, []),
        "calls": calls(args.rounds),
        "checkpoint": checkpoint(args.rounds),
        "load_at_end": os.getloadavg()[0],
    }
    args.out.write_text(json.dumps(document, indent=1) + "\n")
    print(json.dumps({key: document[key] for key in ("calls", "checkpoint")}))


if __name__ == "__main__":
    main()
