"""The sample programs crash as they say, and their cores are found or written by gdb."""

import importlib.util
import json
import os
import resource
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from builders.commands import call
from postmortem.analyses.core import CoreOptions, analyse
from postmortem.demo import KINDS
from postmortem.demo.crashing import crash, crash_under_gdb, program
from postmortem.errors import DebuggerError, EvidenceError
from postmortem.present.core.report import Shown
from postmortem.readers.corefind import core_pid
from postmortem.readers.corepattern import container_kind, destination, read_core_pattern
from postmortem.readers.opening import open_core

SIGNALS = {"segv": 11, "abort": 6, "bus": 7, "stack": 11, "kill": 6}
CODES = {"segv": 1, "abort": -6, "bus": 2, "stack": (1, 2), "kill": 0}
"""si_code: SEGV_MAPERR, SI_TKILL, BUS_ADRERR, SEGV_MAPERR or SEGV_ACCERR, SI_USER (signal.h)."""

TAKER = destination(read_core_pattern(), container=container_kind())
needs_cores = pytest.mark.skipif(not TAKER.reachable, reason=f"cores go to {TAKER.words}")
needs_gdb = pytest.mark.skipif(shutil.which("gdb") is None, reason="needs gdb")


def whole_command_is_here() -> bool:
    """Whether the parts of the house that `postmortem demo` hands over to are installed."""
    names = ("postmortem._native", "postmortem.cli.core", "postmortem.cli.main")
    return all(importlib.util.find_spec(name) is not None for name in names)


needs_house = pytest.mark.skipif(not whole_command_is_here(), reason="needs the whole command")


def siginfo(core: Path) -> tuple[int, int, int]:
    """Return si_signo, si_code and the address (or sender) in a core's first NT_SIGINFO."""
    with core.open("rb") as file:
        header = file.read(64)
        count = struct.unpack_from("<H", header, 56)[0]
        for _ in range(count):
            kind, _, offset, _, _, size = struct.unpack_from("<IIQQQQ", file.read(56))
            if kind == 4:
                break
        file.seek(offset)
        notes = file.read(size)
    at = 0
    while True:
        name_size, size, kind = struct.unpack_from("<III", notes, at)
        at += 12 + (name_size + 3) // 4 * 4
        if kind == 0x53494749:
            signal, _, code, _, address = struct.unpack_from("<4iQ", notes, at)
            return signal, code, address
        at += (size + 3) // 4 * 4


def check(kind: str, core: Path) -> None:
    signal, code, address = siginfo(core)
    expected = CODES[kind]
    assert signal == SIGNALS[kind]
    assert code in (expected if isinstance(expected, tuple) else (expected,))
    if kind == "segv":
        assert address == 0
    if kind == "kill":
        assert address & 0xFFFFFFFF == os.getpid()


@pytest.mark.cores
@needs_cores
@pytest.mark.parametrize("kind", KINDS)
def test_sample_crashes_as_it_says_and_its_core_is_found(tmp_path: Path, kind: str) -> None:
    said: list[str] = []
    limits = resource.getrlimit(resource.RLIMIT_CORE)
    crashed = crash(kind, tmp_path, say=said.append)
    assert resource.getrlimit(resource.RLIMIT_CORE) == limits
    assert not crashed.by_gdb
    # A copy ran: what lies in site-packages is a library's, and its frames would fold.
    assert (tmp_path / f"{kind}.py").read_bytes() == program(kind).read_bytes()
    with open_core(crashed.core) as opened:
        assert core_pid(opened.path) == crashed.pid
        check(kind, opened.path)
    assert f" {crashed.pid} " in said[0]


@pytest.mark.gdb
@needs_gdb
@pytest.mark.parametrize("kind", KINDS)
def test_gdb_writes_the_core_where_the_kernel_cannot(tmp_path: Path, kind: str) -> None:
    gdb = shutil.which("gdb")
    assert gdb is not None
    crashed = crash_under_gdb(kind, tmp_path, (gdb,))
    assert crashed.by_gdb
    assert core_pid(crashed.core) == crashed.pid
    check(kind, crashed.core)
    found = analyse(crashed.core, CoreOptions(engine="native", shown=Shown(blocks=False)))
    assert all(diagnosis.id != "snapshot" for diagnosis in found.diagnoses)


def test_gdb_that_does_nothing_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(DebuggerError, match="gdb"):
        crash_under_gdb("segv", tmp_path, ("/bin/true",))


def test_sample_that_does_not_crash_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a Python that cannot start ends with a status, not by a signal
    monkeypatch.setenv("PYTHONHOME", str(tmp_path))
    with pytest.raises(EvidenceError, match="crash"):
        crash("segv", tmp_path, say=lambda _: None)


@pytest.mark.skipif(
    shutil.which("setpriv") is None or importlib.util.find_spec("postmortem.readers.gdb") is None,
    reason="needs setpriv and the gdb reader",
)
@pytest.mark.skipif(TAKER.handler != "file", reason=f"cores go to {TAKER.words}")
@pytest.mark.parametrize(("limit", "word"), [(0, "limits.d/core.conf"), (8192, " 8,192 ")])
def test_hard_limit_is_named_with_its_remedy(tmp_path: Path, limit: int, word: str) -> None:
    code = (
        "import resource, sys; from pathlib import Path\n"
        f"resource.setrlimit(resource.RLIMIT_CORE, ({limit}, {limit}))\n"
        "from postmortem.demo.crashing import crash\n"
        "from postmortem.errors import EvidenceError\n"
        "try: print(crash('abort', Path(sys.argv[1]), gdb='/no/such/gdb', say=print))\n"
        "except EvidenceError as error: print(error, error.hint)\n"
    )
    # without the capability root cannot raise the hard limit either
    command = ["setpriv", "--bounding-set", "-sys_resource", sys.executable, "-c", code, tmp_path]
    if os.geteuid() != 0:
        command = command[3:]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert word in done.stdout
    assert "/no/such/gdb" in done.stdout


def test_samples_use_the_standard_library_only() -> None:
    for kind in KINDS:
        text = program(kind).read_text()
        imports = {line.split()[1] for line in text.splitlines() if line.startswith("import ")}
        assert imports <= set(sys.stdlib_module_names)
        assert "postmortem" not in text


@pytest.mark.cores
@needs_house
@needs_cores
@pytest.mark.parametrize("kind", KINDS)
def test_demo_explains_its_own_crash(tmp_path: Path, kind: str) -> None:
    done = call("demo", kind, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["kind"] == "core"
    assert report["signal"]["number"] == SIGNALS[kind]
    assert report["diagnoses"]
    if kind == "abort":
        assert "free()" in report["abort_message"]
    assert done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.cores
@needs_house
@needs_cores
def test_demo_keeps_its_core_when_asked(tmp_path: Path) -> None:
    done = call("demo", "abort", "--keep", "kept", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (core,) = (tmp_path / "kept").glob("core.abort.*")
    assert list((tmp_path / "kept").glob("postmortem-demo-*/abort.py"))
    assert core_pid(core) == json.loads(done.stdout)["process"]["pid"]


@needs_house
def test_unknown_kind_is_a_usage_error(tmp_path: Path) -> None:
    done = call("demo", "nonsense", cwd=tmp_path)
    assert done.returncode == 2
    assert "segv" in done.stderr
