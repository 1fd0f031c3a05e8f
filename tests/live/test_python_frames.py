"""Python frames, names, values and exceptions of real cores, compared with what Python said."""

import json
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from builders.prose import Prose
from live.conftest import CrashedProcess
from postmortem import _native
from postmortem.facts.threads import Frame, Trust
from postmortem.readers.python_frames import place_python, python_frames

pytestmark = pytest.mark.cores
PROGRAM = Path(__file__).parents[1] / "programs" / "python_stacks.py"
EVALUATOR = "_PyEval_EvalFrameDefault"
Crash = Callable[..., CrashedProcess]


def interpreters() -> list[str]:
    """Return this interpreter, one of every other version, and those of the distribution.

    A distribution's interpreter is stripped, and often has no library of its own.
    """
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = {f"{sys.version_info[0]}.{sys.version_info[1]}": sys.executable}
    for minor in range(8, 15):
        for path in (*sorted(versions.glob(f"3.{minor}.*/bin/python")),):
            found.setdefault(f"3.{minor}", str(path))
        if system := shutil.which(f"python3.{minor}", path="/usr/bin:/usr/local/bin"):
            found[system] = system
    return list(found.values())


def interpreter(version: str) -> str:
    """Return an interpreter of the version that runs here, or skip the test."""
    for path in interpreters():
        code = "import sys; print('%d.%d' % sys.version_info[:2])"
        done = subprocess.run([path, "-c", code], capture_output=True, text=True, check=False)
        if done.stdout.strip() == version:
            return path
    pytest.skip(f"no Python {version} here")


@pytest.fixture(scope="module", params=interpreters(), ids=lambda path: Path(path).parents[1].name)
def crashed(request: pytest.FixtureRequest, crash_for_all: Crash) -> CrashedProcess:
    return crash_for_all([request.param, PROGRAM])


def told_by(process: CrashedProcess) -> Any:
    line = next(row for row in process.output.splitlines() if row.startswith('{"version"'))
    return json.loads(line)


def by_tid(core: Any) -> dict[int, Any]:
    return {thread["tid"]: thread for thread in core["python"]["threads"]}


def rows(thread: Any) -> list[tuple[str, str, int]]:
    return [(f["function"], f["file"], f["line"]) for f in thread["frames"]]


def test_everything_is_as_python_said(crashed: CrashedProcess) -> None:
    told = told_by(crashed)
    core = _native.read_core(str(crashed.core), python_locals=True)
    python = core["python"]
    assert python is not None
    assert python["version"] == told["version"].rstrip("+")
    # ctypes.string_at() calls through PyDLL, which keeps the GIL.
    assert python["gil_holder"] == crashed.pid
    threads = by_tid(core)
    assert {t["tid"]: t["name"] for t in told["threads"]} == {
        tid: thread["name"] for tid, thread in threads.items()
    }
    for expected in told["threads"]:
        frames = [tuple(row) for row in expected["frames"]]
        ours = rows(threads[expected["tid"]])
        if expected["tid"] == crashed.pid:
            # Said inside tell(), a line before the crash.
            frames = frames[1:]
            frames[0] = (*frames[0][:2], frames[0][2] + 1)
            assert ours.pop(0)[0] == "string_at"
        assert ours == frames


def test_values_of_variables(crashed: CrashedProcess) -> None:
    told = told_by(crashed)
    core = _native.read_core(str(crashed.core), stacks=False, python_locals=True)
    frame = next(f for f in by_tid(core)[crashed.pid]["frames"] if f["function"] == "crash")
    values = dict(frame["locals"])
    assert {name: values.get(name) for name in told["locals"]} == told["locals"]
    assert values["inner"].startswith("<function at 0x")
    plain = _native.read_core(str(crashed.core), stacks=False)
    assert all(not f["locals"] for t in plain["python"]["threads"] for f in t["frames"])


