"""Readers side by side, each in a process of its own with a limit of memory and a deadline.

What a reader returns is its report as JSON: what it concluded, and nothing of what it holds in
memory. One that dies, hangs or eats memory costs its own evidence and nothing else.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence

from postmortem.background import side_by_side
from postmortem.errors import EvidenceError
from postmortem.facts.inventory import Reading, Result
from postmortem.readers.own_reports import LARGEST, own_report
from postmortem.records import replace
from postmortem.text import counted

MEMORY = 8 << 30
"""What a reader may have, unless POSTMORTEM_MEMORY says so: it bounds itself by that."""
SECONDS = 300.0
_AT_ONCE = 4


def read_side_by_side(
    readings: Sequence[Reading], progress: Callable[[str], None] | None = None
) -> tuple[Result, ...]:
    """Return what came of each, in their order."""
    results: list[Result] = []
    for done, result in enumerate(side_by_side(_read, readings, most=_AT_ONCE), 1):
        results.append(result)
        if progress is not None:
            progress(f"{done} of {counted(len(readings), 'kind')} of evidence read")
    return tuple(results)


def _read(reading: Reading) -> Result:
    # -P: nothing is imported from the current folder, which may be the evidence.
    command = [sys.executable, "-P", "-m", "postmortem", *reading.words, "--json"]
    environment = {"POSTMORTEM_MEMORY": str(MEMORY), **os.environ, "NO_COLOR": "1"}
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
        )
    except OSError as error:
        return Result(reading, None, f"its reader could not start: {error.strerror}")
    with process:
        try:
            out, said = process.communicate(timeout=SECONDS)
        except BaseException as error:
            process.kill()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            return Result(reading, None, f"its reader had not finished after {SECONDS:g} s")
    if process.returncode < 0:
        return Result(reading, None, f"its reader was ended by signal {-process.returncode}")
    if process.returncode not in (0, 1):
        return Result(reading, None, _complaint(said))
    if len(out) > LARGEST:
        return Result(reading, None, "its report is too large")
    try:
        return Result(reading, own_report(out, reading.paths[0]), None)
    except EvidenceError as error:
        return Result(reading, None, error.what)


def _complaint(stderr: bytes) -> str:
    lines = stderr.decode("utf-8", "replace").splitlines()
    said = next((line for line in lines if line.startswith("postmortem: ")), None)
    return said.removeprefix("postmortem: ") if said else "its reader failed"


def with_unread(results: Sequence[Result]) -> tuple[Result, ...]:
    """Return the results with a report on each checkpoint of which nothing could be read."""
    return tuple(map(_unread_told, results))


def _unread_told(result: Result) -> Result:
    if result.document is not None or result.reading.kind != "scan":
        return result
    paths, why = result.reading.paths, str(result.why)
    said = why.removeprefix(f"{paths[0]}: ") if len(paths) == 1 else "it cannot be read"
    rows = [{"where": path, "what": said, "remedy": None} for path in paths]
    told = {"kind": "scan", "outcome": "unknown", "verdict": why, "inputs": [], "problems": rows}
    return replace(result, document=told)
