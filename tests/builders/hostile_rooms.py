"""Small inputs against what reads more than logs and cores; as in `builders.hostile`.

Rings of `watch`, snapshots of GPU memory, notebooks, reports of our own, archives, recorders,
traces of the monitor.
"""

import bz2
import io
import json
import pickle
import random
import struct
import tarfile
import zipfile
from pathlib import Path
from typing import Any

from builders.hostile import Maker
from postmortem.facts.watch_format import (
    CEILING,
    END,
    HEADER,
    HEADER_BYTES,
    MAGIC,
    NAME,
    OF_A_CEILING,
    RECORD_BYTES,
    SAMPLE,
    pack,
)


def _ring(folder: Path, rows: list[bytes], interval: float = 1.0) -> list[str]:
    path = folder / "node.ring"
    head = HEADER.pack(MAGIC, RECORD_BYTES, len(rows), 0.0, interval)
    path.write_bytes(head.ljust(HEADER_BYTES, b"\0") + b"".join(rows))
    return ["watch", "--read", str(path)]


def ring_of_far_times(folder: Path, size: int) -> list[str]:
    """Samples that lie so far apart that no float has their distance."""
    most = (1 << 63) - 1
    rows = [pack(NAME, 1, 0.0, 7, text="0 train.py\x1b]0;x\x07")]
    for i in range(size):
        at = 1.7e308 if i % 2 else -1.7e308
        rows.append(pack(SAMPLE, i + 2, at, 7, (most, -most, most, 0, 0, most, 0, 0, 0, 0)))
    return _ring(folder, rows)


def ring_of_one_look_each(folder: Path, size: int) -> list[str]:
    """As many processes as records."""
    rows = [
        pack(SAMPLE, i + 1, float(i), i + 1, (1 << 20, 1, 1, 1, 1, 1, 1, 1, 1, 1))
        for i in range(size)
    ]
    return _ring(folder, [*rows, pack(END, size + 1, float(size), 0)])


def ring_of_limits(folder: Path, size: int) -> list[str]:
    """As many limits as records, each of nothing."""
    rows = [pack(CEILING, i + 1, float(i), OF_A_CEILING + i, (0, 1 << 62)) for i in range(size)]
    return _ring(folder, rows)


def ring_that_grows(folder: Path, size: int) -> list[str]:
    """One process that grows with every look."""
    rows = [
        pack(SAMPLE, i + 1, float(i), 7, (i << 20, i << 20, i, i, i, i, i, i, i, i))
        for i in range(size)
    ]
    return _ring(folder, rows)


def _snapshot(folder: Path, document: dict[str, Any]) -> list[str]:
    path = folder / "snapshot_rank0.pickle"
    path.write_bytes(pickle.dumps(document, protocol=4))
    return ["watch", "--read", str(path)]


def snapshot_of_copied_frames(folder: Path, size: int) -> list[str]:
    """Blocks that each hold a list of frames which holds the list of the one before, twice."""
    frames: list[Any] = [{"filename": "a.py", "line": 1, "name": "f"}]
    for _ in range(size):
        frames = [frames, frames]
    block = {"address": 1, "size": 512, "requested_size": 1, "state": "active_allocated"}
    segment = {"device": 0, "total_size": 1 << 30, "blocks": [block | {"frames": frames}]}
    return _snapshot(folder, {"segments": [segment], "device_traces": []})


def snapshot_of_large_numbers(folder: Path, size: int) -> list[str]:
    """Sizes, addresses and devices of thousands of digits."""
    huge = 1 << size
    block = {"address": huge, "size": huge, "requested_size": -huge, "state": "active_allocated"}
    rows = [
        {"device": device, "total_size": huge, "blocks": [block | {"frames": []}]}
        for device in (huge, -huge, 0)
    ]
    trace = [
        {"action": "alloc", "addr": huge, "size": huge, "frames": [], "time_us": huge},
        {"action": "oom", "addr": 0, "size": huge, "device_free": -huge, "frames": []},
    ]
    return _snapshot(folder, {"segments": rows, "device_traces": [trace]})


