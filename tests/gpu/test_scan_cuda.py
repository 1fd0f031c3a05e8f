"""The CUDA scan against the scan for processors, and what a training loop does with it."""

import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

from builders.numbers import ITEM  # noqa: E402
from postmortem import fastscan  # noqa: E402
from postmortem.scan import cuda  # noqa: E402

FIELDS = (
    "numel nan_count inf_count zero_count subnormal_count first_nonfinite abs_min abs_max "
    "abs_min_nonzero abs_max_finite dtype"
).split()
DTYPES = sorted(
    name for name in [*ITEM, "complex64", "complex128"] if getattr(torch, name, None) is not None
)


def fields(result: Any) -> dict[str, str]:
    return {name: str(getattr(result, name)) for name in FIELDS}


def same(on_gpu: Any, on_cpu: Any) -> None:
    assert fields(fastscan(on_gpu)) == fields(fastscan(on_cpu))


def random_bits(name: str, count: int, seed: int) -> Any:
    dtype = getattr(torch, name)
    data = bytearray(random.Random(seed).randbytes(count * dtype.itemsize))
    return (
        torch.frombuffer(data, dtype=torch.uint8).view(dtype) if count else torch.empty(0).to(dtype)
    )


@pytest.mark.parametrize("name", DTYPES)
def test_random_bits_are_counted_as_on_the_processor(name: str) -> None:
    for seed, count in enumerate([1, 2, 7, 15, 16, 17, 255, 4095, 16384, 16385, 100_003, 1 << 20]):
        x = random_bits(name, count, seed)
        same(x.cuda(), x)


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float8_e4m3fn", "float64", "int8"])
def test_any_offset_and_length(name: str) -> None:
    x = random_bits(name, 70_000, 3)
    y = x.cuda()
    for begin in range(17):
        for end in (begin, begin + 1, begin + 40, 69_983 + begin):
            same(y[begin:end], x[begin:end])


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float64", "complex64"])
@pytest.mark.parametrize(
    "view",
    [
        lambda t: t.t(),
        lambda t: t[::2, 1::3],
        lambda t: t[:, 100:2500],
        lambda t: t[:, None].expand(-1, 3, -1),
        lambda t: t.as_strided((20, 20), (3, 2), 5),
        lambda t: t[:, 3],
        lambda t: t.view(30, 10, -1).transpose(0, 2),
    ],
)
def test_views(name: str, view: Any) -> None:
    x = torch.randn(300, 3000).to(getattr(torch, name))
    x[11, 130] = x[17, 4] = x[2, 2999] = float("nan")
    same(view(x.cuda()), view(x))


def test_more_elements_than_32_bits_count() -> None:
    count = (1 << 31) + 12_345
    if torch.cuda.mem_get_info()[0] < 3 * count:
        pytest.skip("needs 6 GiB of free GPU memory")
    x = torch.ones(count, dtype=torch.uint8, device="cuda").view(torch.float8_e5m2)
    x.view(torch.uint8)[count - 2] = 0x7F
    result = fastscan(x)
    assert (result.numel, result.nan_count, result.first_nonfinite) == (count, 1, count - 2)


def test_lists_of_many_kinds_and_sizes() -> None:
    rng = random.Random(4)
    tensors = [
        random_bits(rng.choice(DTYPES), rng.choice([0, 3, 5000, 70_001]), i) for i in range(400)
    ]
    results = fastscan([t.cuda() for t in tensors])
    assert [fields(r) for r in results] == [fields(fastscan(t)) for t in tensors]


def test_streams_do_not_disturb_each_other() -> None:
    streams = [torch.cuda.Stream() for _ in range(6)]
    data = [torch.full((1 << 20,), float(i + 1), device="cuda") for i in range(6)]
    torch.cuda.synchronize()
    results = []
    for _ in range(200):
        for i, stream in enumerate(streams):
            with torch.cuda.stream(stream):
                results.append((i, fastscan(data[i])))
    assert all(r.abs_max == r.abs_min == i + 1 and r.numel == 1 << 20 for i, r in results)


def test_the_tensors_device_counts_not_the_current_one() -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    x, y = torch.randn(100_000, device="cuda:0"), torch.randn(100_000, device="cuda:1")
    with torch.cuda.device(0):
        results = fastscan([x, y])
        assert torch.cuda.current_device() == 0
    assert [fields(r) for r in results] == [fields(fastscan(t.cpu())) for t in (x, y)]


