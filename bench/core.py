"""Compares readers of cores: bench/core.py [CORE...] [--rounds N] [--name NAME].

Same cores, same run, rounds interleaved, after one warm-up; medians of wall time, CPU time and
peak memory from wait4(2), and each tool's wall time against ours. A tool that is not installed, or
that fails, is said in the table and fails nothing. Without arguments the cores are made here.

The package's bytecode is compiled first, as pip does when it installs: without it, and with
PYTHONDONTWRITEBYTECODE set, each run would compile the source again and take twice as long. An
editable install is a tenth slower than what users have: run it where the wheel is installed. How
much of a core our own reader reads is measured last, with the core out of the page cache.
"""

import argparse
import compileall
import ctypes
import importlib.util
import json
import mmap
import os
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from machine import machine

HERE = Path(__file__).resolve().parent
OURS = "postmortem native"
FACTS = "postmortem, facts alone"
"""What the reader says and what it means, without rules, report and JSON; Python's start is in."""
_READ_FACTS = (
    "import sys; from postmortem.readers.core import facts_of; "
    "from postmortem.readers.native_core import ask_native; facts_of(ask_native(sys.argv[1]))"
)
LIMIT_S = 120.0

PLAIN = "import os; os.abort()"
THREADS = (
    "import os,threading,time\n"
    "for _ in range(250): threading.Thread(target=time.sleep,args=(60,),daemon=True).start()\n"
    "os.abort()"
)
TORCH = "import os,torch; x=torch.ones(int({gb}*2**28)); x.sum(); os.abort()"


@dataclass(frozen=True)
class Sample:
    """One run of one tool."""

    wall_s: float
    cpu_s: float
    rss_mib: float
    status: int


@dataclass(frozen=True)
class Row:
    """What is known of one tool on one core."""

    core: str
    tool: str
    wall_ms: float | None
    cpu_ms: float | None
    rss_mib: float | None
    ratio: float | None
    """Wall time against that of `OURS`."""
    note: str = ""


def commands(core: Path) -> dict[str, list[str]]:
    """Return the command line of each tool."""
    own = [sys.executable, "-m", "postmortem", "core", str(core), "--exit-zero"]
    return {
        OURS: [*own, "--engine", "native", "--json"],
        FACTS: [sys.executable, "-c", _READ_FACTS, str(core)],
        "postmortem, text": [*own, "--engine", "native"],
        "postmortem with gdb": own,
        "gdb bt": [*("gdb", "-nx", "-batch", "-ex", "thread apply all bt", "-c", str(core))],
        "eu-stack": ["eu-stack", f"--core={core}"],
        "pystack": ["pystack", "core", str(core), "--native-all"],
    }


def with_program(command: list[str], core: Path) -> list[str]:
    """Return the command with the program that left the core: gdb and eu-stack need it."""
    if command[0] == "gdb":
        return [*command, str(Path(sys.executable).resolve())]
    if command[0] == "eu-stack":
        return [*command, f"--executable={Path(sys.executable).resolve()}"]
    return command


