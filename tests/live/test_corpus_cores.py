"""Every crash of corpus/cores is made for real, and its report says what the case says."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from builders.commands import run_here

CORES = Path(__file__).parents[2] / "corpus" / "cores"
CASES = sorted(path.parent.name for path in CORES.glob("*/case.toml"))
# Every report is made by our own reader alone, in a twentieth of gdb's time, and these also as
# users get them: each library once, and where gdb has another word for the place of the crash, or
# a stack that it unwinds in a way of its own.
AS_USERS_GET_IT = {
    *("crash_at_exit", "damaged_object", "fatal_python_error", "privileged_instruction"),
    *("native_stack_overflow", "return_address_overwritten", "lost_stack_pointer", "huge_array"),
    *("call_of_null", "call_of_text", "crash_in_catch", "terminate_in_handler", "rust_panic"),
    *("handler_aborts", "handler_on_other_stack", "handler_raises_again", "real_c10_error"),
    *("deadlock_gil_and_mutex", "deadlock_snapshot", "many_threads", "division_by_zero"),
}


def marks_of(name: str) -> list[pytest.MarkDecorator]:
    case = tomllib.loads((CORES / name / "case.toml").read_text())
    known = {"torch": pytest.mark.torch, "cxx": pytest.mark.cxx, "gcore": pytest.mark.gdb}
    return [pytest.mark.cores] + [known[n] for n in case.get("needs", ()) if n in known]


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function that compiles a library of the corpus once."""
    folder = tmp_path_factory.mktemp("libraries")
    done: dict[str, Path] = {}

    def build(source: str) -> Path:
        if source.endswith(".rs"):
            return done.setdefault(source, _rust_library(CORES / source, folder))
        compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++")
        if compiler is None:
            pytest.skip("no C++ compiler found (g++, c++ or $CXX)")
        if source not in done:
            target = folder / source.replace("/", "_").replace(".cpp", ".so")
            flags = ["-std=c++17", "-g", "-O1", "-shared", "-fPIC", "-pthread", "-w"]
            flags += ["-D_FORTIFY_SOURCE=2"]
            if source.startswith("python_error"):
                flags.append("-O0")  # a third less of the time, of which pybind11 takes most
            command = [compiler, *flags, "-o", str(target), str(CORES / source)]
            spec = importlib.util.find_spec("torch")
            if source.startswith("real_c10") and spec is not None and spec.origin is not None:
                torch = Path(spec.origin).parent
                command += [f"-I{torch}/include", f"-L{torch}/lib", "-lc10"]
                command += [f"-Wl,-rpath,{torch}/lib"]
            if source.startswith(("python_error", "null_to_python")):
                command += _python_headers()
            subprocess.run(command, check=True, capture_output=True, text=True)
            done[source] = target
        return done[source]

    return build


def _rust_library(source: Path, folder: Path) -> Path:
    compiler = shutil.which("rustc")
    if compiler is None:
        pytest.skip("no Rust compiler found (rustc)")
    target = folder / f"lib{source.stem}.so"
    flags = ["-g", "-Cpanic=abort", "-Csymbol-mangling-version=v0", "--crate-type=cdylib"]
    command = [compiler, *flags, "-o", str(target), str(source)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return target


def _python_headers() -> list[str]:
    headers = sysconfig.get_path("include")
    if not (Path(headers) / "Python.h").exists():
        pytest.skip(f"no Python.h in {headers} (the package python3-dev)")
    spec = importlib.util.find_spec("pybind11")
    found = [] if spec is None or spec.origin is None else [Path(spec.origin).parent / "include"]
    return [f"-I{headers}", *(f"-I{path}" for path in found)]


@pytest.fixture
def small_tmpfs(tmp_path: Path) -> Iterator[Path]:
    """Mount a tmpfs of one MiB."""
    folder = tmp_path / "shm"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True) if os.geteuid() == 0 else None
    if done is None or done.returncode != 0:
        pytest.skip("mounting a tmpfs takes root")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.parametrize("name", [pytest.param(n, marks=marks_of(n)) for n in CASES])
