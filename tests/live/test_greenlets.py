"""Greenlets that are switched out, in live processes and in cores: who waits where."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from builders.commands import call, report

pytestmark = pytest.mark.cores
PROGRAMS = Path(__file__).parents[1] / "programs" / "hang"
NATIVE = ("--engine", "native")
Start = Callable[[str], subprocess.Popen[str]]


def interpreters() -> list[str]:
    """Return this interpreter, and those that are named as having greenlet (and gevent)."""
    return [sys.executable, *os.environ.get("POSTMORTEM_GREENLET_PYTHONS", "").split()]


@pytest.fixture(params=interpreters())
def start(request: pytest.FixtureRequest) -> Iterator[Start]:
    """Return `start(program)`: a process that is ready; skipped where it lacks a library."""
    running: list[subprocess.Popen[str]] = []

    def go(program: str) -> subprocess.Popen[str]:
        command = [request.param, PROGRAMS / program]
        child = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        running.append(child)
        assert child.stderr is not None
        if (said := child.stderr.readline()) != "ready\n":
            said += child.stderr.read()
            assert "ModuleNotFoundError" in said, said
            pytest.skip(said.strip().rpartition("\n")[2])
        return child

    yield go
    for child in running:
        child.kill()
        child.wait()
        assert child.stderr is not None
        child.stderr.close()


def line_of(program: str, text: str) -> int:
    """The line of a program that has a text."""
    rows = (PROGRAMS / program).read_text().splitlines()
    return next(number for number, row in enumerate(rows, 1) if text in row)


def check(greenlets: list[dict[str, Any]], pid: int) -> None:
    """Hold them against the program: none that runs, has ended or not begun is there."""
    assert {(one["type"], one["tid"]) for one in greenlets} == {("greenlet", pid)}
    main, fetcher, loser = greenlets
    assert [one["main"] for one in greenlets] == [True, False, False]
    assert [one["name"] for one in greenlets] == [None, None, "loser"]
    assert [(f["function"], f["line"]) for f in main["frames"]] == [
        ("<module>", line_of("greenlets.py", "here.switch()  # "))
    ]
    assert [f["function"] for f in fetcher["frames"]] == ["wait", *["fetch"] * 4]
    assert fetcher["frames"][1]["line"] == line_of("greenlets.py", "list(map(wait")
    assert [f["function"] for f in loser["frames"]] == ["lose"]


def test_in_a_live_process(start: Start) -> None:
    process = start("greenlets.py")
    found = report("hang", process.pid, *NATIVE)
    check(found["processes"][0]["greenlets"], process.pid)
    assert not [one for one in found["problems"] if "greenlet" in one["where"]]


def test_in_a_core(start: Start, tmp_path: Path) -> None:
    gcore = shutil.which("gcore")
    if gcore is None:
        pytest.skip("no gcore here")
    process = start("greenlets.py")
    command = [gcore, "-o", str(tmp_path / "core"), str(process.pid)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    core = tmp_path / f"core.{process.pid}"
    if not core.exists():
        pytest.skip(f"gcore: {done.stderr[-200:]}")
    check(report("core", core, *NATIVE)["greenlets"], process.pid)
    slim = tmp_path / "slim"
    call("core", core, "--slim", slim, check=True)
    found = report("core", slim, *NATIVE)
    assert found["greenlets"] == []
    assert any(one["where"] == "greenlets" for one in found["problems"])


def test_in_the_hub_of_gevent(start: Start) -> None:
    process = start("gevent_hub.py")
    (one,) = report("hang", process.pid, *NATIVE)["processes"]
    main, *others = one["greenlets"]
    assert main["main"]
    assert main["frames"][0]["line"] == line_of("gevent_hub.py", "gevent.joinall(")
    stand = {tuple(f["function"].rpartition(".")[2] for f in g["frames"]) for g in others}
    assert stand == {("wait",), ("take",), ("recv", "read"), ("sleep", "doze")}
    assert sum(g["frames"][-1]["function"] == "doze" for g in others) == 20
    assert [g["name"] for g in others].count("waiter") == 1
    assert {g["tid"] for g in others} == {process.pid}
    assert " 24 greenlets" in one["threads"][0]["does"]
