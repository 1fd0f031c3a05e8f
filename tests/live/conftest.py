"""Real crashes: programs are compiled, run with core dumps on, and their cores found."""

import fnmatch
import os
import re
import resource
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parents[1] / "programs"
_HERE = f"{Path(__file__).parent}/"
_SECONDS = 100


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run a live test that failed once more, and say so in the summary.

    Jobs of several processes race with each other and with all else on the machine: what fails
    twice is a fault of ours; what fails once is listed as rerun, to be looked at.
    """
    if config.pluginmanager.hasplugin("rerunfailures"):
        for item in items:
            if str(item.path).startswith(_HERE):
                item.add_marker(pytest.mark.flaky(reruns=1))


@dataclass(frozen=True)
class CrashedProcess:
    """A process that died of a signal, and its core file."""

    core: Path
    pid: int
    returncode: int
    """Negative signal number, as subprocess has it."""
    output: str
    """Standard output and standard error together."""


Crash = Callable[..., CrashedProcess]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Run in a folder of its own, with the evidence in another."""
    here = tmp_path / "here"
    temp = Path(tempfile.mkdtemp(prefix="pm-", dir="/tmp"))  # a short name: sockets are in it
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("TMPDIR", str(temp))
    for name in ("POSTMORTEM_RUN", "RANK", "LOCAL_RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    yield here
    shutil.rmtree(temp)


@pytest.fixture
def crash(tmp_path: Path) -> Iterator[Crash]:
    """Return `crash(argv, **env)`: run a program with core dumps on and find its core.

    The variables are added to our environment. The cores are deleted after the test; where the
    kernel writes none that can be found, the test is skipped with the reason.
    """
    yield from _crashing(tmp_path)


@pytest.fixture(scope="module")
def crash_for_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crash]:
    """As `crash`, for cores that several tests read and none changes or deletes."""
    yield from _crashing(tmp_path_factory.mktemp("crashes"))


def _crashing(folder: Path) -> Iterator[Crash]:
    cores: list[Path] = []

    def run(argv: Sequence[str | os.PathLike[str]], **env: str) -> CrashedProcess:
        own = folder / f"crash-{len(cores)}"
        own.mkdir()
        began = time.time()
        process = _run(argv, own, env)
        core = _find_core(own, process.pid, began)
        if core is None:
            if process.returncode >= 0:  # no crash, neither of it nor of a child: a broken test
                said = (own / "output").read_text(errors="replace")
                pytest.fail(f"the program ended with {process.returncode}, no signal: {said}")
            pytest.skip(f"the kernel left no core file (core_pattern is {_core_pattern()!r})")
        cores.append(core)
        output = (own / "output").read_text(errors="replace")
        return CrashedProcess(core, process.pid, process.returncode, output)

    yield run
    for core in cores:
        core.unlink(missing_ok=True)


def _run(
    argv: Sequence[str | os.PathLike[str]], folder: Path, env: dict[str, str]
) -> subprocess.Popen[bytes]:
    pattern = _core_pattern()
    if pattern.startswith("|"):
        pytest.skip(f"core_pattern is a pipe ({pattern.split()[0]}): no core file to find")
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    if hard == 0:
        pytest.skip("the hard limit for core files is 0 (ulimit -H -c)")

    def allow_core() -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))

    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(
            [os.fspath(part) for part in argv],
            cwd=folder,
            env=dict(os.environ) | env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            preexec_fn=allow_core,
        )
        try:
            process.wait(timeout=_SECONDS)
        finally:
            process.kill()
            process.wait()
    return process


def _core_pattern() -> str:
    try:
        return Path("/proc/sys/kernel/core_pattern").read_text().strip()
    except OSError:
        return "core"


def _find_core(folder: Path, pid: int, began: float) -> Path | None:
    # core(5): %p and others stand for facts of the process, "core" may get ".PID" behind it.
    pattern = _core_pattern()
    where = Path(pattern).parent if pattern.startswith("/") else folder / Path(pattern).parent
    name = re.sub(r"%(.)", lambda m: {"p": str(pid), "%": "%"}.get(m[1], "*"), Path(pattern).name)
    found = [
        path
        for path in (where.iterdir() if where.is_dir() else ())
        if fnmatch.fnmatch(path.name, name) or path.name == f"{name}.{pid}"
    ]
    # A shared folder may hold cores of others, which must be neither taken nor deleted.
    found = [path for path in found if path.stat().st_mtime >= began - 1]
    return max(found, key=lambda path: path.stat().st_mtime_ns, default=None)


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Return `compiled(source, *flags, to=NAME)`: a program of tests/programs, built once."""
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++")
    folder = tmp_path_factory.mktemp("compiled")
    done: dict[tuple[str, ...], Path] = {}

    def build(source: str, *flags: str, to: str | None = None) -> Path:
        if compiler is None:
            pytest.skip("no C++ compiler found (g++, c++ or $CXX)")
        name = to or Path(source).stem
        key = (source, name, *flags)
        if key not in done:
            target = folder / str(len(done)) / name
            target.parent.mkdir(parents=True, exist_ok=True)
            command = [compiler, "-std=c++17", str(PROGRAMS / source), "-o", str(target), *flags]
            subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
            done[key] = target
        return done[key]

    return build


@pytest.fixture(scope="session")
def line_of() -> Callable[[str, str], int]:
    """Return `line_of(source, mark)`: the number of the line that has ``// LINE mark`` in it."""

    def find(source: str, mark: str) -> int:
        lines = (PROGRAMS / source).read_text().splitlines()
        return next(
            n for n, line in enumerate(lines, 1) if line.rstrip().endswith(f"// LINE {mark}")
        )

    return find