def test_exception_being_handled(crashed: CrashedProcess) -> None:
    core = _native.read_core(str(crashed.core), stacks=False)
    thread = next(t for t in core["python"]["threads"] if t["name"] == "handles")
    source = PROGRAM.read_text(encoding="utf-8").splitlines()
    line = next(n for n, text in enumerate(source, 1) if "raise DataError(" in text)
    assert thread["raised"] is None
    assert thread["handled"] == {
        "type": "DataError",
        "message": "corrupt record at offset 8812",
        "traceback": ({"file": str(PROGRAM), "line": line, "function": "handles"},),
        "traceback_skipped": 0,
        "chain": (
            {
                "relation": "cause",
                "type": "FileNotFoundError",
                "message": "[Errno 2] No such file or directory: '/nonexistent/données.bin'",
            },
        ),
    }
    others = {t["name"]: t["handled"] for t in core["python"]["threads"] if t != thread}
    main = others.pop("MainThread")
    assert (main["type"], main["message"]) == ("ZeroDivisionError", "division by zero")
    assert set(others.values()) == {None}


@pytest.mark.parametrize("path", interpreters(), ids=lambda path: Path(path).parents[1].name)
def test_exception_on_its_way(crash: Crash, path: str) -> None:
    program = PROGRAM.with_name("python_raising.py")
    process = crash([path, program])
    (thread,) = _native.read_core(str(process.core), stacks=False)["python"]["threads"]
    assert thread["handled"] is None
    raised = thread["raised"]
    assert (raised["type"], raised["message"]) == ("LostError", "('shard', 3)")
    source = program.read_text(encoding="utf-8").splitlines()
    assert [(row["function"], source[row["line"] - 1].strip()) for row in raised["traceback"]] == [
        ("step", "return [make(1, None, ABORT), fail()]"),
        ("fail", 'raise LostError("shard", 3)'),
    ]


def test_a_forked_child(crash: Crash) -> None:
    # 3.11 keeps the parent's id of the thread in the child.
    code = (
        "import ctypes, os, threading, time\n"
        "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
        "parent = os.getpid()\n"
        "child = os.fork()\n"
        "if child == 0: os.abort()\n"
        "os.waitpid(child, 0)\n"
        "os._exit(0)\n"
    )
    process = crash([sys.executable, "-c", code])
    core = _native.read_core(str(process.core))
    (thread,) = core["python"]["threads"]
    assert thread["tid"] == core["threads"][0]["tid"] != process.pid
    assert thread["name"] == "MainThread"
    assert rows(thread) == [("<module>", "<string>", 5)]


def test_the_interpreters_library_is_not_needed(crashed: CrashedProcess) -> None:
    whole = _native.read_core(str(crashed.core), stacks=False)["python"]
    alone = _native.read_core(str(crashed.core), stacks=False, sysroot="/nonexistent")["python"]
    assert alone == whole