def test_a_graph_is_captured_and_replayed() -> None:
    x = torch.zeros(100_000, device="cuda")
    fastscan(x).numel  # noqa: B018  the first use
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = fastscan(x)
    for _ in range(3):
        x[7] = float("nan")
        graph.replay()
    assert (result.nan_count, result.first_nonfinite) == (1, 7)
    graph.replay()
    torch.cuda.synchronize()
    same(x, x.cpu())


def test_a_captured_scan_that_never_ran_says_so() -> None:
    x = torch.zeros(1000, device="cuda")
    fastscan(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = fastscan(x)
    with pytest.raises(RuntimeError, match="has not run yet"):
        result.abs_max  # noqa: B018


def test_nothing_waits_and_the_record_comes_by_itself() -> None:
    x = torch.randn(1 << 22, device="cuda")
    fastscan(x).numel  # noqa: B018
    torch.cuda.set_sync_debug_mode("error")
    try:
        result = fastscan(x)
        several = fastscan([x, x[1:]])
    finally:
        torch.cuda.set_sync_debug_mode("default")
    torch.cuda.synchronize()
    assert result.ready
    assert all(one.ready for one in several)


def test_a_call_takes_little_of_the_hosts_time() -> None:
    x = torch.randn(16, device="cuda")
    fastscan(x).numel  # noqa: B018
    times = []
    for _ in range(20):
        torch.cuda.synchronize()
        began = time.perf_counter()
        kept = [fastscan(x) for _ in range(200)]
        times.append((time.perf_counter() - began) / len(kept))
    assert min(times) < 10e-6  # bench/scan_cuda.py says how little


def test_unread_results_outlive_the_ring() -> None:
    small = [torch.full((4,), float(i), device="cuda") for i in range(8)]
    first = [fastscan(t) for t in small]
    for _ in range(20_000):
        fastscan(small[0])
    assert [r.abs_max for r in first] == [float(i) for i in range(8)]


def test_a_ring_of_scans_is_one_kernel_each() -> None:
    from postmortem.scan.ring import ScanRing

    ring = ScanRing(3, device="cuda")
    x = torch.randn(5000, device="cuda", dtype=torch.bfloat16)
    x[3] = float("inf")
    ring.record(x, 1)
    found, expected = fields(ring[1]), fields(fastscan(x.cpu()))
    assert found | {"dtype": ""} == expected | {"dtype": ""}
    assert ring[0] is None


def test_a_child_of_a_fork_is_told() -> None:
    x = torch.ones(10, device="cuda")
    unread = fastscan(x)
    child = os.fork()
    if child == 0:
        try:
            unread.numel  # noqa: B018
        except RuntimeError as error:
            os._exit(0 if "fork" in str(error) else 3)
        os._exit(4)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert unread.numel == 10


def test_a_broken_context_ends_the_wait() -> None:
    code = """
import torch
from postmortem import fastscan
x = torch.ones(1000, device="cuda")
fastscan(x).numel
torch.arange(10, device="cuda")[torch.tensor([99], device="cuda")]  # a device-side assert
try:
    fastscan(x).numel
except RuntimeError as error:
    print("told:", error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False
    )
    assert "told:" in done.stdout, done.stderr[-2000:]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_compute_sanitizer_finds_nothing(tmp_path: Path) -> None:
    tool = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not Path(tool).exists():
        pytest.skip("compute-sanitizer is not installed")
    code = """
import torch
from postmortem import fastscan
torch.manual_seed(0)
for dtype in (torch.float32, torch.bfloat16, torch.float8_e4m3fn, torch.float64, torch.int8):
    x = torch.randn(300, 2111, device="cuda").to(dtype)
    for view in (x, x[1:, 3:], x.t(), x[0], x[:, ::2]):
        fastscan(view).numel
    fastscan([x, x[1:], x[0, 1:]])[2].numel
"""
    for kind in ("memcheck", "racecheck", "initcheck", "synccheck"):
        done = subprocess.run(
            [tool, *f"--tool {kind} --error-exitcode 9".split(), sys.executable, "-c", code],
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
        )
        assert done.returncode == 0, (kind, done.stdout[-3000:])


def test_our_own_kernel_did_it() -> None:
    """The others would pass with PyTorch's operations too."""
    assert cuda.usable().state == "usable"
    assert type(cuda.launch(torch.ones(4, device="cuda"))).__name__ == "Pending"