def snapshot_of_shared_segments(folder: Path, size: int) -> list[str]:
    """One list of blocks in every segment: a few bytes for each of n times n blocks."""
    block = {"address": 1, "size": 512, "requested_size": 1, "state": "active_allocated"}
    blocks = [block] * size
    segment = {"device": 0, "total_size": 1 << 20, "blocks": blocks}
    return _snapshot(folder, {"segments": [segment] * size, "device_traces": []})


def snapshot_of_shared_traces(folder: Path, size: int) -> list[str]:
    """One trace on every device."""
    event = {"action": "oom", "addr": 1, "size": 512, "device_free": 0, "frames": []}
    trace = [event] * size
    return _snapshot(folder, {"segments": [], "device_traces": [trace] * size})


def _notebook(folder: Path, text: str) -> list[str]:
    path = folder / "train.ipynb"
    path.write_text(text)
    return ["logs", str(path)]


def notebook_of_tracebacks(folder: Path, size: int) -> list[str]:
    """Cells that each raise in one line of JSON."""
    frames = ["\x1b[31m---\x1b[0m", "ValueError  Traceback (most recent call last)"]
    frames += ["Cell In[1], line 1\n----> 1 f()\n", "ValueError: odd"]
    out = {"output_type": "error", "ename": "ValueError", "evalue": "odd", "traceback": frames}
    cells = [
        {"cell_type": "code", "execution_count": i, "metadata": {}, "source": [], "outputs": [out]}
        for i in range(size)
    ]
    return _notebook(folder, json.dumps({"cells": cells, "nbformat": 4}))


def notebook_nested(folder: Path, size: int) -> list[str]:
    """Outputs that nest."""
    inner = "[" * size + "]" * size
    return _notebook(folder, '{"cells": [{"cell_type": "code", "outputs": ' + inner + "}]}")


def notebook_of_empty_lines(folder: Path, size: int) -> list[str]:
    """One text of line ends, in one line of JSON."""
    out = {"output_type": "stream", "name": "stdout", "text": ["\n" * size]}
    cell = {"cell_type": "code", "execution_count": 1, "outputs": [out]}
    return _notebook(folder, json.dumps({"cells": [cell]}, indent=1))


def _report(folder: Path, **more: Any) -> list[str]:
    document = {
        "schema": "postmortem/1",
        "kind": "logs",
        "verdict": "x",
        "outcome": "failure",
        "diagnoses": [],
        "inputs": [],
        "problems": [],
    }
    (folder / "report.json").write_text(json.dumps(document | more))
    return ["triage", str(folder)]


def report_of_diagnoses(folder: Path, size: int) -> list[str]:
    """A report of ours with as many causes."""
    one = {"id": "raised", "title": "x", "role": "root", "confidence": "certain", "cause": "y"}
    one |= {"evidence": [], "next": [], "references": []}  # type: ignore[dict-item]
    return _report(folder, diagnoses=[one] * size)


def report_nested(folder: Path, size: int) -> list[str]:
    """A report of ours that nests."""
    path = folder / "report.json"
    head = '{"schema": "postmortem/1", "kind": "logs", "verdict": "x", "inputs": [], "diagnoses": '
    path.write_text(head + "[" * size + "]" * size + "}")
    return ["triage", str(folder)]


def reports_of_ranks(folder: Path, size: int) -> list[str]:
    """Reports of hang, of which each says that it has the same ranks."""
    ranks = list(range(size))
    stacks = {"classes": [{"ranks": ranks, "labels": ranks, "frames": [], "doing": "x"}]}
    for node in range(8):
        document = {"schema": "postmortem/1", "kind": "hang", "verdict": "x", "diagnoses": []}
        document |= {"inputs": [], "stacks": stacks, "processes": [], "outcome": "failure"}
        (folder / f"hang-node{node}.json").write_text(json.dumps(document))
    return ["logs", str(folder)]


