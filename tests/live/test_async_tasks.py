"""Tasks of asyncio in live processes and in cores: who awaits what, at which line."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from builders.commands import call, report

pytestmark = pytest.mark.cores
PROGRAM = Path(__file__).parents[1] / "programs" / "hang" / "event_loop.py"
_ASK = "import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))"


def interpreters() -> list[str]:
    """Return this interpreter and others whose tasks are read, one of each version."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [sys.executable]
    for minor in (11, 12, 13, 14):
        found += [str(path) for path in sorted(versions.glob(f"3.{minor}.*/bin/python"))[:1]]
        if system := shutil.which(f"python3.{minor}", path="/usr/bin:/usr/local/bin"):
            found.append(system)
    return [
        path for path in found if subprocess.run([path, "-c", _ASK], check=False).returncode == 0
    ]


@pytest.fixture(scope="module", params=interpreters())
def process(request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen([request.param, PROGRAM], stderr=subprocess.PIPE, text=True) as child:
        assert child.stderr is not None
        try:
            assert child.stderr.readline() == "ready\n"
            yield child
        finally:
            child.kill()


def line_of(text: str) -> int:
    """The line of the program that has a text."""
    rows = PROGRAM.read_text().splitlines()
    return next(number for number, row in enumerate(rows, 1) if text in row)


def check(tasks: list[dict[str, Any]], pid: int) -> None:
    """Hold the tasks against the program: names, own lines, and who awaits whom."""
    assert {task["tid"] for task in tasks} == {pid}
    assert not any(task["running"] for task in tasks)
    by_name = {task["name"]: task for task in tasks}
    auto = {name for name in by_name if name.startswith("Task-")}
    saver = (auto - {"Task-1"}).pop()
    assert by_name.keys() == {"Task-1", "consumer", "trainer", "sleeper", "watcher", saver}

    def own(name: str) -> list[int]:
        return [f["line"] for f in by_name[name]["frames"] if f["file"] == str(PROGRAM)]

    assert own("trainer") == [line_of("yield await queue.get()"), line_of("async for _")]
    assert own("consumer") == [line_of("return await Ready(queue)")]
    assert own(saver) == [line_of("async with lock")]
    assert own("Task-1") == [line_of("await asyncio.gather(")]
    assert by_name["consumer"]["frames"][0]["function"] == "Queue.get"
    assert by_name[saver]["frames"][0]["function"] == "Lock.acquire"
    assert sorted(by_name["Task-1"]["waits_for"]) == sorted(by_name.keys() - {"Task-1"})
    assert by_name["watcher"]["waits_for"] == ["consumer"]
    assert by_name["sleeper"]["waits_on"] == "Future"


def test_in_a_live_process(process: subprocess.Popen[str]) -> None:
    found = report("hang", process.pid, "--engine", "native")
    (one,) = found["processes"]
    check(one["async_tasks"], process.pid)
    assert " 6 tasks" in one["threads"][0]["does"]


def test_in_a_core_and_in_a_slim_one(process: subprocess.Popen[str], tmp_path: Path) -> None:
    gcore = shutil.which("gcore")
    if gcore is None:
        pytest.skip("no gcore here")
    command = [gcore, "-o", str(tmp_path / "core"), str(process.pid)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    core = tmp_path / f"core.{process.pid}"
    if not core.exists():
        pytest.skip(f"gcore: {done.stderr[-200:]}")
    check(report("core", core, "--engine", "native")["async_tasks"], process.pid)
    slim = tmp_path / "slim"
    call("core", core, "--slim", slim, check=True)
    check(report("core", slim, "--engine", "native")["async_tasks"], process.pid)


def test_a_task_that_computes(tmp_path: Path) -> None:
    program = tmp_path / "busy.py"
    program.write_text(
        "import asyncio\n"
        "async def spin():\n"
        "    print('ready', flush=True)\n"
        "    while True: pass\n"
        "async def main():\n"
        "    await asyncio.create_task(spin(), name='spinner')\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen([sys.executable, program], stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            found = report("hang", child.pid, "--engine", "native")
        finally:
            child.kill()
    (one,) = found["processes"]
    tasks = {task["name"]: task for task in one["async_tasks"]}
    assert {name: task["running"] for name, task in tasks.items()} == {
        "Task-1": False,
        "spinner": True,
    }
    assert tasks["Task-1"]["waits_for"] == ["spinner"]
    assert " tasks" not in one["threads"][0]["does"]


_STUCK = """\
import asyncio
async def main():
    lock = asyncio.Lock()
    await lock.acquire()
    loop = asyncio.get_running_loop()
    loop.call_later(0.2, lambda: print('ready', flush=True))
    if OUTSIDE: loop.add_reader(0, print)
    await lock.acquire()
asyncio.run(main())
"""


@pytest.mark.parametrize("outside", [False, True])
@pytest.mark.parametrize("interpreter", interpreters())
def test_a_lock_that_nothing_can_release(interpreter: str, outside: bool, tmp_path: Path) -> None:
    gcore = shutil.which("gcore")
    if gcore is None:
        pytest.skip("no gcore here")
    program = tmp_path / "stuck.py"
    program.write_text(_STUCK.replace("OUTSIDE", str(outside)))
    command = [interpreter, program]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            core = tmp_path / f"core.{child.pid}"
            save = [gcore, "-o", str(tmp_path / "core"), str(child.pid)]
            subprocess.run(save, capture_output=True, check=False)
        finally:
            child.kill()
    if not core.exists():
        pytest.skip("gcore wrote none")
    found = {one["id"] for one in report("core", core, "--engine", "native")["diagnoses"]}
    assert ("deadlock" in found) is not outside
