"""The native reader of core dumps of CUDA GPUs, on dumps built by hand and on code of ptxas."""

import random
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from builders.cubins import Cubin, LineRow, relocate
from builders.cudacores import CudaCore, row_bytes
from postmortem import _native
from postmortem.errors import EvidenceError

ROWS = [
    LineRow(0, 5),
    LineRow(0x40, 7),
    LineRow(0x50, 3, inlined_at=2, function="_Z6secondPi"),
    LineRow(0x60, 1, inlined_at=3, function="_Z5thirdPi"),
    LineRow(0x70, 8),
]


def _cubin() -> tuple[Cubin, int]:
    cubin = Cubin()
    cubin.kernel("_Z5otherPi", 0x100)
    entry = cubin.kernel("_Z5scalePii", 0x100, ROWS)
    cubin.device_function("_Z6deeperPii", 0xC0, 0x40)
    return cubin, entry


def _core(driver: int = 615, **more: bool) -> tuple[CudaCore, int]:
    """Return two blocks of a kernel; a thread of the second one has failed."""
    cubin, entry = _cubin()
    core = CudaCore(driver, **more)  # type: ignore[arg-type]
    device = core.device().context(0xC0DE, 4242).module(0x1234, cubin.build())
    device.grid(7, entry, (4, 1, 1), (64, 1, 1), host_tid=4242)
    whole = device.processor(2).block(7, (0, 0, 0)).warp(0)
    whole.all_at(entry + 0x70)
    block = device.processor(5).block(7, (1, 0, 0), shared=bytes(range(64)))
    block.warp(4).all_at(entry + 0x70)
    warp = block.warp(9, error_pc=entry + 0x60, uniform=[11, 12])
    for lane in range(32):
        failed = lane in (3, 4)
        warp.lane(
            *(lane, (32 + lane, 0, 0), entry + 0x70, 14 if failed else 0),
            calls=[entry + 0xD0] if failed else [],
            registers=[lane, 0xDEAD, *range(253)],
            predicates=[1, 0],
            local=(0xFFFC00, b"local" * 20),
        )
    return core, entry


def _read(tmp_path: Path, data: bytes, **more: int) -> dict[str, object]:
    path = tmp_path / "core.nvcudmp"
    path.unlink(missing_ok=True)  # what is written over goes to the disk at once
    path.write_bytes(data)
    return _native.read_cuda_core(str(path), **more)  # type: ignore[return-value]


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("driver", [346, 400, 525, 550, 555, 565, 570, 575, 580, 590, 615])
def test_rows_of_each_driver_are_read(tmp_path: Path, driver: int, many: bool) -> None:
    core, entry = _core(driver, many=many)
    raw = _read(tmp_path, core.build(), memory_bytes=16)
    assert raw["problems"] == ()
    assert (raw["blocks"], raw["warps"], raw["lanes"]) == (2, 3, 96)
    (fault,) = raw["faults"]
    assert (fault["source"], fault["code"], fault["pc"]) == ("lane", 14, entry + 0x60)
    assert (fault["threads"], fault["warps"], fault["blocks"]) == (2, 1, 1)
    assert fault["first"] == {
        **{"device": 0, "multiprocessor": 5, "warp": 9, "lane": 3, "grid": 7},
        **{"block": (1, 0, 0), "thread": (35, 0, 0)},
    }
    assert [place[:3] for place in fault["frames"][0]["places"]] == [
        ("third(int*)", "/src/train/kernels.cu", 1),
        ("second(int*)", "/src/train/kernels.cu", 3),
        ("scale(int*, int)", "/src/train/kernels.cu", 7),
    ]
    assert fault["frames"][1]["places"][0][0] == "deeper(int*, int)"
    (grid,) = raw["grids"]
    assert (grid["kernel"], grid["blocks"], grid["warps"]) == ("scale(int*, int)", 2, 3)
    assert (grid["grid_size"], grid["block_size"]) == ((4, 1, 1), (64, 1, 1))
    assert grid["host_tid"] == 4242
    focus = raw["focus"]
    used = 32 if row_bytes("wptbl", driver) >= 40 else 255
    assert len(focus["registers"]) == used
    assert focus["registers"][:2] == (3, 0xDEAD)
    assert focus["uniform"] == ((11, 12) if driver >= 400 else ())
    assert focus["local"] == (0xFFFC00, 100, b"locallocallocall")
    assert focus["shared"] == (0, 64, bytes(range(16)))
    assert (raw["metadata"] is None) == (driver < 565)


def test_warps_that_stand_alike_are_one_row(tmp_path: Path) -> None:
    core, _ = _core()
    raw = _read(tmp_path, core.build())
    first, second = raw["stands"]
    assert (first["warps"], first["threads"], first["blocks"]) == (3, 94, 2)
    assert first["frames"][0]["places"] == (
        ("scale(int*, int)", "/src/train/kernels.cu", 8, False),
    )
    assert (second["threads"], second["failed"], len(second["frames"])) == (2, 2, 2)
    assert [where["block"] for where in first["some"]] == [(0, 0, 0), (1, 0, 0), (1, 0, 0)]