def test_crash_is_explained(
    name: str,
    crash: Callable[..., Any],
    library: Callable[[str], Path],
    request: pytest.FixtureRequest,
    tmp_path: Path,
) -> None:
    case = tomllib.loads((CORES / name / "case.toml").read_text())
    needs = case.get("needs", [])
    if "torch" in needs:
        pytest.importorskip("torch")
    if "pybind11" in needs:
        pytest.importorskip("pybind11")
    words = {"python": sys.executable, "case": str(CORES / name), "cores": str(CORES)}
    if "library" in case:
        words["lib"] = str(library(case["library"]))
    if "tmpfs" in needs:
        words["tmpfs"] = str(request.getfixturevalue("small_tmpfs"))
    argv = [word.format(**words) for word in case["argv"]]
    dump = case.get("dump", "signal")
    if dump == "gcore":
        core = gcore_of(argv, tmp_path)
    elif dump.startswith("kill "):
        core = crash(["bash", "-c", KILL_WHEN_READY, dump.split()[1], *argv]).core
    else:
        core = crash(argv).core
    for engine in ("native", "auto") if name in AS_USERS_GET_IT else ("native",):
        report, code = explained(core, engine)
        expect = case["expect"]
        if nameless_interpreter(report):
            expect = {**expect, **case.get("expect_of_a_stripped_interpreter", {})}
        check(expect, report, code)
    core.unlink()


def test_cases_that_gdb_sees_are_there() -> None:
    assert set(CASES) >= AS_USERS_GET_IT


# The shell becomes the victim ($$ stays its process ID through exec), a subshell of it the killer,
# so that the core lies where the crash fixture looks.
KILL_WHEN_READY = """
signal=${0#SIG}
exec "$@" > >(while read -r word; do [ "$word" = ready ] && kill -"$signal" $$ && break; done)
"""


def gcore_of(argv: list[str], folder: Path) -> Path:
    gcore = shutil.which("gcore")
    if gcore is None:
        pytest.skip("no gcore found (it comes with gdb)")
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=folder)
    try:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "ready"
        command = [gcore, "-o", str(folder / "snapshot"), str(process.pid)]
        done = subprocess.run(command, capture_output=True, text=True)
        path = folder / f"snapshot.{process.pid}"
        if not path.exists():
            pytest.skip(f"gcore left no core: {done.stderr.strip()[-200:]}")
        return path
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def explained(core: Path, engine: str = "native") -> tuple[dict[str, Any], int]:
    """Return the report and the exit code."""
    done = run_here("core", core, "--json", "--engine", engine)
    assert done.stdout, done.stderr
    return json.loads(done.stdout), done.returncode


def nameless_interpreter(report: dict[str, Any]) -> bool:
    """Whether the private functions of this Python have no names: Debian strips its own."""
    here = {os.path.realpath(sys.executable)}
    frames = (frame for thread in report["threads"] for frame in thread["frames"])
    return any(
        frame["function"] == "??" and (frame["module"] in here or "libpython" in frame["module"])
        for frame in frames
        if frame["module"]
    )


def check(expect: dict[str, Any], report: dict[str, Any], code: int) -> None:
    ids = [diagnosis["id"] for diagnosis in report["diagnoses"]]
    said = json.dumps({"verdict": report["verdict"], "ids": ids, "problems": report["problems"]})
    assert ids, said
    assert ids[0] == expect["first"], said
    assert set(expect.get("also", ())) <= set(ids), said
    assert not set(expect.get("forbid", ())) & set(ids), said
    assert not [value for value in expect.get("verdict", ()) if value not in report["verdict"]], (
        said
    )
    assert code == expect.get("exit", 1)
    for path, wanted in expect.get("json", {}).items():
        found = list(values_at(report, path.split(".")))
        if "*" in path:
            assert set(wanted) <= set(found), (path, found)
        elif isinstance(wanted, str) and wanted.startswith("/"):
            assert re.search(wanted.strip("/"), str(found[0])), (path, found)
        else:
            assert found == [wanted if wanted != "" else None], (path, found)


def values_at(value: Any, path: list[str]) -> Iterator[Any]:
    """Yield what stands at a path of a report; ``*`` is each of a list, where it is there."""
    if not path or value is None:
        yield value
    elif path[0] == "*":
        yield from (found for one in value for found in values_at(one, path[1:]))
    else:
        yield from values_at(value[int(path[0]) if isinstance(value, list) else path[0]], path[1:])
