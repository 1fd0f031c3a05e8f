"""Commands in a process of their own, and the crashes that ``postmortem core`` is given."""

import contextlib
import importlib
import io
import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from builders.schema import validate
from postmortem.cli.main import main
from postmortem.facts.inventory import Reading, Result
from postmortem.readers.own_reports import own_report
from postmortem.readers.side_by_side import _complaint

PROGRAMS = Path(__file__).parents[1] / "programs"
SECRET = "s3cr3t-Zx81-kq97-veryprivate"
ARGUMENT = "hunter2-Qm55-Xy-alsoprivate"
# A relative PYTHONPATH would not hold in another working folder.
ROOT = Path(importlib.import_module("postmortem").__file__ or "").absolute().parents[1]


def environment() -> dict[str, str]:
    """Return the variables of now, in which this postmortem is found, and no gdb of the user's."""
    now = {name: value for name, value in os.environ.items() if name != "POSTMORTEM_GDB"}
    return now | {"PYTHONPATH": str(ROOT)}


ENVIRONMENT = environment()


def call(*words: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a whole command line in a process of its own."""
    command = [sys.executable, "-m", "postmortem", *map(str, words)]
    given = {"env": environment(), "timeout": 120, **options}
    return subprocess.run(command, capture_output=True, text=True, **given)


def report(*words: object, **options: Any) -> dict[str, Any]:
    """Return the report of a command line as JSON, which has the schema."""
    done = call(*words, "--json", **options)
    assert done.stdout, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    validate(document)
    assert done.returncode == (document["outcome"] == "failed"), document["verdict"]
    return document


def run(*words: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run ``postmortem core`` in a process of its own."""
    return call("core", *words, **options)


def run_here(*words: object) -> subprocess.CompletedProcess[str]:
    """Run a whole command line in this process: what it takes to start another proves nothing.

    That a new process has all modules that it needs is what the tests with `run` are for.
    """
    command = list(map(str, words))
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", newline="") for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(command)
    for stream in (out, err):
        stream.seek(0)
    return subprocess.CompletedProcess(command, code, out.read(), err.read())


def read_here(reading: Reading) -> Result:
    """Read one kind of evidence as its child does, which `triage` starts."""
    done = run_here(*reading.words, "--json")
    if done.returncode in (0, 1):
        return Result(reading, own_report(done.stdout.encode(), reading.paths[0]), None)
    return Result(reading, None, _complaint(done.stderr.encode()))


def native(*words: object, **options: Any) -> subprocess.CompletedProcess[str]:
    return run(*words, "--engine", "native", **options)


def facts(*words: object, code: int = 1, **options: Any) -> dict[str, Any]:
    """Return the JSON report, made without gdb."""
    done = native(*words, "--json", **options)
    assert (done.returncode, done.stderr) == (code, "")
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def refused(done: subprocess.CompletedProcess[str]) -> tuple[str, str]:
    """Check that an input was refused as the contract says; return the line and the hint."""
    assert (done.returncode, done.stdout) == (3, "")
    lines = done.stderr.splitlines()
    assert 1 <= len(lines) <= 2, done.stderr
    assert lines[0].startswith("postmortem: ")
    hint = lines[1] if len(lines) == 2 else ""
    assert not hint or hint.startswith("hint: ")
    return lines[0], hint


def allow_cores() -> None:
    """Raise this process's limit on core sizes, as ``ulimit -c unlimited`` does."""
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))


def crash_in(folder: Path, command: list[str], *, filtered: str | None = None, **env: str) -> Path:
    """Run a program that crashes and return its core; `filtered` is its coredump_filter."""
    folder.mkdir(parents=True, exist_ok=True)

    def prepare() -> None:
        allow_cores()
        if filtered is not None:
            Path("/proc/self/coredump_filter").write_text(filtered)

    done = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | env,
        preexec_fn=prepare,
        capture_output=True,
        timeout=120,
    )
    assert done.returncode < 0, done.stderr
    cores = sorted(folder.glob("core*"))
    if not cores:
        pytest.skip("this kernel leaves no core files in the working folder")
    return cores[0]


def script(path: Path, text: str, interpreter: str = "/bin/sh") -> Path:
    """Write a program that the kernel starts with an interpreter."""
    path.write_text(f"#!{interpreter}\n{text}")
    path.chmod(0o755)
    return path