def archive_of_small_files(folder: Path, size: int) -> list[str]:
    """A tar of empty files, and of links out of it."""
    path = folder / "job.tar"
    with tarfile.open(path, "w") as tar:
        for i in range(size):
            info = tarfile.TarInfo(f"../../{'x/' * 9}rank{i}\n\x1b[2J.log")
            if i % 3 == 0:
                info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
            tar.addfile(info)
    return ["triage", str(path)]


def archive_within_archive(folder: Path, size: int) -> list[str]:
    """Archives that each hold ten of the one before."""
    inner = b"step 1\n"
    name = "rank0.log"
    for depth in range(size):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
            for copy in range(10):
                archive.writestr(f"{copy}-{name}", inner)
        inner, name = out.getvalue(), f"level{depth}.zip"
    (folder / "job.zip").write_bytes(inner)
    return ["triage", str(folder / "job.zip")]


def archive_of_claims(folder: Path, size: int) -> list[str]:
    """A tar whose members claim exabytes, and a header of extended names that is as large."""
    path = folder / "job.tar"
    info = tarfile.TarInfo("rank0.log")
    info.size = size
    info.pax_headers = {"GNU.sparse.realsize": str(1 << 62), "GNU.sparse.map": "0,1"}
    long = tarfile.TarInfo("././@LongLink")
    long.type, long.size = tarfile.GNUTYPE_LONGNAME, 8 << 30
    path.write_bytes(info.tobuf(tarfile.PAX_FORMAT) + long.tobuf(tarfile.GNU_FORMAT) + b"x" * 512)
    return ["triage", str(path)]


def archive_of_holes(folder: Path, size: int) -> list[str]:
    """A tar with a log that is a hole but for its first and its last line."""
    line = b"[rank0]: step 1\n"
    info = tarfile.TarInfo("rank0.log")
    info.size = 2 * len(line)
    info.pax_headers = {
        "GNU.sparse.major": "0",
        "GNU.sparse.realsize": str(size),
        "GNU.sparse.map": f"0,{len(line)},{size - len(line)},{len(line)}",
    }
    path = folder / "job.tar"
    path.write_bytes(info.tobuf(tarfile.PAX_FORMAT) + (2 * line).ljust(512, b"\0") + bytes(1024))
    return ["triage", str(path)]


def archive_of_zeros(folder: Path, size: int) -> list[str]:
    """A packed tar with a log of so many blocks of 1 MB of nothing: a stream for each block."""
    info = tarfile.TarInfo("rank0.log")
    info.size = size << 20
    head, block = bz2.compress(info.tobuf(tarfile.GNU_FORMAT)), bz2.compress(bytes(1 << 20))
    path = folder / "job.tar.bz2"
    path.write_bytes(head + block * size + bz2.compress(bytes(1024)))
    return ["triage", str(path)]


def trace_of_frames(folder: Path, size: int) -> list[str]:
    """Two traces of the monitor with as many calls, no two of them alike."""
    for name, word in (("a.txt", "left"), ("b.txt", "right")):
        rows = ["*** Starting batch number=0 ***\n"]
        rows += [f"{'':17} {word}.{i} Linear\n1.00e+00 2.00e+00 output\n" for i in range(size)]
        (folder / name).write_text("".join(rows))
    return ["diff", str(folder / "a.txt"), str(folder / "b.txt")]


def trace_of_short_lines(folder: Path, size: int) -> list[str]:
    """A trace that is nothing but short lines."""
    for name in ("a.txt", "b.txt"):
        (folder / name).write_bytes(b"ab\n" * size)
    return ["diff", str(folder / "a.txt"), str(folder / "b.txt")]


