"""Compares the Python frames of the native reader with pystack's, on any core.

Function, file and line of every frame of every Python thread. Two differences are known and not
counted: pystack gives names without their class, and shows the frame that CPython 3.12 and 3.13
keep below a class's ``__init__`` (file ``__init__``, line 0). Run it as a program:
``PYTHONPATH=src python tests/live/compare_python.py [--pystack PROGRAM] CORE...``.
"""

import argparse
import re
import subprocess
import sys
from collections.abc import Iterable

from postmortem import _native

Row = tuple[str, str, int | None]

_THREAD = re.compile(r"Traceback for thread (\d+)")
_FRAME = re.compile(r'\(Python\) File "(?P<file>.*)", line (?P<line>-?\d+), in (?P<function>.*)$')


def frames_of_pystack(core: str, pystack: str) -> dict[int, list[Row]]:
    """Return the Python frames by thread, innermost first."""
    done = subprocess.run(
        [pystack, "--no-color", "core", core], capture_output=True, text=True, timeout=120
    )
    threads: dict[int, list[Row]] = {}
    rows: list[Row] = []
    for line in done.stdout.splitlines():
        if thread := _THREAD.search(line):
            rows = threads.setdefault(int(thread[1]), [])
        elif (frame := _FRAME.search(line)) and frame["file"] != "__init__":
            rows.insert(0, (frame["function"], frame["file"], int(frame["line"]) or None))
    if not threads:
        raise RuntimeError(f"pystack read no Python thread: {done.stderr.strip()[-300:]}")
    return threads


def frames_of_ours(core: str) -> dict[int, list[Row]]:
    """Return the Python frames by thread, innermost first, functions without their class."""
    python = _native.read_core(core, stacks=False)["python"]
    if python is None:
        return {}
    return {
        thread["tid"] or 0: [
            (frame["function"].rpartition(".")[2], frame["file"] or "", frame["line"])
            for frame in thread["frames"]
        ]
        for thread in python["threads"]
    }


def differences(core: str, pystack: str = "pystack") -> tuple[int, list[str]]:
    """Return how many frames are equal, and a line for each that is not."""
    theirs, ours = frames_of_pystack(core, pystack), frames_of_ours(core)
    equal, found = 0, []
    for tid in sorted({*theirs, *ours}):
        a, b = ours.get(tid, []), theirs.get(tid, [])
        for index in range(max(len(a), len(b))):
            pair = [rows[index] if index < len(rows) else None for rows in (a, b)]
            if pair[0] == pair[1]:
                equal += 1
            else:
                found.append(f"thread {tid} frame {index}: ours {pair[0]}, pystack {pair[1]}")
    return equal, found


def main(arguments: Iterable[str]) -> int:
    """Print a line per core and each difference; 1 when there was one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cores", nargs="+", metavar="CORE")
    parser.add_argument("--pystack", default="pystack", metavar="PROGRAM")
    options = parser.parse_args(list(arguments))
    failed = False
    for core in options.cores:
        try:
            equal, found = differences(core, options.pystack)
        except RuntimeError as error:
            print(f"{core}: {error}")  # noqa: T201
            continue
        failed |= bool(found)
        print(f"{core}: {equal} frames equal, {len(found)} not", *found[:20], sep="\n  ")  # noqa: T201
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
