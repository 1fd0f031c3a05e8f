"""Prints one table of what each command costs beside its peers, and fails where it costs more.

bench/table.py [--against WHEEL] [--size MB] [--rounds N] [--only WORD]. Processor time (user and
system, of all processes of a command), which a busy machine stretches least. Ours, the peers and,
with --against, ours of another wheel (the last release) take turns over the same warm file: a
figure is the least of the rounds, a ratio is read within one run. A command that costs a tenth more
than the wheel's, by the least of each and by the median of the pairs, fails the run. The last
figures of each machine stay in results/table.json.
"""

import argparse
import compileall
import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import core
import ranklogs
import strace
from machine import machine

OUT = Path(__file__).resolve().parent / "results" / "table.json"
MOST = 1.1
OURS, THEN = "ours", "the wheel"
PYTHON = shlex.quote(sys.executable)


@dataclass(frozen=True)
class Case:
    """A command of ours over one file, and what others take for theirs."""

    name: str
    words: str
    """What stands behind ``postmortem``."""
    peers: dict[str, str]


def cases(folder: Path, size: int, only: str) -> Iterator[Case]:
    """Yield what is measured, and of it what has a word in its name, when its file is made."""
    if only in "--help":
        yield Case("--help", "--help", {"python": f"{PYTHON} -c pass"})
    name = "core, 251 threads"
    left = core.crash(core.THREADS, folder / "threads-250") if only in name else None
    if left is not None:
        words = f"core {left} --engine native --json --exit-zero"
        yield Case(name, words, {"eu-stack": f"eu-stack --core={left}"})
    for kind, parts in strace.LOGS.items():
        find, whole = f"strace --find, {kind}", f"strace, {kind}"
        if only not in find and only not in whole:
            continue
        log = folder / kind.split()[0]
        strace.build(log, parts, size, shorn=kind.startswith("halves"))
        searches = {tool: f"{tool} -c {strace.ASK} {log}" for tool in ("grep", "rg")}
        if only in find:
            yield Case(find, f"strace {log} --find {strace.ASK} --exit-zero", searches)
        if only in whole:
            yield Case(whole, f"strace {log} --exit-zero", searches)
        log.unlink()
    name, log = "logs, 512 ranks", folder / "ranks"
    if only in name:
        ranklogs.build(log, size)
        words = " ".join(f"-e {shlex.quote(word)}" for word in ranklogs.LITERALS)
        yield Case(name, f"logs {log} --exit-zero", {"grep": f"grep -F -c {words} {log}"})


def cost(command: str, package: Path | None, out: Path) -> float:
    """Return the processor time of a command; `package` comes first where Python looks."""
    env = {**os.environ, "LC_ALL": "C"}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    if package is not None:
        env["PYTHONPATH"] = str(package)
    with out.open("wb") as stream:  # grep stops at the first hit when it sees /dev/null
        process = subprocess.Popen(shlex.split(command), stdout=stream, stderr=stream, env=env)
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode > 1:
        raise SystemExit(f"{command} ended with {process.returncode}:\n{out.read_text()[-2000:]}")
    return used.ru_utime + used.ru_stime


def measured(case: Case, rounds: int, wheel: Path | None, out: Path) -> dict[str, list[float]]:
    """Return the costs of each tool, in rounds that take turns after one to warm up."""
    ours = f"{PYTHON} -m postmortem {case.words}"
    tools: dict[str, tuple[str, Path | None]] = {OURS: (ours, None)}
    if wheel is not None:
        tools[THEN] = (ours, wheel)
    for name, command in case.peers.items():
        if shutil.which(shlex.split(command)[0]):
            tools[name] = (command, None)
    found: dict[str, list[float]] = {name: [] for name in tools}
    for turn in range(rounds + 1):
        for name in sorted(tools, reverse=turn % 2 == 1):
            spent = cost(*tools[name], out)
            if turn:
                found[name].append(spent)
    return found


def slower(found: dict[str, list[float]]) -> float | None:
    """Return what ours costs of the wheel's, the lesser of both ways to say it."""
    if THEN not in found:
        return None
    pairs = [now / then for now, then in zip(found[OURS], found[THEN], strict=True)]
    return min(statistics.median(pairs), min(found[OURS]) / min(found[THEN]))


def row(name: str, found: dict[str, list[float]]) -> str:
    """Return a row of the table."""
    least = {tool: min(spent) for tool, spent in found.items()}
    peers = ", ".join(
        f"{least[OURS] / spent:.2f} x {tool}"
        for tool, spent in least.items()
        if tool not in (OURS, THEN)
    )
    ratio = slower(found)
    then = "" if ratio is None else f"{ratio:.2f}" + (" SLOWER" if ratio > MOST else "")
    return f"{name:40} {1000 * least[OURS]:7.0f} ms  {then:12} {peers}"


def unpacked(wheel: Path, folder: Path) -> Path:
    """Return where a wheel lies, unpacked and compiled as pip would."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    compileall.compile_dir(folder, quiet=2)
    return folder


def keep(path: Path, here: dict[str, str | int], rows: dict[str, dict[str, float]]) -> None:
    """Put the figures in the place of this machine's last ones."""
    known = json.loads(path.read_text()) if path.exists() else {}
    known[f"{here['cpu']} {here['family']}"] = {"machine": here, "ms": rows}
    path.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")


def main() -> int:
    """Measure, print the table, and keep the figures; 1 where something costs more than it did."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--against", type=Path, metavar="WHEEL", help="of the last release")
    parser.add_argument("--size", type=int, default=300, metavar="MB", help="of each log")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", metavar="WORD", help="cases with it in their name")
    parser.add_argument("--out", type=Path, default=OUT)
    args = parser.parse_args()
    if args.against and any("editable" in finder.__module__ for finder in sys.meta_path):
        parser.error("--against: an editable install is found before any wheel: pip install .")
    here = machine()
    core.compile_bytecode()
    print(f"{here['cpu']} {here['family']}, {here['cpus']} processors, Python {here['python']}")
    print(f"{'':40} {'ours':>10}  {'of the wheel':12} of peers")
    rows: dict[str, dict[str, float]] = {}
    worse = False
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheel = unpacked(args.against, folder / "wheel") if args.against else None
        for case in cases(folder, args.size * 1_000_000, args.only):
            found = measured(case, args.rounds, wheel, folder / "out")
            print(row(case.name, found), flush=True)
            rows[case.name] = {tool: round(1000 * min(spent), 1) for tool, spent in found.items()}
            worse |= (slower(found) or 0) > MOST
    keep(args.out, here, rows)
    return int(worse)


if __name__ == "__main__":
    sys.exit(main())
