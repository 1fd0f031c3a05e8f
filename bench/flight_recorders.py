"""Measures who is named by flight recorders: bench/flight_recorders.py [--real FOLDER]...

Jobs of known culprits are generated (tests/builders/jams.py) and decided; counted are runs in which
all that somebody lacks are named and nobody else, culprits named, and ranks named wrongly. Then the
whole command over 512 dumps with full rings, and the decision alone over 65,536 ranks. A FOLDER is
one real run: dumps, and fault_injection.log with ``Fault ranks: [9, 14]``, as the tests of
nvidia-resiliency-ext have them.
"""

import argparse
import json
import os
import pickle
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from array import array
from pathlib import Path
from typing import Any

from machine import machine

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))

from builders.jams import KINDS, Job, Layout, jammed  # noqa: E402
from postmortem.diagnose.jam.decide import find_jam  # noqa: E402
from postmortem.facts.flight_recorder import Recorder  # noqa: E402
from postmortem.readers.flight_recorder import Shared, read_recorder  # noqa: E402
from postmortem.records import replace  # noqa: E402

SETS: dict[str, tuple[Layout, int, str]] = {
    "1,024 ranks 8x8x16": (Layout(8, 8, 16), 24, "lost"),
    "64 ranks 4x4x4": (Layout(4, 4, 4), 100, "none"),
    "64 ranks 4x4x4, dumps lost": (Layout(4, 4, 4), 100, "lost"),
    "32 ranks 4x2x4, expert groups of 2": (Layout(4, 2, 4, 2), 100, "none"),
    "64 ranks 2x8x4, tensor groups of 2": (Layout(2, 8, 4), 100, "none"),
}


def recorders(job: Job, lost: list[int], *, active: bool) -> list[Recorder]:
    """Return the dumps of a job as the reader gives them."""
    shared = Shared()
    dumps = job.dumps(lost=lost, active=active).items()
    return [read_recorder(pickle.dumps(one), f"fr_{rank}", shared) for rank, one in dumps]


