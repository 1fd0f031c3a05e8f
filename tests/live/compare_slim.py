"""Compares what readers of cores say of a core and of the slim core made from it.

The readers are gdb, pystack (plain, and --native-all --locals, which prints all that --native-all
prints), eu-stack and our own JSON report; what they print must be the same but for the name of the
file. One that is not installed is left out. As a program:
``PYTHONPATH=src:tests python tests/live/compare_slim.py CORE...`` makes the slim cores itself and
prints sizes and the first different lines.
"""

import argparse
import difflib
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import which

from builders.commands import run_here
from postmortem import _native

_SAME_BY_DESIGN = ("schema", "kind", "tool", "inputs", "core", "problems")
_SECONDS = 300


@dataclass(frozen=True)
class ExceptionText:
    """What one reader printed of one core."""

    status: int
    text: str

    def __str__(self) -> str:
        return f"exit status {self.status}\n{self.text}"


def executable_of(core: Path) -> str:
    """Return the program that left the core."""
    raw = _native.read_core(str(core), stacks=False, python=False)
    if raw["executable"] is not None:
        return raw["executable"]
    return next(m["disk_path"] for m in raw["modules"] if m["disk_path"] is not None)


def commands(core: Path, executable: str) -> dict[str, list[str]]:
    """Return the command line of each reader that is installed."""
    pystack = [_beside(sys.executable, "pystack"), "core", str(core), executable]
    rows = {
        "gdb": [
            *("gdb", "-nx", "-batch", "-iex", "set auto-load off"),
            *("-iex", "set debuginfod enabled off", "-ex", "thread apply all bt"),
            *(executable, str(core)),
        ],
        "pystack": pystack,
        "pystack --locals": [*pystack, "--native-all", "--locals"],
        "eu-stack": ["eu-stack", f"--core={core}", f"--executable={executable}"],
        "postmortem --locals": [
            *("postmortem", "core", str(core), "--json", "--locals"),
            *("--engine", "native", "--exit-zero", "--no-redact"),
        ],
    }
    return {name: row for name, row in rows.items() if row[0] == "postmortem" or which(row[0])}


def _beside(program: str, name: str) -> str:
    found = Path(program).with_name(name)
    return str(found) if found.exists() else name


def ask(command: Sequence[str], core: Path) -> ExceptionText:
    """Return what a reader prints, without what must differ."""
    if command[0] == "postmortem":
        run = run_here(*command[1:])
    else:
        run = subprocess.run(
            list(command), capture_output=True, text=True, errors="replace", timeout=_SECONDS
        )
    text = run.stdout + "--- standard error ---\n" + run.stderr
    if command[0] == "postmortem":
        report = json.loads(run.stdout)
        body = {key: value for key, value in report.items() if key not in _SAME_BY_DESIGN}
        body["problems"] = [row["what"] for row in report["problems"]]
        text = re.sub(r'("filesystem_free": )\d+', r"\1N", json.dumps(body, indent=1))
    return ExceptionText(run.returncode, text.replace(str(core), "CORE"))


def make_slim(core: Path, slim: Path) -> Mapping[str, object]:
    """Write the slim core with the native writer; returns its row of figures."""
    with slim.open("w+b") as file:
        return _native.write_slim(str(core), file.fileno())


def differences(
    core: Path, slim: Path, executable: str, readers: Sequence[str] = ()
) -> dict[str, list[str]]:
    """Return by reader the lines that differ; empty lists where none does."""
    result: dict[str, list[str]] = {}
    for name, command in commands(core, executable).items():
        if readers and name not in readers:
            continue
        before = ask(command, core)
        after = ask([word.replace(str(core), str(slim)) for word in command], slim)
        if before == after:  # difflib takes seconds to find that out of megabytes
            result[name] = []
            continue
        lines = difflib.unified_diff(
            str(before).splitlines(), str(after).splitlines(), "original", "slim", lineterm="", n=1
        )
        result[name] = list(lines)
    return result


def main() -> int:
    """Compare each core that is named; the exit status is 1 when a reader sees a difference."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("core", nargs="+", type=Path)
    parser.add_argument("--executable", help="the program that left the cores")
    parser.add_argument("--lines", type=int, default=12, help="different lines to show")
    args = parser.parse_args()
    failed = False
    for core in args.core:
        with tempfile.TemporaryDirectory() as folder:
            slim = Path(folder) / "slim.core"
            row = make_slim(core, slim)
            print(f"{core}: {core.stat().st_size:,} -> {slim.stat().st_size:,} bytes")
            for problem in row["problems"]:  # type: ignore[attr-defined]
                print(f"  problem: {problem}")
            found = differences(core, slim, args.executable or executable_of(core))
            for name, lines in found.items():
                failed |= bool(lines)
                print(f"  {name}: {'differs' if lines else 'the same'}")
                for line in lines[: args.lines]:
                    print(f"    {line[:220]}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
