"""Compares the program counters of the native unwinder with gdb's, on any core.

Physical frames only: gdb's inline and tail-call frames are made from DWARF, they have no place on
the stack. Run it as a program: ``PYTHONPATH=src python tests/live/compare_stacks.py CORE...``.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from postmortem import _native

# Runs inside gdb.
_DUMP = """
import gdb, json
result = {}
for thread in gdb.selected_inferior().threads():
    thread.switch()
    rows = []
    try:
        frame = gdb.newest_frame()
        while frame is not None and len(rows) < %(limit)d:
            if frame.type() not in (gdb.INLINE_FRAME, gdb.TAILCALL_FRAME):
                rows.append((frame.pc(), frame.name()))
            frame = frame.older()
    except gdb.error as error:
        rows.append((0, str(error)))
    result[thread.ptid[1] or thread.ptid[0]] = rows
json.dump(result, open(%(out)r, "w"))
"""

_SETTINGS = [
    part
    for setting in ("auto-load off", "debuginfod enabled off", "backtrace past-main on")
    for part in ("-iex", f"set {setting}")
]


@dataclass
class Difference:
    """One thread whose stacks differ: the frames from the first different one on."""

    tid: int
    at: int
    ours: list[str]
    gdbs: list[str]
    stopped: str | None


@dataclass
class Comparison:
    """Frames of all threads of one core, as both readers give them."""

    threads: int = 0
    equal_threads: int = 0
    ours: int = 0
    gdbs: int = 0
    equal: int = 0
    named: int = 0
    invented: int = 0
    """Frames of gdb alone whose pc lies in no module and has no name; not counted in `gdbs`."""
    differences: list[Difference] = field(default_factory=list)

    @property
    def percent(self) -> float:
        """Share of gdb's frames that we have at the same place."""
        return 100.0 * self.equal / self.gdbs if self.gdbs else 100.0


def gdb_frames(
    core: Path, executable: str, *, gdb: str = "gdb", limit: int = 4000
) -> dict[int, list[tuple[int, str | None]]]:
    """Return pc and function of gdb's physical frames by thread ID."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "frames.json"
        script = Path(folder) / "dump.py"
        script.write_text(_DUMP % {"limit": limit, "out": str(out)})
        run = subprocess.run(
            [gdb, "-nx", "-batch", *_SETTINGS, executable, str(core), "-x", str(script)],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=600,
        )
        if not out.exists():
            raise RuntimeError(f"gdb gave no frames: {run.stderr[-2000:]}")
        rows = json.loads(out.read_text())
    return {int(tid): [(pc, name) for pc, name in frames] for tid, frames in rows.items()}


class _Ranges:
    def __init__(self, rows: list[tuple[int, int]]) -> None:
        self._rows = rows

    def __contains__(self, address: int) -> bool:
        return any(start <= address < end for start, end in self._rows)


def _text(pc: int, name: str | None, extra: str = "") -> str:
    return f"{pc:#018x} {(name or '??')[:90]} {extra}".rstrip()


def compare(core: Path, executable: str | None = None, *, gdb: str = "gdb") -> Comparison:
    """Return how far the two readers agree about a core."""
    raw = _native.read_core(str(core), executable=executable, max_frames=1_000_000)
    main = executable or next(m["disk_path"] for m in raw["modules"] if m["disk_path"])
    assert main is not None
    theirs = gdb_frames(core, main, gdb=gdb)
    text = _Ranges([(m["start"], m["end"]) for m in raw["modules"]])
    result = Comparison()
    for thread in raw["threads"]:
        frames = thread["frames"][:4000]
        other = theirs.get(thread["tid"], [])
        result.threads += 1
        result.ours += len(frames)
        known = {f["pc"] for f in frames}
        invented = sum(not name and pc not in text and pc not in known for pc, name in other)
        result.invented += invented
        result.gdbs += len(other) - invented
        result.named += sum(f["function"] is not None for f in frames)
        pairs = list(zip((f["pc"] for f in frames), (pc for pc, _ in other), strict=False))
        same = next((i for i, (a, b) in enumerate(pairs) if a != b), len(pairs))
        ours_pcs = {f["pc"] for f in frames[same:]}
        result.equal += same + sum(pc in ours_pcs for pc, _ in other[same:])
        if same == len(frames) == len(other):
            result.equal_threads += 1
            continue
        result.differences.append(
            Difference(
                thread["tid"],
                same,
                [_text(f["pc"], f["function"], f["trust"]) for f in frames[max(0, same - 1) :]],
                [_text(pc, name) for pc, name in other[max(0, same - 1) :]],
                thread["stopped"],
            )
        )
    return result


def main() -> int:
    """Print the comparison of each core that is named; 1 if one is below 99 percent."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cores", nargs="+", type=Path)
    parser.add_argument("--executable")
    parser.add_argument("--gdb", default="gdb")
    parser.add_argument("--lines", type=int, default=12, help="frames to print of a difference")
    options = parser.parse_args()
    worst = 100.0
    for core in options.cores:
        result = compare(core, options.executable, gdb=options.gdb)
        worst = min(worst, result.percent)
        print(
            f"{core}: {result.equal}/{result.gdbs} of gdb's frames equal ({result.percent:.2f} %), "
            f"{result.equal_threads}/{result.threads} threads; {result.ours} ours, "
            f"{result.named} named; {result.invented} of gdb's lie in no code"
        )
        for difference in result.differences:
            print(f"  thread {difference.tid} differs at frame {difference.at}")
            for title, lines in (("ours", difference.ours), ("gdb", difference.gdbs)):
                for line in lines[: options.lines]:
                    print(f"    {title:4} {line}")
            print(f"    stopped: {difference.stopped}")
    return 0 if worst >= 99.0 else 1


if __name__ == "__main__":
    sys.exit(main())
