"""gdb on real crashes: every test runs with the system's gdb and with the one of the wheel."""

import os
import platform
import shutil
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from postmortem.errors import DebuggerError
from postmortem.facts.threads import Frame
from postmortem.readers.gdb.find import Gdb, find_gdb
from postmortem.readers.gdb.merge import merge_stack
from postmortem.readers.gdb.stacks import GdbStacks, GdbThread, read_stacks

pytestmark = [pytest.mark.gdb, pytest.mark.cores]

Crash = Callable[..., Any]
Compiled = Callable[..., Path]
LineOf = Callable[[str, str], int]


def _system_gdb() -> Gdb:
    # In an activated environment the first gdb on PATH is the wheel's.
    scripts = sysconfig.get_path("scripts")
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", os.pathsep.join(part for part in folders if part != scripts))
        patch.setattr("importlib.util.find_spec", lambda name: None)
        return find_gdb()


def _wheel_gdb(empty: Path) -> Gdb:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(empty))
        patch.delenv("POSTMORTEM_GDB", raising=False)
        return find_gdb()


@pytest.fixture(scope="module", params=["system", "wheel"])
def gdb(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Gdb:
    try:
        if request.param == "system":
            return _system_gdb()
        return _wheel_gdb(tmp_path_factory.mktemp("empty"))
    except DebuggerError as error:
        pytest.skip(f"no {request.param} gdb: {error.what}")


@pytest.fixture
def library(compiled: Compiled) -> Path:
    # Every character that means something in a regular expression, and a blank.
    name = "odd +(a|b)[1]{2}^.$ folder/lib*waiting++.so"
    return compiled("waiting.cpp", "-g", "-O1", "-shared", "-fPIC", to=name)


@pytest.fixture
def program(compiled: Compiled, library: Path) -> Path:
    rpath = f"-Wl,-rpath,{library.parent}".replace("$", "\\$")
    flags = ("-g", "-O2", "-pthread", str(library), rpath)
    return compiled("inlined_threads.cpp", *flags, to="a program")


def read(core: Path, gdb: Gdb, executable: Path | str | None, **options: Any) -> GdbStacks:
    asked: dict[str, Any] = {
        "load": None,
        "sysroot": None,
        "pcs": {},
        "tid": None,
        "with_locals": False,
        "deadline_seconds": 60,
    }
    path = None if executable is None else str(executable)
    return read_stacks(str(core), gdb=gdb, executable=path, **(asked | options))


def crash_program(crash: Crash, program: Path, library: Path) -> Any:
    # LD_LIBRARY_PATH: the loader reads "$" in a run path as the start of a token.
    return crash([program], LD_LIBRARY_PATH=str(library.parent))


def mapped(dead: Any) -> dict[str, int]:
    """Return the load addresses of all files that the program had mapped, out of its own words."""
    return {
        line.split(maxsplit=5)[5]: int(line.partition("-")[0], 16)
        for line in dead.output.splitlines()
        if " 00000000 " in line
    }


def named(thread: GdbThread, name: str) -> Frame:
    return next(f for f in thread.frames if f.function.partition("(")[0].partition("<")[0] == name)


def test_crash_has_lines_arguments_inlined_frames_and_the_instruction(
    gdb: Gdb, crash: Crash, program: Path, library: Path, line_of: LineOf
) -> None:
    dead = crash_program(crash, program, library)
    assert "about to store 147 at address 0" in dead.output
    stacks = read(dead.core, gdb, program)
    assert stacks.complete
    assert stacks.problems == ()
    crashed = stacks.threads[0]
    assert (crashed.current, crashed.tid, crashed.stopped) == (True, dead.pid, None)
    source = "inlined_threads.cpp"
    top = crashed.frames[:3]
    assert [frame.function.partition("(")[0] for frame in top] == [
        "store_at<int>",
        "write_sample",
        "train_step",
    ]
    assert [frame.inlined for frame in top] == [True, True, False]
    assert [frame.line for frame in top] == [
        line_of(source, mark) for mark in ("store", "write_sample", "train_step")
    ]
    assert all(frame.file is not None and frame.file.endswith(source) for frame in top)
    assert top[2].function == "train_step(int, Batch const&, int*)"
    assert dict(top[2].arguments)["step"] == "21"
    assert dict(top[2].arguments)["target"] == "0x0"
    assert dict(top[0].arguments)["value"] == "147"
    assert named(crashed, "main").line == line_of(source, "main")
    assert {frame.module for frame in top} == {str(program)}
    assert stacks.instruction_text is not None
    assert "mov" in stacks.instruction_text


def test_tail_call_is_marked_as_having_no_frame(
    gdb: Gdb, crash: Crash, program: Path, library: Path
) -> None:
    dead = crash_program(crash, program, library)
    assert named(read(dead.core, gdb, program).threads[0], "train").tail_call


def test_all_threads_are_there_and_one_can_be_asked_for(
    gdb: Gdb, crash: Crash, program: Path, library: Path, line_of: LineOf
) -> None:
    dead = crash_program(crash, program, library)
    stacks = read(dead.core, gdb, program)
    assert len(stacks.threads) == 4
    for thread in stacks.threads[1:]:
        waiting = named(thread, "wait_for_ever")
        assert waiting.line == line_of("waiting.cpp", "wait")
        assert waiting.module == str(library)
        assert thread.frames[-1].function == "clone3"
    wanted = stacks.threads[2].tid
    only = read(dead.core, gdb, program, tid=wanted)
    assert [thread.tid for thread in only.threads] == [wanted]
    assert only.threads[0].frames == stacks.threads[2].frames
    assert only.instruction_text == stacks.instruction_text


def test_locals_come_only_when_asked_for(
    gdb: Gdb, crash: Crash, program: Path, library: Path
) -> None:
    dead = crash_program(crash, program, library)
    without = read(dead.core, gdb, program).threads[0]
    assert all(frame.locals == () for frame in without.frames)
    with_locals = read(dead.core, gdb, program, with_locals=True).threads[0]
    assert dict(named(with_locals, "train_step").locals)["doubled"] == "42"
    assert "size = 7" in dict(named(with_locals, "main").locals)["batch"]
    assert dict(named(with_locals, "main").locals)["large"] == "<too large>"
    values = [v for f in with_locals.frames for _, v in (*f.arguments, *f.locals)]
    assert all(len(value) <= 160 and "\n" not in value for value in values)


def test_only_the_libraries_asked_for_are_loaded(
    gdb: Gdb, crash: Crash, program: Path, library: Path, line_of: LineOf
) -> None:
    dead = crash_program(crash, program, library)
    files = mapped(dead)
    both = read(dead.core, gdb, program, load=files)
    assert named(both.threads[1], "wait_for_ever").line == line_of("waiting.cpp", "wait")
    assert both.threads[1].frames[-1].function == "clone3"
    assert both.problems == ()
    none = read(dead.core, gdb, program, load={})
    assert named(none.threads[0], "train_step").line == line_of("inlined_threads.cpp", "train_step")
    assert {f.function for t in none.threads[1:] for f in t.frames} == {"??"}


def test_library_that_is_left_out_is_never_named_not_even_libc(
    gdb: Gdb, crash: Crash, program: Path, library: Path
) -> None:
    # Left to itself, gdb loads libc against `auto-solib-add off`; names out of another build
    # would be lies.
    dead = crash_program(crash, program, library)
    files = mapped(dead)
    libc = next(path for path in files if "libc.so" in path)
    stacks = read(dead.core, gdb, program, load={p: b for p, b in files.items() if p != libc})
    start = files[libc]
    in_libc = [f for t in stacks.threads for f in t.frames if start <= (f.pc or 0) < start + 2**20]
    assert in_libc
    assert {f.function for f in in_libc} == {"??"}
    assert named(stacks.threads[0], "main").line is not None


def test_file_that_is_gone_is_told(gdb: Gdb, crash: Crash, program: Path, library: Path) -> None:
    dead = crash_program(crash, program, library)
    stacks = read(dead.core, gdb, program, load={"/nowhere/lib a.so": 0x1000, **mapped(dead)})
    assert [problem.where for problem in stacks.problems] == ["/nowhere/lib a.so"]
    assert stacks.threads[1].frames[-1].function == "clone3"


def test_lines_are_found_for_addresses_that_gdb_did_not_walk(
    gdb: Gdb, crash: Crash, program: Path, library: Path, line_of: LineOf
) -> None:
    dead = crash_program(crash, program, library)
    crashed = read(dead.core, gdb, program).threads[0]
    innermost, main = crashed.frames[0].pc, named(crashed, "main").pc
    other_tid = dead.pid + 1_000_000  # a thread that gdb cannot have walked
    stacks = read(dead.core, gdb, program, pcs={other_tid: [innermost, main], dead.pid: [main]})
    chain = stacks.lines[innermost]
    source = "inlined_threads.cpp"
    assert [(row.function, row.line, row.inlined) for row in chain] == [
        ("store_at<int>(int*, int)", line_of(source, "store"), True),
        ("write_sample", line_of(source, "write_sample"), True),
        ("train_step(int, Batch const&, int*)", line_of(source, "train_step"), False),
    ]
    # A return address: the line is that of the call before it.
    assert [row.line for row in stacks.lines[main]] == [line_of(source, "main")]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the program traps with ud2")
def test_line_under_a_signal_handler_is_that_of_the_instruction_itself(
    gdb: Gdb, crash: Crash, compiled: Compiled, line_of: LineOf
) -> None:
    program = compiled("dies_in_handler.cpp", "-g", "-O1")
    dead = crash([program])
    walked = read(dead.core, gdb, program).threads[0].frames
    trap = line_of("dies_in_handler.cpp", "trap")
    work = next(f for f in walked if f.function == "work()")
    assert work.line == trap
    pcs = {dead.pid + 1_000_000: [f.pc for f in walked if not f.inlined]}
    stacks = read(dead.core, gdb, program, pcs=pcs)
    assert [row.line for row in stacks.lines[work.pc or 0]] == [trap]


def test_python_crash_is_read_with_every_thread(gdb: Gdb, crash: Crash) -> None:
    program = Path(__file__).parents[1] / "programs" / "segv_python.py"
    dead = crash([sys.executable, program])
    assert "about to read address 0" in dead.output
    stacks = read(dead.core, gdb, sys.executable)
    assert stacks.complete
    assert len(stacks.threads) == 3
    functions = [f.function for t in stacks.threads for f in t.frames]
    assert sum("PyEval" in name for name in functions) >= 3


def test_cut_core_keeps_its_lines(gdb: Gdb, crash: Crash, program: Path, library: Path) -> None:
    # The kernel writes by rising address: the linker's list of libraries is near the end.
    dead = crash_program(crash, program, library)
    main_stack = 1 << 20  # `large` of main; below it lies the data of the dynamic linker
    with dead.core.open("r+b") as file:
        file.truncate(dead.core.stat().st_size - main_stack - (200 << 10))
    left_alone = read(dead.core, gdb, program)
    helped = read(dead.core, gdb, program, load=mapped(dead))
    assert len(left_alone.threads) == len(helped.threads) == 4
    waiting = [{f.function.partition("(")[0] for f in t.frames} for t in helped.threads[1:]]
    assert all({"wait_for_ever", "start_thread", "clone3"} <= names for names in waiting)
    assert "wait_for_ever" not in {f.function for t in left_alone.threads for f in t.frames}
    # The random name of our folder would make every report different.
    assert not any("postmortem-gdb-" in f"{p.where} {p.what}" for p in left_alone.problems)


def test_core_without_its_program_says_little_but_no_lie(
    gdb: Gdb, crash: Crash, program: Path, library: Path
) -> None:
    dead = crash_program(crash, program, library)
    moved = program.rename(program.with_name("moved away"))
    try:
        stacks = read(dead.core, gdb, None, load={})
    finally:
        moved.rename(program)
    assert len(stacks.threads) == 4
    assert {f.function for t in stacks.threads for f in t.frames} == {"??"}


def test_other_build_of_the_program_gives_no_names(
    gdb: Gdb, crash: Crash, compiled: Compiled, program: Path, library: Path
) -> None:
    # The caller leaves the mismatched program out; gdb 18 looks for it by itself.
    dead = crash_program(crash, program, library)
    kept = program.rename(program.with_name("kept"))
    try:
        other = compiled("segv_here.cpp", "-g", "-O0", to="other")
        shutil.copy(other, program)
        stacks = read(dead.core, gdb, None)
    finally:
        kept.rename(program)
    names = {f.function for f in stacks.threads[0].frames}
    assert stacks.threads[0].frames[0].function == "??"
    assert stacks.instruction_text is None
    assert not {"main", "main()", "store_at<int>(int*, int)", "innocent", "innocent()"} & names


def test_libraries_are_read_under_the_sysroot(
    gdb: Gdb, crash: Crash, program: Path, library: Path, tmp_path: Path, line_of: LineOf
) -> None:
    dead = crash_program(crash, program, library)
    files = mapped(dead)
    root = tmp_path / "the root"
    for path in files:
        (root / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, root / path[1:])
    away = library.rename(library.with_name("away"))
    try:
        without = read(dead.core, gdb, program, load=files)
        there = {f"{root}{path}": base for path, base in files.items()}
        under = read(dead.core, gdb, program, load=there, sysroot=str(root))
    finally:
        away.rename(library)
    assert "wait_for_ever" not in {f.function.partition("(")[0] for f in without.threads[1].frames}
    assert named(under.threads[1], "wait_for_ever").line == line_of("waiting.cpp", "wait")
    assert under.threads[1].frames[-1].function == "clone3"


def test_what_is_no_core_is_a_problem(gdb: Gdb, tmp_path: Path) -> None:
    core = tmp_path / "core"
    core.write_bytes(b"\x7fELF but nothing else" * 10)
    stacks = read(core, gdb, sys.executable)
    assert not stacks.complete
    assert stacks.threads == ()
    assert str(core) in stacks.problems[0].what
    assert "postmortem-gdb-" not in stacks.problems[0].what


def test_missing_program_is_a_problem_and_the_core_is_still_read(
    gdb: Gdb, crash: Crash, program: Path, library: Path, tmp_path: Path
) -> None:
    dead = crash_program(crash, program, library)
    stacks = read(dead.core, gdb, tmp_path / "nowhere")
    assert len(stacks.threads) == 4
    assert any("nowhere" in problem.where for problem in stacks.problems)


def test_deadline_holds_for_a_real_gdb(
    gdb: Gdb, crash: Crash, program: Path, library: Path
) -> None:
    import time

    dead = crash_program(crash, program, library)
    began = time.monotonic()
    stacks = read(dead.core, gdb, program, deadline_seconds=0.02)
    assert time.monotonic() - began < 30
    assert not stacks.complete
    assert stacks.problems


def test_hostile_environment_and_folder_change_nothing(
    gdb: Gdb,
    crash: Crash,
    program: Path,
    library: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dead = crash_program(crash, program, library)
    trap = tmp_path / "trap"
    trap.mkdir()
    ran = tmp_path / "ran"
    code = f"open({str(ran)!r}, 'a').write(__name__)\n"
    for name in ("json.py", "gdb.py", "sitecustomize.py", "usercustomize.py"):
        (trap / name).write_text(code)
    (trap / ".gdbinit").write_text(f"shell echo init > {ran}\n")
    (program.parent / f"{program.name}-gdb.py").write_text(code)
    (program.parent / f"{program.name}-gdb.gdb").write_text(f"shell echo auto > {ran}\n")
    monkeypatch.chdir(trap)
    for name in ("HOME", "PYTHONPATH", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(trap))
    monkeypatch.setenv("PYTHONHOME", str(trap))
    monkeypatch.setenv("PYTHONSTARTUP", str(trap / "json.py"))
    try:
        stacks = read(dead.core, gdb, program)
    finally:
        for suffix in ("-gdb.py", "-gdb.gdb"):
            (program.parent / (program.name + suffix)).unlink()
    assert stacks.complete
    assert len(stacks.threads) == 4
    assert not ran.exists(), ran.read_text()


def test_merging_gdb_with_its_own_physical_frames_is_no_disagreement(
    gdb: Gdb, crash: Crash, program: Path, library: Path
) -> None:
    dead = crash_program(crash, program, library)
    for thread in read(dead.core, gdb, program).threads:
        native = tuple(
            Frame(function="??", pc=f.pc, module=f.module)
            for f in thread.frames
            if not f.inlined and not f.tail_call
        )
        merged = merge_stack(native, thread.frames, {})
        assert merged.disagreement is None
        assert [f.function for f in merged.frames] == [f.function for f in thread.frames]