def recorder_of_groups(folder: Path, size: int) -> list[str]:
    """A flight recorder whose groups have all ranks, each with one call."""
    ranks = list(range(size))
    config = {
        str(i): {"name": str(i), "desc": "x", "ranks": json.dumps(ranks)} for i in range(size)
    }
    entries = [
        {
            "record_id": i,
            "pg_id": i,
            "process_group": [str(i), "x"],
            "collective_seq_id": 1,
            "p2p_seq_id": 0,
            "op_id": 1,
            "profiling_name": "nccl:all_reduce",
            "state": "started",
            "time_created_ns": i,
            "input_sizes": [[1]],
            "output_sizes": [[1]],
            "frames": [],
            "is_p2p": False,
        }
        for i in range(size)
    ]
    for rank in range(4):
        document = {"version": "2.4", "pg_config": config, "entries": entries}
        (folder / f"nccl_trace_rank_{rank}").write_text(json.dumps(document))
    return ["logs", str(folder)]


def errors_nested(folder: Path, size: int) -> list[str]:
    """torchrun's error file, nested."""
    (folder / "error.json").write_text(
        '{"message": ' + '{"message": ' * size + "1" + "}" * (size + 1)
    )
    (folder / "rank0.log").write_text("step 1\n")
    return ["logs", str(folder)]


def dump_of_sections(folder: Path, size: int) -> list[str]:
    """A GPU's dump whose sections all lie on the same bytes, as large as the file."""
    from builders.cudacores import CudaCore

    data = bytearray(CudaCore().build())
    at, count = struct.unpack_from("<Q", data, 40)[0], struct.unpack_from("<H", data, 60)[0]
    rows = [bytes(data[at + 64 * i : at + 64 * i + 64]) for i in range(count)]
    start = len(data)
    chance = random.Random(1)
    made = [rows[0]]
    for _ in range(size):
        row = bytearray(chance.choice(rows[1:]))
        struct.pack_into("<QQ", row, 24, 0, start)
        made.append(bytes(row))
    struct.pack_into("<Q", data, 40, start)
    struct.pack_into("<H", data, 60, min(len(made), 0xFEFF))
    (folder / "core.h.1.nvcudmp").write_bytes(bytes(data) + b"".join(made))
    return ["core", str(folder / "core.h.1.nvcudmp")]


ROOMS: dict[str, tuple[Maker, int]] = {
    "ring of far times": (ring_of_far_times, 1_000),
    "ring of one look each": (ring_of_one_look_each, 100_000),
    "ring of limits": (ring_of_limits, 100_000),
    "ring that grows": (ring_that_grows, 200_000),
    "snapshot of copied frames": (snapshot_of_copied_frames, 40),
    "snapshot of large numbers": (snapshot_of_large_numbers, 40_000),
    "snapshot of shared segments": (snapshot_of_shared_segments, 4_000),
    "snapshot of shared traces": (snapshot_of_shared_traces, 4_000),
    "notebook of tracebacks": (notebook_of_tracebacks, 20_000),
    "notebook, nested": (notebook_nested, 500_000),
    "notebook of empty lines": (notebook_of_empty_lines, 20_000_000),
    "report of diagnoses": (report_of_diagnoses, 100_000),
    "report, nested": (report_nested, 500_000),
    "reports of ranks": (reports_of_ranks, 1_000_000),
    "archive of small files": (archive_of_small_files, 60_000),
    "archive within archive": (archive_within_archive, 9),
    "archive of claims": (archive_of_claims, 1 << 60),
    "archive of holes": (archive_of_holes, 1 << 40),
    "archive of zeros": (archive_of_zeros, 16_000),
    "traces of frames": (trace_of_frames, 200_000),
    "traces of short lines": (trace_of_short_lines, 10_000_000),
    "recorders of groups": (recorder_of_groups, 400),
    "errors, nested": (errors_nested, 500_000),
    "dump of sections": (dump_of_sections, 60_000),
}
