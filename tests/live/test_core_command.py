"""The whole command line of ``postmortem core``, on real crashes and on all that is not a core."""

import fcntl
import gzip
import importlib
import json
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Any

import pytest

from builders.commands import (
    ARGUMENT,
    ENVIRONMENT,
    PROGRAMS,
    SECRET,
    crash_in,
    facts,
    native,
    refused,
    run,
)
from builders.prose import Prose

pytest.importorskip("postmortem._native")

pytestmark = [pytest.mark.cores]


@pytest.fixture(scope="session")
def core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The core of a Python process: three threads, a null pointer read through ctypes."""
    folder = tmp_path_factory.mktemp("python-core")
    command = [sys.executable, str(PROGRAMS / "segv_python.py"), "--password", ARGUMENT]
    return crash_in(folder, command, SERVICE_API_TOKEN=SECRET, RANK="3", WORLD_SIZE="8")


@pytest.fixture(scope="session")
def whole(core: Path) -> dict[str, Any]:
    return facts(core)


def test_a_core_is_explained(whole: dict[str, Any]) -> None:
    assert whole["signal"]["name"] == "SIGSEGV"
    assert whole["process"]["rank"] == 3
    assert len(whole["threads"]) == 3
    assert whole["diagnoses"]


def test_two_runs_give_the_same_bytes(core: Path) -> None:
    assert native(core, "--json").stdout == native(core, "--json").stdout


def test_a_name_that_is_no_utf_8(core: Path, tmp_path: Path) -> None:
    odd = tmp_path / os.fsdecode(b"b\xff.core")
    odd.symlink_to(core)
    assert native(odd, "--json").returncode == 1
    slim = tmp_path / os.fsdecode(b"b\xff.slim")
    assert run(odd, "--slim", slim).returncode == 0
    assert native(slim, "--json").returncode == 1


def test_json_without_gdb_imports_no_more_than_it_needs(core: Path) -> None:
    code = (
        "import sys; before = set(sys.modules);"
        "from postmortem.cli.main import main; code = main(sys.argv[1:]);"
        "print(code, *(name for name in sys.modules if name not in before), file=sys.stderr)"
    )
    words = ["core", str(core), "--engine", "native", "--json"]
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, timeout=60
    )
    ended, *modules = done.stderr.split()
    assert ended == "1"
    assert "postmortem.diagnose.rule" in modules
    forbidden = {
        "dataclasses",  # with inspect, ast, dis and tokenize: 12 ms
        "inspect",
        "tomllib",
        "shutil",
        "rich",
        "lief",
        "pygdbmi",
        "numpy",
        "tempfile",
        "subprocess",
        "postmortem.readers.gdb",
        "postmortem.readers.corefind",
        "postmortem.readers.elf",
        "postmortem.facts.machine",
        "postmortem.render.terminal",
        "postmortem.present.core.blocks",
    }
    assert not forbidden & set(modules)


# --- what is not a core


def elf_header(kind: int, machine: int, bits: int = 2, order: str = "<") -> bytes:
    ident = b"\x7fELF" + bytes([bits, 1 if order == "<" else 2, 1]) + bytes(9)
    fields = struct.pack(order + "HHIQQQIHHHHHH", kind, machine, 1, 0, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    note = struct.pack(order + "IIQQQQQQ", 4, 0, 120, 0, 0, 0, 0, 4)
    return ident + fields + note


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b"step 1 loss nan\n" * 100, "core"),
        (b"#!/bin/sh\nexit 1\n", "core"),
        (bytes(5000), "zeros"),
        (b"\x7fELF", "core"),
        (elf_header(3, 62), "core"),
        (elf_header(4, 243), "RISC-V"),
        (elf_header(4, 62, bits=1), "32-bit"),
        (gzip.compress(b"no core at all" * 100), "core"),
        (b"\x28\xb5\x2f\xfd" + b"\xff" * 40, "damaged"),
    ],
    ids=["empty", "log", "script", "zeros", "magic", "library", "riscv", "32bit", "gz", "zst"],
)
def test_what_is_not_a_core_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "given"
    path.write_bytes(content)
    line, _ = refused(run(path))
    assert str(path) in line
    assert words in line


def test_an_executable_is_refused_with_what_to_give_instead() -> None:
    line, hint = refused(run(sys.executable))
    assert "executable" in line + hint or "program" in line + hint
    assert "core" in hint


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    line, hint = refused(run(tmp_path / "core.1"))
    assert line.startswith(f"postmortem: {tmp_path / 'core.1'}:")
    assert str(tmp_path) in hint


_AS_NOBODY = """
import contextlib, io, os, sys
from postmortem.cli.main import main
words = ["core", sys.argv[1], "--engine", "native"]
with contextlib.redirect_stdout(io.StringIO()):
    main(words)  # what is imported late must be there before the rights are gone