def run(command: list[str], limit_s: float = LIMIT_S) -> Sample:
    """Return what one run took, from wait4(2); killed at `limit_s` seconds its status is -9."""
    start = time.perf_counter()
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    signal.signal(signal.SIGALRM, lambda *_: os.killpg(process.pid, signal.SIGKILL))
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        _, status, usage = os.wait4(process.pid, 0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    return Sample(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, process.returncode)


def measure(core: Path, rounds: int) -> list[Row]:
    """Return a row for each tool, our own first."""
    tools = {name: with_program(line, core) for name, line in commands(core).items()}
    present = {name: line for name, line in tools.items() if shutil.which(line[0])}
    samples: dict[str, list[Sample]] = {name: [] for name in present}
    for turn in range(rounds + 1):
        for name, line in present.items():
            sample = run(line)
            if turn:  # the first round fills the page cache
                samples[name].append(sample)
    rows = []
    ours = None
    for name in tools:
        if name not in present:
            rows.append(Row(core.name, name, None, None, None, None, "not installed"))
            continue
        taken = samples[name]
        wall = statistics.median(s.wall_s for s in taken) * 1000
        failed = sorted({s.status for s in taken if s.status != 0})
        good = not failed
        if name == OURS and good:
            ours = wall
        rows.append(
            Row(
                core.name,
                name,
                wall,
                statistics.median(s.cpu_s for s in taken) * 1000,
                statistics.median(s.rss_mib for s in taken),
                wall / ours if ours else None,
                "" if good else f"exit status {failed[0]}",
            )
        )
    return rows


def core_mib_read(core: Path, turns: int = 3) -> float | None:
    """Return how many MiB of a core are in the page cache after a report that began without.

    The least of some turns, as other programs may read the core too; None where the kernel does
    not let go of it, or tells its owner only.
    """
    found = []
    for _ in range(turns):
        descriptor = os.open(core, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            before = _cached_pages(descriptor)
            run(commands(core)[OURS])
            after = _cached_pages(descriptor)
        finally:
            os.close(descriptor)
        if before == 0 and after:
            found.append(after * mmap.PAGESIZE / 2**20)
    return min(found, default=None)


def _cached_pages(descriptor: int) -> int | None:
    """Return how many pages of a file the page cache has, by mincore(2)."""
    size = os.fstat(descriptor).st_size
    libc = ctypes.CDLL(None, use_errno=True)
    with mmap.mmap(descriptor, size, flags=mmap.MAP_PRIVATE) as view:
        pages = (ctypes.c_ubyte * (-(-size // mmap.PAGESIZE)))()
        place = (ctypes.c_char * size).from_buffer(view)
        failed = libc.mincore(
            ctypes.c_void_p(ctypes.addressof(place)), ctypes.c_size_t(size), pages
        )
        del place  # the mapping cannot be closed while something stands for it
    return None if failed else sum(page & 1 for page in bytes(pages))


def table(rows: list[Row]) -> str:
    """Return the rows as a Markdown table."""
    lines = [
        "| core | tool | wall ms | CPU ms | peak MiB | × ours | |",
        "|---|---|--:|--:|--:|--:|---|",
    ]
    for row in rows:
        numbers = [row.wall_ms, row.cpu_ms, row.rss_mib, row.ratio]
        texts = ["–" if n is None else f"{n:.1f}" for n in numbers]
        lines.append(f"| {row.core} | {row.tool} | {' | '.join(texts)} | {row.note} |")
    return "\n".join(lines)


def compile_bytecode() -> None:
    """Compile the package that is measured."""
    found = importlib.util.find_spec("postmortem")
    for folder in (found.submodule_search_locations or []) if found else []:
        compileall.compile_dir(folder, quiet=2)


def crash(code: str, folder: Path) -> Path | None:
    """Return the core that a Python program leaves in `folder`; None if there is none."""
    folder.mkdir()

    def unlimited() -> None:
        hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
        resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))

    line = [sys.executable, "-c", code]
    subprocess.run(line, cwd=folder, preexec_fn=unlimited, capture_output=True, check=False)
    left = sorted(folder.glob("core*"))
    return left[0].rename(folder.parent / f"{folder.name}.core") if left else None


def many_segments(path: Path, count: int = 70_000) -> Path:
    """Return a core with more segments than the ELF header can count."""
    sys.path.insert(0, str(HERE.parent / "tests"))
    from builders.elf import CoreBuilder

    core = CoreBuilder().thread(1, 11).process(1).siginfo(11, 1)
    for i in range(count):
        core.segment(0x10000 + i * 0x2000, memsz=0x1000)
    path.write_bytes(core.build())
    return path


def make_cores(folder: Path, torch_gb: float) -> list[Path]:
    """Return the cores that could be made here; says which could not."""
    programs = {"plain": PLAIN, "threads-250": THREADS}
    if torch_gb:
        programs[f"torch-{torch_gb:g}GB"] = TORCH.format(gb=torch_gb)
    cores = [many_segments(folder / "segments-70000.core")]
    for name, code in programs.items():
        core = crash(code, folder / name)
        if core:
            cores.append(core)
        else:
            print(f"{name}: no core came (core_pattern, ulimit -c)", file=sys.stderr)
    return cores


def main() -> None:
    """Measure, print the table, and keep the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("cores", nargs="*", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--torch", type=float, default=0, metavar="GB", help="also a torch core")
    parser.add_argument("--name", default="core")
    parser.add_argument("--results", type=Path, default=HERE / "results")
    given = parser.parse_args()
    compile_bytecode()
    load = [round(minutes, 1) for minutes in os.getloadavg()]
    with tempfile.TemporaryDirectory() as folder:
        cores = given.cores or make_cores(Path(folder), given.torch)
        rows = [row for core in cores for row in measure(core, given.rounds)]
        sizes = {core.name: core.stat().st_size for core in cores}
        read = {core.name: core_mib_read(core) for core in cores}
    print(table(rows))
    for name, mib in read.items():
        print(f"{name}: {'-' if mib is None else f'{mib:.1f}'} MiB of {sizes[name] >> 20} read")
    given.results.mkdir(parents=True, exist_ok=True)
    result = {"machine": machine(), "rounds": given.rounds, "bytes": sizes, "mib_read": read}
    result["load_average"] = load
    result["rows"] = [asdict(row) for row in rows]
    (given.results / f"{given.name}.json").write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
