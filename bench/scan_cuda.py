"""Measures fastscan() on a GPU: bench/scan_cuda.py [--rounds N] [--out FILE].

For each size, data type and kind of data: our scan, a kernel that reads the same memory once and
does nothing else, torch.aminmax and torch.ops.c10d.check_for_nan, in rounds that take turns, timed
by events on the device; medians, and ratios to ours. Then the host's time of a call.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from postmortem import fastscan
from postmortem.scan import cuda

HERE = Path(__file__).resolve().parent
SIZES = {"1 MiB": 1 << 20, "16 MiB": 16 << 20, "64 MiB": 64 << 20, "1 GiB": 1 << 30}
DTYPES = ("float32", "bfloat16", "float16", "float8_e4m3fn", "float8_e5m2", "float64")
Way = Callable[[torch.Tensor], object]

READ = """
extern "C" __global__ void read_memory(const uint4* from, unsigned long long count, unsigned* to) {
  const unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
  unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
  unsigned seen = 0;
  for (; i + 3 * step < count; i += 4 * step) {
    uint4 v[4];
    #pragma unroll
    for (int k = 0; k < 4; ++k) v[k] = __ldcs(from + i + k * step);
    #pragma unroll
    for (int k = 0; k < 4; ++k) seen |= v[k].x | v[k].y | v[k].z | v[k].w;
  }
  for (; i < count; i += step) { const uint4 v = __ldcs(from + i); seen |= v.x | v.y | v.z | v.w; }
  if (seen == 0x12345678u) *to = seen;
}
"""


def reader() -> Way:
    """A kernel that reads and does nothing else, compiled by PyTorch's NVRTC."""
    compiled: Any = torch.cuda._compile_kernel(READ, "read_memory")  # type: ignore[attr-defined]
    sink = torch.zeros(1, dtype=torch.int32, device="cuda")
    blocks = torch.cuda.get_device_properties(0).multi_processor_count * 8

    def read(x: torch.Tensor) -> None:
        count = x.numel() * x.element_size() // 16
        compiled(grid=(blocks, 1, 1), block=(256, 1, 1), args=[x.view(torch.uint8), count, sink])

    return read


def seconds(way: Way, x: torch.Tensor, repeat: int) -> float:
    """Time on the device of one call, of `repeat` in a row."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    kept = [way(x) for _ in range(repeat)]
    end.record()
    end.synchronize()
    del kept
    return begin.elapsed_time(end) / 1e3 / repeat


def data_of(dtype: str, size: int, kind: str) -> torch.Tensor:
    """Normal numbers, half of them zero, or all NaN."""
    target = getattr(torch, dtype)
    x = torch.randn(size // target.itemsize, device="cuda")
    if kind == "half zeros":
        x = x.relu()
    elif kind == "all NaN":
        x.fill_(float("nan"))
    return x.to(target)


def bandwidth(rounds: int) -> list[dict[str, Any]]:
    """Rows for all sizes, types and kinds of data."""
    rows = []
    read = reader()
    check_for_nan = getattr(torch.ops.c10d, "check_for_nan", None)
    for dtype in DTYPES:
        for label, size in SIZES.items():
            for kind in ("normal", "half zeros", "all NaN"):
                x = data_of(dtype, size, kind)
                ways: dict[str, Way] = {"fastscan": fastscan, "read loop": read}
                if "float8" not in dtype:
                    ways["torch.aminmax"] = torch.aminmax
                if check_for_nan is not None and kind != "all NaN":
                    ways["check_for_nan"] = check_for_nan
                repeat = max(3, min(50, (1 << 30) // size))
                for way in ways.values():
                    seconds(way, x, 3)
                times: dict[str, list[float]] = {name: [] for name in ways}
                for _ in range(rounds):
                    for name, way in ways.items():
                        times[name].append(seconds(way, x, repeat))
                ours = statistics.median(times["fastscan"])
                row: dict[str, Any] = {"dtype": dtype, "size": label, "data": kind}
                row["gb_per_s"] = round(size / ours / 1e9, 1)
                for name in ways:
                    if name != "fastscan":
                        row[f"{name} / fastscan"] = round(statistics.median(times[name]) / ours, 3)
                rows.append(row)
                print(row)
    return rows


def calls(rounds: int) -> dict[str, float]:
    """Microseconds of the host for a call, before anything is read."""
    small = torch.randn(16, device="cuda")
    many = [torch.randn(4096, device="cuda") for _ in range(100)]

    def host(way: Callable[[], object], repeat: int) -> float:
        times = []
        for _ in range(rounds * 5):
            torch.cuda.synchronize()
            began = time.perf_counter()
            kept = [way() for _ in range(repeat)]
            times.append((time.perf_counter() - began) / repeat)
            del kept
        return statistics.median(times) * 1e6

    return {
        "fastscan, us": round(host(lambda: fastscan(small), 100), 2),
        "torch.aminmax, us": round(host(lambda: torch.aminmax(small), 100), 2),
        "each of 100 in a list, us": round(host(lambda: fastscan(many), 5) / 100, 3),
        "call and read, us": round(host(lambda: fastscan(small).nan_count, 20), 2),
    }


def main() -> None:
    """Run all, print and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "scan_cuda.json")
    args = parser.parse_args()
    if not torch.cuda.is_available() or cuda.why_not(0) is not None:
        parser.exit(2, f"no GPU that our kernels can use: {cuda.why_not(0)}\n")
    document = {
        "machine": torch.cuda.get_device_name(0),
        "torch": torch.__version__,
        "cuda": cuda.usable().runtime,
        "rounds": args.rounds,
        "bandwidth": bandwidth(args.rounds),
        "calls": calls(args.rounds),
    }
    args.out.write_text(json.dumps(document, indent=1) + "\n")
    print(json.dumps(document["calls"]))


if __name__ == "__main__":
    main()