os.chmod(sys.argv[1], 0)
os.setegid(65534)
os.seteuid(65534)
sys.exit(main(words))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can drop its rights")
def test_a_core_that_may_not_be_read_is_refused(core: Path, tmp_path: Path) -> None:
    copy = tmp_path / "core"
    shutil.copy(core, copy)
    command = [sys.executable, "-c", _AS_NOBODY, str(copy)]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=60)
    line, _ = refused(done)
    assert str(copy) in line
    assert "ermission" in line


def test_a_name_with_a_line_end_stays_one_line(tmp_path: Path) -> None:
    line, _ = refused(run(tmp_path / "core\nfake\x1b[31m"))
    assert "\x1b" not in line


# --- folders


def test_the_newest_core_of_a_folder_is_taken_and_named(core: Path, tmp_path: Path) -> None:
    for name, age in (("core.1", 100), ("core.2", 10)):
        os.link(core, tmp_path / f"{name}.link")
        shutil.copy(core, tmp_path / name)
        (tmp_path / f"{name}.link").unlink()
        stamp = time.time() - age
        os.utime(tmp_path / name, (stamp, stamp))
    (tmp_path / "train.log").write_text("not a core")
    report = facts(tmp_path)
    assert Path(report["inputs"][0]["path"]).name == "core.2"
    told = [row["what"] for row in report["problems"] if row["where"] == str(tmp_path)]
    assert any("core.2" in what for what in told)
    here = facts(cwd=tmp_path)
    assert Path(here["inputs"][0]["path"]).name == "core.2"


def test_a_folder_without_cores_is_refused(tmp_path: Path, prose: Prose) -> None:
    line, hint = refused(run(tmp_path))
    prose(line)
    assert hint
    assert refused(run(cwd=tmp_path))[0]


# --- cut and packed cores


def cut(core: Path, folder: Path, size: int) -> Path:
    path = folder / f"core.{size}"
    with core.open("rb") as whole:
        path.write_bytes(whole.read(size))
    return path


@pytest.mark.parametrize("share", [0.05, 0.5, 0.95])
def test_a_cut_core_is_reported_with_its_problem(
    core: Path, tmp_path: Path, whole: dict[str, Any], share: float
) -> None:
    report = facts(cut(core, tmp_path, int(core.stat().st_size * share)))
    assert report["inputs"][0]["truncated"]
    assert any("cut" in r["what"] or "bytes" in r["what"] for r in report["problems"])
    assert report["signal"]["name"] == "SIGSEGV"
    assert [t["tid"] for t in report["threads"]] == [t["tid"] for t in whole["threads"]]


@pytest.mark.parametrize("size", [20, 63, 64, 200, 1000])
def test_a_core_cut_in_its_headers_is_refused(core: Path, tmp_path: Path, size: int) -> None:
    """A report that knows no signal and no thread would only seem to say something."""
    path = cut(core, tmp_path, size)
    line, hint = refused(run(path))
    assert str(path) in line
    assert "cut" in line + hint or "too" in line


def packed(core: Path, kind: str) -> bytes:
    data = core.read_bytes()
    if kind == "gz":
        return gzip.compress(data, 1)
    if kind == "lz4":
        frame = pytest.importorskip("lz4.frame")
        return bytes(frame.compress(data))
    name = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
    try:
        return bytes(importlib.import_module(name).compress(data))
    except ImportError:
        pytest.skip("no zstd here")


