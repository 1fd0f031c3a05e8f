"""Dumps that PyTorch itself writes, of real processes that part ways."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from postmortem.readers.flight_recorder import looks_like_recorder, read_recorder
from postmortem.rules.logs.deciding.recorder import Differs, compare

pytest.importorskip("torch.distributed")

PROGRAM = """
import datetime, pathlib, sys
import torch
import torch.distributed as dist

rank, world, kind, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
dump = getattr(torch._C._distributed_c10d, "_dump_fr_trace", None)
to_json = getattr(torch._C._distributed_c10d, "_dump_fr_trace_json", None)
if dump is None:
    sys.exit(77)
# Many ways to wait, one way out: a call that is not answered ends by its time-out.
store = dist.TCPStore("127.0.0.1", int(sys.argv[5]), world, rank == 0)
dist.init_process_group(
    "gloo", rank=rank, world_size=world, store=store, timeout=datetime.timedelta(seconds=5)
)
dist.all_reduce(torch.ones(4))
dist.all_reduce(torch.ones(4))
def different_path():
    dist.broadcast(torch.ones(7), 0)
def usual_path():
    dist.all_reduce(torch.ones(7))
try:
    if kind == "operation":
        different_path() if rank == 1 else usual_path()
    elif not (kind == "behind" and rank == 2):
        usual_path()
except RuntimeError:
    pass
pathlib.Path(folder, f"fr_{rank}").write_bytes(dump())
if to_json is not None:
    data = to_json()
    data = data if isinstance(data, bytes) else data.encode()
    pathlib.Path(folder, f"json_{rank}").write_bytes(data)
store.add("written", 1)
if rank == 0:  # the store lives in this process
    while store.add("written", 0) < world:
        pass
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def run(kind: str, folder: Path, world: int = 3) -> None:
    port = str(free_port())
    environ = {**os.environ, "TORCH_FR_BUFFER_SIZE": "100", "OMP_NUM_THREADS": "1"}
    children = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(rank), str(world), kind, str(folder), port],
            env=environ,
            stderr=subprocess.DEVNULL,
        )
        for rank in range(world)
    ]
    codes = [child.wait(timeout=90) for child in children]
    if 77 in codes:
        pytest.skip("this PyTorch has no flight recorder for gloo")


@pytest.mark.parametrize(
    ("kind", "how", "odd", "most"),
    [("operation", Differs.OPERATION, (1,), (0, 2)), ("behind", Differs.BEHIND, (2,), (0, 1))],
)
def test_where_ranks_part(
    tmp_path: Path, kind: str, how: Differs, odd: tuple[int, ...], most: tuple[int, ...]
) -> None:
    run(kind, tmp_path)
    for form in ("fr", "json"):
        files = sorted(tmp_path.glob(f"{form}_*"))
        if form == "json" and not files:
            continue
        assert len(files) == 3
        assert all(looks_like_recorder(file.read_bytes()) for file in files)
        found = compare([read_recorder(file.read_bytes(), str(file)) for file in files])
        assert found is not None
        assert (found.how, found.odd, found.most) == (how, odd, most)
        call = found.call(odd[0])
        if form == "fr" and kind == "operation":
            assert call is not None
            assert call.site is not None
            assert call.site.function == "different_path"
