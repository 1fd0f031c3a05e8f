"""Measures ``core --slim``: bench/slim.py CORE [--sparse-gb N] [--rounds N] [--name NAME].

Wall time, CPU time and peak memory (wait4(2), medians after one warm-up) of a slim core from a
file, packed, and through a pipe; and of a synthetic core: CORE with a mapping of N GB more, all of
it a hole in the file, which is not sent through the pipe.
"""

import argparse
import json
import os
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from machine import machine  # noqa: E402

PAGE = 4096


@dataclass(frozen=True)
class Row:
    """One way of making one core small."""

    core: str
    how: str
    source_bytes: int
    slim_bytes: int
    wall_ms: float
    cpu_ms: float
    rss_mib: float


def with_hole(core: Path, to: Path, size: int) -> None:
    """Write `core` with one more writable segment of `size` bytes, a hole, above all others."""
    with core.open("rb") as source:
        data = source.read(64)
        (table,), (count,) = struct.unpack_from("<Q", data, 32), struct.unpack_from("<H", data, 56)
        data += source.read(table - 64 + 56 * count)
    rows = [list(struct.unpack_from("<IIQQQQQQ", data, table + 56 * i)) for i in range(count)]
    low = min(row[3] for row in rows if row[0] == 1)
    start = (low - size - PAGE) & -PAGE if low > size + PAGE else 0x1000_0000_0000
    moved = PAGE  # all content moves behind a table that is a row longer
    for row in rows:
        row[2] += moved
    end = core.stat().st_size + moved
    rows.insert(1, [1, 6, (end + PAGE - 1) & -PAGE, start, 0, size, size, PAGE])
    header = bytearray(data[:64])
    struct.pack_into("<Q", header, 32, 64)
    struct.pack_into("<H", header, 56, count + 1)
    # In pieces: a child's peak memory begins with what its parent has (getrusage(2)).
    with core.open("rb") as source, to.open("wb") as file:
        file.write(header + b"".join(struct.pack("<IIQQQQQQ", *row) for row in rows))
        assert file.tell() <= moved + 64 + 56 * count
        file.seek(moved + 64 + 56 * count)
        source.seek(64 + 56 * count)
        shutil.copyfileobj(source, file)
        file.truncate(rows[1][2] + size)


def run(command: list[str], source: Path | None) -> tuple[float, float, float]:
    """Return wall ms, CPU ms and peak MiB of one run; `source` comes through a pipe of cat's."""
    cat = None
    if source is not None:
        cat = subprocess.Popen(["cat", str(source)], stdout=subprocess.PIPE)
    began = time.perf_counter()
    process = subprocess.Popen(
        command, stdin=cat.stdout if cat else subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if cat is not None and cat.stdout is not None:
        cat.stdout.close()
        cat.wait()
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: exit status {process.returncode}")
    return wall * 1e3, (usage.ru_utime + usage.ru_stime) * 1e3, usage.ru_maxrss / 1024


def measure(core: Path, how: str, folder: Path, rounds: int) -> Row:
    """Return the medians of one way."""
    out = folder / ("slim.zst" if how == "zst" else "slim")
    given = "-" if how == "pipe" else str(core)
    command = [sys.executable, "-m", "postmortem", "core", given, "--slim", str(out)]
    samples = [run(command, core if how == "pipe" else None) for _ in range(rounds + 1)][1:]
    medians = [statistics.median(values) for values in zip(*samples, strict=True)]
    return Row(core.name, how, core.stat().st_size, out.stat().st_size, *medians)


def main() -> None:
    """Measure, print the table, and keep the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("core", type=Path)
    parser.add_argument("--sparse-gb", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--name", default="slim")
    parser.add_argument("--results", type=Path, default=HERE / "results")
    parser.add_argument("--temp", type=Path, help="folder for cores (default: $TMPDIR)")
    given = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(dir=given.temp) as name:
        folder = Path(name)
        rows += [measure(given.core, how, folder, given.rounds) for how in ("file", "zst", "pipe")]
        sparse = folder / f"sparse-{given.sparse_gb}GB.core"
        with_hole(given.core, sparse, given.sparse_gb * 10**9 // PAGE * PAGE)
        rows.append(measure(sparse, "file", folder, given.rounds))
    print("| core | how | bytes | slim bytes | wall ms | CPU ms | peak MiB |")
    print("|---|---|--:|--:|--:|--:|--:|")
    for row in rows:
        figures = f"{row.wall_ms:.0f} | {row.cpu_ms:.0f} | {row.rss_mib:.1f}"
        print(f"| {row.core} | {row.how} | {row.source_bytes:,} | {row.slim_bytes:,} | {figures} |")
    given.results.mkdir(parents=True, exist_ok=True)
    result = {"machine": machine(), "rounds": given.rounds, "rows": [asdict(row) for row in rows]}
    (given.results / f"{given.name}.json").write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