@pytest.mark.parametrize("kind", ["gz", "lz4", "zst"])
def test_a_packed_core_says_the_same(
    core: Path, tmp_path: Path, whole: dict[str, Any], kind: str
) -> None:
    data = packed(core, kind)
    path = tmp_path / f"core.7.{kind}"
    path.write_bytes(data)
    report = facts(path)
    assert report["inputs"][0]["compression"] in (kind, "gzip", "zstd")
    for key in ("verdict", "signal", "threads", "diagnoses", "process"):
        assert report[key] == whole[key], key
    path.write_bytes(data[: len(data) * 3 // 4])
    report = facts(path)
    assert report["inputs"][0]["truncated"]
    assert report["problems"]
    assert report["signal"]["name"] == "SIGSEGV"
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]  # nothing left behind


# --- --python


def test_another_program_than_the_one_that_crashed(core: Path, whole: dict[str, Any]) -> None:
    other = shutil.which("true")
    assert other is not None
    report = facts(core, "--python", other)
    told = " ".join(row["where"] + row["what"] for row in report["problems"])
    module = next(m for m in whole["modules"] if m["path"] == whole["process"]["executable"])
    note = re.search(rb"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0(.{20})", Path(other).read_bytes(), re.S)
    if module["build_id"] and note is not None:
        assert module["build_id"] in told
        assert note[1].hex() in told
    assert os.path.realpath(other) in told
    assert report["signal"] == whole["signal"]
    assert len(report["threads"]) == len(whole["threads"])


def test_a_script_and_a_venv_lead_to_their_interpreter(
    core: Path, tmp_path: Path, whole: dict[str, Any]
) -> None:
    script = tmp_path / "torchrun"
    script.write_text(f"#!{sys.executable}\nprint()\n")
    link = tmp_path / "python"
    link.symlink_to(sys.executable)
    real = os.path.realpath(sys.executable)
    report = facts(core, "--python", script)
    (told,) = (r["what"] for r in report["problems"] if r["where"] == str(script))
    assert f" {real} " in told
    linked = facts(core, "--python", link)
    assert linked["threads"] == whole["threads"] == report["threads"]


def test_the_folder_of_a_venv_leads_to_its_interpreter(
    core: Path, tmp_path: Path, whole: dict[str, Any]
) -> None:
    venv = tmp_path / "venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").symlink_to(sys.executable)
    (venv / "pyvenv.cfg").write_text("home = /usr/bin\n")
    report = facts(core, "--python", venv)
    assert report["threads"] == whole["threads"]
    assert [r["where"] for r in report["problems"]] == [str(venv)]
    assert os.path.realpath(sys.executable) in report["problems"][0]["what"]


def test_a_missing_program_loses_nothing_else(core: Path, whole: dict[str, Any]) -> None:
    report = facts(core, "--python", "/nonexistent/python")
    (told,) = (r for r in report["problems"] if r["where"] == "/nonexistent/python")
    assert told["remedy"]
    assert report["threads"] == whole["threads"]


# --- --thread


def test_an_unknown_thread_is_refused_with_those_that_are_there(
    core: Path, whole: dict[str, Any]
) -> None:
    line, hint = refused(native(core, "--thread", 1))
    assert "no thread 1" in line
    assert all(str(thread["tid"]) in hint for thread in whole["threads"])


def test_the_stack_of_a_chosen_thread_comes_first(core: Path, whole: dict[str, Any]) -> None:
    crashed = whole["crashed_thread"]
    other = next(t["tid"] for t in whole["threads"] if not t["crashed"])
    done = native(core, "--thread", other)
    assert (done.returncode, done.stderr) == (1, "")
    titles = [
        line
        for line in done.stdout.splitlines()
        if line.startswith(("thread ", "crashed thread ", "main thread "))
    ]
    assert [str(tid) in titles[0] for tid in (other, crashed)] == [True, True]
    chosen = facts(core, "--thread", other)
    assert chosen["crashed_thread"] == crashed
    assert chosen["threads"] == whole["threads"]