@pytest.mark.parametrize("percent", [99, 97, 90, 70, 40])
def test_a_core_cut_off_says_nothing_wrong(
    crashed: CrashedProcess, tmp_path: Path, percent: int
) -> None:
    """What is still said of a frame is what the whole core says of it, or that it is unknown."""
    whole = by_tid(_native.read_core(str(crashed.core), stacks=False))
    data = crashed.core.read_bytes()
    cut = tmp_path / "cut"
    cut.write_bytes(data[: len(data) * percent // 100])
    core = _native.read_core(str(cut), stacks=False)
    problems = {problem["what"] for problem in core["problems"]}
    if core["python"] is None:
        assert any("Python stacks" in what for what in problems)
        return
    for thread in core["python"]["threads"]:
        if thread["tid"] is None:  # what tells it apart is in what is lost
            continue
        expected = whole[thread["tid"]]
        assert thread["name"] in (expected["name"], None)
        for ours, theirs in zip(thread["frames"], expected["frames"], strict=False):
            # Since 3.12 it is a mark on the C stack, which may be what is lost.
            last = thread["stopped"] and ours is thread["frames"][-1]
            assert ours["evaluators"] == theirs["evaluators"] or last
            assert ours["function"] in (theirs["function"], theirs["function"].split(".")[-1], "??")
            assert ours["file"] in (theirs["file"], None)
            assert ours["line"] in (theirs["line"], None)
        if len(thread["frames"]) != len(expected["frames"]):
            assert thread["stopped"]


@pytest.mark.parametrize("max_frames", [4096, 100])
def test_merged_with_the_native_stack(crashed: CrashedProcess, max_frames: int) -> None:
    core = _native.read_core(str(crashed.core), max_frames=max_frames)
    threads = by_tid(core)
    merged_threads = 0
    for thread in core["threads"]:
        native = tuple(
            Frame(f["function"] or "??", pc=f["pc"], trust=Trust(f["trust"]))
            for f in thread["frames"]
        )
        if thread["stopped"] or all(EVALUATOR not in f.function for f in native):
            continue
        python = threads[thread["tid"]]
        frames = python_frames(python)
        gap = thread["skipped_at"]
        placed = place_python(native, frames, idle=python["idle_evaluators"], skipped_at=gap)
        merged_threads += 1
        assert placed.unplaced == 0
        assert [f.function for f in placed.frames if f.kind == "python"] == [
            f.function for f in frames
        ]
        assert tuple(f for f in placed.frames if f.kind == "native") == native
        # Behind each run of Python frames stands the evaluator that runs them.
        pairs = enumerate(zip(placed.frames, placed.frames[1:], strict=False), 1)
        ends = [
            after.function
            for index, (before, after) in pairs
            if (before.kind, after.kind) == ("python", "native") and index != placed.skipped_at
        ]
        assert ends
        assert all(EVALUATOR in name for name in ends)
    assert merged_threads >= 1


def test_a_destructor_runs_while_a_frame_is_left(crash: Crash) -> None:
    # 3.12 and later: the evaluator of the frame that is left runs none by then.
    process = crash([interpreter("3.12"), PROGRAM.with_name("python_destructor.py")])
    core = _native.read_core(str(process.core))
    (python,) = core["python"]["threads"]
    evaluators = [f["function"] for f in core["threads"][0]["frames"]].count(EVALUATOR)
    assert [f["evaluators"] for f in python["frames"]] == [0, 2, 0, 1]
    assert evaluators == 3
    assert python["handled"]["message"] == "(1, 'two')"
    assert python["handled"]["chain"][0]["relation"] == "context"


def test_recursion_deeper_than_what_is_shown(crash: Crash) -> None:
    code = (
        "import sys, threading, os, signal\n"
        "sys.setrecursionlimit(100000)\n"
        "threading.stack_size(512 * 1024 * 1024)\n"
        "def down(n): os.abort() if n == 0 else down(n - 1)\n"
        "threading.Thread(target=down, args=(3000,), name='deep').start()\n"
    )
    process = crash([sys.executable, "-c", code])
    core = _native.read_core(str(process.core))
    deep = next(t for t in core["python"]["threads"] if t["name"] == "deep")
    assert len(deep["frames"]) == 2048
    assert deep["skipped"] == 3001 + 3 - 2048
    assert deep["skipped_at"] == 1024
    assert rows(deep)[-1][0].endswith("_bootstrap")


def _patched_offsets(process: CrashedProcess, to: Path, change: Callable[[list[int]], None]) -> Any:
    """Return what is read of a 3.13 core whose published offsets were changed."""
    data = bytearray(process.core.read_bytes())
    at = data.index(b"xdebugpy\xf0\x00\x0d\x03"[:8] + struct.pack("<Q", 0x030D00F0))
    words = list(struct.unpack_from("<1024Q", data, at))
    change(words)
    struct.pack_into("<1024Q", data, at, *words)
    to.write_bytes(data)
    return _native.read_core(str(to), stacks=False)


@pytest.fixture(scope="module")
def crashed_313(crash_for_all: Crash) -> CrashedProcess:
    process = crash_for_all([interpreter("3.13"), PROGRAM])
    if json.loads(process.output.splitlines()[0])["version"] != "3.13.0":
        pytest.skip("not the patch level that the test knows")
    return process


@pytest.mark.parametrize(
    ("index", "value"),
    [
        (2, 1),  # the heads of its objects are those of a build with a GIL
        (1, 0x031000A3),
        (1, 0x030E00B2),
        (30, 1 << 40),
    ],
)
def test_refused_politely(
    crashed_313: CrashedProcess, tmp_path: Path, index: int, value: int, prose: Prose
) -> None:
    core = _patched_offsets(
        crashed_313, tmp_path / "core", lambda words: words.__setitem__(index, value)
    )
    assert core["python"] is None
    prose(*(p["what"] for p in core["problems"]))


def test_offsets_in_the_order_of_3_14(crashed_313: CrashedProcess, tmp_path: Path) -> None:
    """The fields that 3.14 put in between are skipped; all else is 3.13's."""

    def reorder(words: list[int]) -> None:
        head = words[words[5] // 8]
        # Groups of 3.13 in words: header and runtime 6, interpreter 13, thread 9, frame 6, code
        # 10, object 2, type 4, tuple 3, list 3; then dict and the rest.
        cuts = [6, 10, 19, 28, 34, 44, 56, 75]
        parts = [words[a:b] for a, b in zip([0, *cuts], cuts, strict=False)]
        junk = [0x1234]
        new = [
            *parts[0],
            *parts[1],
            *junk,  # threads_main
            *parts[2],
            *(junk * 2),  # code_object_generation, tlbc_generation
            *parts[3],
            *parts[4],
            *(junk * 2),  # stackpointer, tlbc_index
            *parts[5],
            *junk,  # co_tlbc
            *parts[6],
            200,
            24,
            *(junk * 2),  # set object
            *parts[7],
        ]
        new[1] = 0x030E00F0
        # The longer list covers the head of the interpreters: keep that further on.
        new[5] = 8 * 1000
        words[: len(new)] = new
        words[1000] = head

    plain = _native.read_core(str(crashed_313.core), stacks=False)["python"]
    core = _patched_offsets(crashed_313, tmp_path / "core", reorder)
    assert core["python"] is not None
    assert core["python"]["version"] == "3.14.0"
    for ours, theirs in zip(core["python"]["threads"], plain["threads"], strict=True):
        assert rows(ours) == rows(theirs)
        assert ours["handled"] == theirs["handled"]
        assert ours["holds_gil"] == theirs["holds_gil"]
        assert ours["name"] == theirs["name"]


def test_threads_in_one_place_share_their_rows(crash: Crash) -> None:
    """What is made of rows is made once for each object: 250 workers cost as much as one."""
    program = (
        "import os, threading\n"
        "end, _ = os.pipe()\n"
        "def waits(): os.read(end, 1)\n"
        "def reads(tid):\n"
        "    with open(f'/proc/self/task/{tid}/syscall') as file:\n"
        "        return file.read().startswith(('0 ', '63 '))\n"
        "threads = [threading.Thread(target=waits, daemon=True) for _ in range(4)]\n"
        "for thread in threads: thread.start()\n"
        "while not all(reads(thread.native_id) for thread in threads): pass\n"
        "os.abort()\n"
    )
    core = _native.read_core(str(crash([sys.executable, "-c", program]).core))
    native = [thread["frames"] for thread in core["threads"]]
    python = [thread["frames"] for thread in core["python"]["threads"]]
    for stacks in (native, python):
        assert len(stacks) == 5
        assert len({id(rows) for rows in stacks}) == 2
        assert [a is b for a in stacks for b in stacks] == [a == b for a in stacks for b in stacks]
    outermost = {
        id(rows[-1]) for rows in native if rows[-1]["function"] == native[1][-1]["function"]
    }
    assert len(outermost) == 1