def generated(name: str) -> dict[str, Any]:
    """Decide a set of generated jobs."""
    layout, runs, losing = SETS[name]
    row = {"jobs": name, "runs": 0, "exact": 0, "lacked": 0, "named": 0, "candidates": 0}
    row["wrong"] = 0
    seconds = 0.0
    for seed in range(10_000, 10_000 + runs):
        chance = random.Random(seed)
        ranks = chance.sample(range(layout.size), chance.choice((1, 1, 2, 3)))
        job = jammed(layout, {rank: chance.choice(KINDS) for rank in ranks}, seed)
        if not job.jammed:
            continue
        victims = [rank for rank in range(layout.size) if rank not in ranks]
        count = chance.choice((1, layout.size // 50 + 1)) if losing == "lost" else 0
        read = recorders(job, chance.sample(victims, count), active=chance.random() < 0.5)
        began = time.process_time()
        jam = find_jam(read)
        seconds += time.process_time() - began
        named = {one.rank for one in jam.culprits} if jam else set()
        others = {one.rank for one in jam.candidates} if jam else set()
        lacked, allowed = job.needed(), job.allowed()
        row["runs"] += 1
        row["lacked"] += len(lacked)
        row["named"] += len(lacked & named)
        row["candidates"] += len((lacked - named) & others)
        row["wrong"] += len(named - allowed)
        row["exact"] += lacked <= named <= allowed
    row["cpu_seconds_to_decide"] = round(seconds / max(1, row["runs"]), 3)
    return row


def real(folder: Path) -> dict[str, Any]:
    """Decide one real run."""
    told = re.search(r"Fault ranks: \[([\d, ]*)\]", (folder / "fault_injection.log").read_text())
    guilty = {int(word) for word in told[1].split(",")} if told else set()
    shared = Shared()
    files = [path for path in sorted(folder.iterdir()) if path.suffix != ".log"]
    jam = find_jam([read_recorder(path.read_bytes(), str(path), shared) for path in files])
    named = {one.rank for one in jam.culprits} if jam else set()
    return {
        "run": folder.name,
        "guilty": sorted(guilty),
        "named": sorted(named),
        "wrong": len(named - guilty),
    }


def whole_command(entries: int = 2000) -> dict[str, Any]:
    """Run `postmortem logs` over 512 dumps with rings of 2,000 calls and their stacks."""
    layout = Layout(8, 4, 16)
    job = jammed(layout, {77: "stuck", 300: "size"}, 1)
    stack = [{"name": f"f{k}", "filename": "/job/model.py", "line": 9 * k} for k in range(12)]
    with tempfile.TemporaryDirectory() as folder:
        for rank, dump in job.dumps(active=False).items():
            rows = dump["entries"]
            past = [row for row in rows if row["state"] == "completed"] or rows
            first = dict(past[0]) if past else None
            missing = entries - len(rows)
            filler = [{**first, "collective_seq_id": -at} for at in range(missing, 0, -1)]
            dump["entries"] = [{**row, "frames": stack} for row in (*filler, *rows)]
            Path(folder, f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(dump, protocol=2))
        size = sum(path.stat().st_size for path in Path(folder).iterdir())
        command = [sys.executable, "-m", "postmortem", "logs", folder, "--json"]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            report = json.loads(process.stdout.read())
            _, _, usage = os.wait4(process.pid, 0)
            process.returncode = 1
    return {
        "dumps": layout.size,
        "calls": layout.size * entries,
        "bytes": size,
        "named": report["first_failure"]["ranks"],
        "guilty": [77, 300],
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 2),
    }


def many_ranks() -> dict[str, Any]:
    """Decide 65,536 ranks: 64 copies of a job of 1,024 that share their default group."""
    layout = Layout(8, 8, 16)
    job = jammed(layout, {531: "stuck"}, 5)
    read = recorders(job, [], active=True)
    shapes: dict[tuple[int, int], Any] = {}
    everybody = tuple(range(64 * layout.size))
    made: list[Recorder] = []
    world = next(g for one in read for g in one.groups if len(g.members) == layout.size)
    wide = replace(world, members=everybody)
    groups: dict[tuple[int, str], Any] = {}
    for copy in range(64):
        for one in read:
            mine = []
            for group in one.groups:
                if group is world:
                    mine.append(wide)
                    continue
                name = f"{int(group.name) + copy * len(layout.groups)}"
                key = (copy, group.name)
                if key not in groups:
                    members = tuple(rank + copy * layout.size for rank in group.members)
                    groups[key] = replace(group, name=name, members=members)
                mine.append(groups[key])
            renamed = []
            for shape in one.shapes:
                key_of = (copy, id(shape))
                if key_of not in shapes:
                    name = shape.group
                    if name != world.name:
                        name = f"{int(name) + copy * len(layout.groups)}"
                    shapes[key_of] = replace(shape, group=name)
                renamed.append(shapes[key_of])
            made.append(
                replace(
                    one,
                    rank=one.rank + copy * layout.size,
                    shapes=tuple(renamed),
                    groups=tuple(mine),
                    numbers=array("q", one.numbers),
                )
            )
    began = time.process_time()
    jam = find_jam(made)
    seconds = time.process_time() - began
    assert jam is not None
    return {
        "ranks": len(made),
        "calls": sum(one.calls for one in made),
        "named": len(jam.culprits),
        "guilty": 64,
        "wrong": sum(one.rank % layout.size != 531 for one in jam.culprits),
        "explained_of_waiting": [jam.explained, jam.waiting],
        "cpu_seconds_to_decide": round(seconds, 2),
        "peak_mib_with_the_facts": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
    }


def main() -> None:
    """Measure all, print and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--real", type=Path, action="append", default=[], metavar="FOLDER")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "flight_recorders.json")
    args = parser.parse_args()
    found: dict[str, Any] = {"machine": machine()}
    found["real"] = [real(folder) for folder in args.real]
    found["whole_command"] = whole_command()
    print(found["real"], found["whole_command"], sep="\n", flush=True)
    found["many_ranks"] = many_ranks()
    print(found["many_ranks"], flush=True)
    found["generated"] = []
    for name in SETS:
        found["generated"].append(generated(name))
        print(found["generated"][-1], flush=True)
    args.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