@pytest.mark.parametrize(
    "words",
    [("--deadline", "0"), ("--deadline", "nan"), ("--thread", "main"), ("--engine", "lldb")],
)
def test_usage_errors(core: Path, words: tuple[str, str]) -> None:
    done = run(core, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert words[1] in done.stderr.splitlines()[-1]


def test_a_sysroot_that_is_not_there_is_told(core: Path, whole: dict[str, Any]) -> None:
    report = facts(core, "--sysroot", "/nonexistent/root")
    assert "/nonexistent/root" in [row["where"] for row in report["problems"]]
    assert report["signal"]["name"] == whole["signal"]["name"]


# --- what comes out


def test_output_goes_to_a_file(core: Path, tmp_path: Path) -> None:
    target = tmp_path / "report.json"
    done = native(core, "--json", "-o", target)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")
    assert json.loads(target.read_text())["signal"]["name"] == "SIGSEGV"
    assert native(core, "-o", core).returncode == 3
    assert core.read_bytes()[:4] == b"\x7fELF"


def test_an_output_that_cannot_be_written_is_told_in_one_line(core: Path, tmp_path: Path) -> None:
    for target in (tmp_path / "missing" / "report", tmp_path, Path("/proc/version")):
        done = native(core, "-o", target)
        assert done.stdout == ""
        assert done.returncode in (2, 3)
        assert str(target) in done.stderr.splitlines()[-1]
        assert "Traceback" not in done.stderr


def _on_a_terminal(core: Path, **env: str) -> bytes:
    """Return what the report is on a terminal of 100 columns."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    command = [sys.executable, "-m", "postmortem", "core", str(core), "--engine", "native"]
    ours = {"NO_COLOR", "FORCE_COLOR", "COLUMNS"}
    env = {k: v for k, v in ENVIRONMENT.items() if k not in ours} | {"TERM": "xterm"} | env
    with subprocess.Popen(command, stdout=follower, env=env) as process:
        os.close(follower)
        heard = bytearray()
        while True:
            try:
                part = os.read(leader, 1 << 16)
            except OSError:  # EIO: the other end is closed
                break
            if not part:
                break
            heard += part
    os.close(leader)
    assert process.returncode == 1
    return bytes(heard)


def test_a_terminal_gets_colours_unless_it_wants_none(core: Path) -> None:
    assert b"\x1b[" in _on_a_terminal(core)
    plain = _on_a_terminal(core, NO_COLOR="1")
    assert b"\x1b" not in plain
    assert b"SIGSEGV" in plain
    long = [line for line in plain.decode().splitlines() if len(line) > 100]
    assert all(len(max(line.split(), key=len)) > 40 for line in long)  # a path stays whole
    assert b"\x1b" not in _on_a_terminal(core, TERM="dumb")


def test_a_reader_that_leaves_early_is_no_error(core: Path) -> None:
    shell = f"'{sys.executable}' -m postmortem core '{core}' --engine native --json | head -1"
    done = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("{\n", "")


def test_a_narrow_report_keeps_to_its_width(core: Path) -> None:
    done = native(core, "--width", 40)
    assert done.returncode == 1
    # an address or a path that a user copies is never broken
    long = [line for line in done.stdout.splitlines() if len(line) > 40]
    assert all(len(max(line.split(), key=len)) > 20 for line in long), long


@pytest.mark.parametrize("form", [(), ("--json",), ("--markdown",), ("-v",)])
def test_secrets_are_masked_unless_wanted(core: Path, form: tuple[str, ...]) -> None:
    masked = native(core, *form).stdout
    assert masked
    assert SECRET not in masked
    assert ARGUMENT not in masked
    shown = native(core, *form, "--no-redact").stdout
    assert ARGUMENT in shown or not form  # the card has no command line
    if form == ("--json",):
        assert SECRET in shown


def test_exit_zero_is_for_pipelines(core: Path) -> None:
    assert native(core, "--exit-zero").returncode == 0


# --- many threads


def test_equal_threads_are_one_group(tmp_path: Path) -> None:
    text = (
        "import os, threading, time\n"
        "gate = threading.Barrier(251)\n"
        "stop = threading.Event()\n"
        "def work():\n    gate.wait()\n    stop.wait()\n"
        "for _ in range(250): threading.Thread(target=work, daemon=True).start()\n"
        "gate.wait()\n"
        "while len(stop._cond._waiters) < 250: time.sleep(0.01)\n"
        "time.sleep(0.5)\n"  # the last of them still has to wait for its lock
        "os.abort()\n"
    )
    core = crash_in(tmp_path, [sys.executable, "-c", text])
    report = facts(core)
    assert len(report["threads"]) == 251
    assert report["signal"]["name"] == "SIGABRT"
    assert all(thread["frames"] for thread in report["threads"])
    waiting = [t for t in report["threads"] if any(f["function"] == "work" for f in t["frames"])]
    assert len(waiting) == 250
    assert len(native(core).stdout.splitlines()) <= 15
    lines = native(core, "-v").stdout.splitlines()
    assert len(lines) < 500  # not 251 stacks
    assert any("250" in line and "threads" in line for line in lines)