def test_an_exception_of_the_multiprocessor_goes_to_active_lanes_of_the_warp_that_failed(
    tmp_path: Path,
) -> None:
    cubin, entry = _cubin()
    core = CudaCore()
    device = core.device().context().module(1, cubin.build())
    device.grid(7, entry, (1, 1, 1), (64, 1, 1))
    block = device.processor(1, exception=6, error_pc=entry, detail="odd").block(7, (0, 0, 0))
    block.warp(0).all_at(entry + 0x70)
    block.warp(1, error_pc=entry + 0x40, active=0b110).all_at(entry + 0x70, first=(32, 0, 0))
    device.processor(2, exception=10, error_pc=entry + 0x50)
    raw = _read(tmp_path, core.build())
    own, gone = raw["faults"]
    assert (own["source"], own["code"], own["pc"], own["threads"]) == ("warp", 6, entry + 0x40, 2)
    assert (own["first"]["thread"], own["detail"]) == ((33, 0, 0), "odd")
    assert (gone["source"], gone["code"], gone["has_thread"]) == ("sm", 10, False)
    assert gone["first"]["multiprocessor"] == 2
    assert [place[0] for place in gone["frames"][0]["places"]] == [
        "second(int*)",
        "scale(int*, int)",
    ]


def test_a_trap_has_no_exception(tmp_path: Path) -> None:
    cubin, entry = _cubin()
    core = CudaCore()
    device = core.device().context().module(1, cubin.build())
    device.grid(7, entry, (1, 1, 1), (32, 1, 1))
    device.processor().block(7, (0, 0, 0)).warp(broken=True, active=1).all_at(entry + 0x40)
    (fault,) = _read(tmp_path, core.build())["faults"]
    assert (fault["source"], fault["code"], fault["threads"]) == ("trap", 0, 1)


def test_a_dump_of_a_hang_has_stands_and_no_fault(tmp_path: Path) -> None:
    cubin, entry = _cubin()
    core = CudaCore()
    device = core.device().context().module(1, cubin.build())
    device.grid(7, entry, (1, 1, 1), (32, 1, 1))
    device.processor().block(7, (0, 0, 0)).warp().all_at(entry + 0x40)
    raw = _read(tmp_path, core.build())
    assert raw["faults"] == ()
    assert raw["focus"] is None
    assert raw["stands"][0]["frames"][0]["places"][0][2] == 7


def test_a_lane_that_is_not_valid_is_no_thread(tmp_path: Path) -> None:
    core = CudaCore()
    device = core.device()
    warp = device.processor().block(7, (0, 0, 0)).warp(valid=0b10)
    warp.lane(0, (0, 0, 0), 0x10, 14).lane(1, (1, 0, 0), 0x20)
    raw = _read(tmp_path, core.build())
    assert (raw["lanes"], raw["faults"]) == (1, ())


def test_code_that_the_dump_lacks_leaves_the_address(tmp_path: Path) -> None:
    core = CudaCore()
    device = core.device().context().module(1, None)
    device.grid(7, 0x1000, (1, 1, 1), (32, 1, 1))
    device.processor().block(7, (0, 0, 0)).warp().all_at(0x1040, exception=1)
    raw = _read(tmp_path, core.build())
    assert raw["faults"][0]["frames"] == (
        {"pc": 0x1040, "symbol": None, "offset": None, "places": ()},
    )
    assert raw["grids"][0]["kernel"] is None


def test_a_cut_dump_gives_what_is_there(tmp_path: Path) -> None:
    data = _core()[0].build()
    (table,) = struct.unpack_from("<Q", data, 40)
    with pytest.raises(EvidenceError, match="section headers"):
        _read(tmp_path, data[:table])
    rows = (len(data) - table) // 64
    raw = _read(tmp_path, data[: table + 64 * (rows - 40)])
    assert raw["devices"][0]["name"] == "NVIDIA H100 80GB HBM3"
    assert [row["where"] for row in raw["problems"]] == ["section headers"]
    assert raw["expected_bytes"] == len(data)


@pytest.mark.parametrize("seed", range(6))
def test_damaged_dumps_are_read_or_refused(tmp_path: Path, seed: int) -> None:
    data = bytearray(_core(575)[0].build())
    dice = random.Random(seed)
    for _ in range(200):
        damaged = bytearray(data)
        for _ in range(dice.randrange(1, 20)):
            damaged[dice.randrange(16, len(damaged))] = dice.choice((0, 1, 0x7F, 0x80, 0xFF))
        try:
            raw = _read(tmp_path, bytes(damaged), memory_bytes=64)
        except EvidenceError:
            continue
        assert raw["lanes"] <= 96 * 3


PROGRAM = """
__device__ __forceinline__ int third(int *p) { return *p + 7; }
__device__ __forceinline__ int second(int *p, int i) {
  int a = third(p + i);
  return a * 2 + third(p - i);
}
__global__ void outer(int *out, int n) {
  out[threadIdx.x] = second(out, n);
}
"""


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc (no GPU)")
def test_lines_of_real_code_are_those_of_the_compiler(tmp_path: Path) -> None:
    source, out = tmp_path / "outer.cu", tmp_path / "outer.cubin"
    source.write_text(PROGRAM)
    subprocess.run(["nvcc", "-arch=sm_90", "-lineinfo", "-cubin", "-o", out, source], check=True)
    code, symbols = relocate(out.read_bytes(), 0x7F2000000000)
    entry = symbols["_Z5outerPii"]
    core = CudaCore()
    device = core.device().context().module(1, code)
    device.grid(7, entry, (1, 1, 1), (32, 1, 1))
    warp = device.processor().block(7, (0, 0, 0)).warp()
    for lane in range(20):
        warp.lane(lane, (lane, 0, 0), entry + 16 * lane)
    raw = _read(tmp_path, core.build())
    chains = {
        tuple((place[0], place[2]) for place in stand["frames"][0]["places"])
        for stand in raw["stands"]
    }
    kernel = ("outer(int*, int)", 8)
    assert (("third(int*)", 2), ("second(int*, int)", 4), kernel) in chains
    assert (("third(int*)", 2), ("second(int*, int)", 5), kernel) in chains
