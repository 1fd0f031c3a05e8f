"""Stacks of real crashes, compiled and crashed on the spot."""

import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from builders.commands import allow_cores, crash_in
from builders.unwind_cores import with_files
from postmortem import _native

PROGRAMS = Path(__file__).parent.parent / "programs"
CORE_PATTERN = Path("/proc/sys/kernel/core_pattern")

pytestmark = [
    pytest.mark.cores,
    pytest.mark.cxx,
    pytest.mark.skipif(
        not CORE_PATTERN.exists() or not CORE_PATTERN.read_text().startswith("core"),
        reason="core_pattern does not leave cores in the working directory",
    ),
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler"),
]

NO_TABLES = ["-fno-asynchronous-unwind-tables", "-fno-unwind-tables"]


def build(folder: Path, *flags: str, compiler: str = "cc") -> Path:
    program = folder / "stacks"
    source = PROGRAMS / "stacks.c"
    # One optimisation level that keeps calls as calls.
    command = [compiler, "-O1", "-fno-optimize-sibling-calls", *flags, str(source)]
    subprocess.run([*command, "-o", str(program)], check=True)
    return program


def thread_of(core: Path) -> dict[str, Any]:
    return _native.read_core(str(core))["threads"][0]  # type: ignore[return-value]


def names(thread: dict[str, Any]) -> list[str | None]:
    return [frame["function"] for frame in thread["frames"]]


def in_order(wanted: list[str], thread: dict[str, Any]) -> bool:
    """Whether these functions stand in the stack, neighbours as neighbours."""
    found = names(thread)
    return any(found[i : i + len(wanted)] == wanted for i in range(len(found)))


CALLS = ["crash_here", "third", "second", "first"]
FLAGS = {
    "tables": [],
    "no tables, frame pointers": [*NO_TABLES, "-fno-omit-frame-pointer"],
    "no tables, no frame pointers": [*NO_TABLES, "-fomit-frame-pointer"],
    "static": ["-static"],
}


@pytest.mark.parametrize("kind", FLAGS)
@pytest.mark.parametrize("case", ["plain", "callback"])
def test_every_caller_is_found(tmp_path: Path, kind: str, case: str) -> None:
    program = build(tmp_path, *FLAGS[kind])
    thread = thread_of(crash_in(tmp_path, [str(program), case]))
    assert in_order(CALLS, thread), names(thread)
    assert "main" in names(thread)
    assert names(thread)[-1] == "_start"
    assert thread["stopped"] is None


@pytest.mark.parametrize("kind", ["tables", "no tables, frame pointers"])
@pytest.mark.parametrize("case", ["handler", "altstack"])
def test_crash_inside_a_signal_handler_leads_to_what_was_interrupted(
    tmp_path: Path, case: str, kind: str
) -> None:
    thread = thread_of(crash_in(tmp_path, [str(build(tmp_path, *FLAGS[kind])), case]))
    assert in_order(CALLS[:1] if case == "handler" else ["in_handler"], thread)
    assert "interrupted" in names(thread)
    assert names(thread).count("<signal handler called>") == 1
    assert names(thread)[-1] == "_start"


@pytest.mark.parametrize("target", ["0", "4141414141414141"])
def test_call_through_a_bad_pointer(tmp_path: Path, target: str) -> None:
    thread = thread_of(crash_in(tmp_path, [str(build(tmp_path)), "badcall", target]))
    where = [f for f in thread["frames"] if f["function"] == "call_it"]
    assert where
    if target == "0":
        assert where == thread["frames"][1:2]
        assert where[0]["trust"] == "frame_pointer"
    assert names(thread)[-1] == "_start"


def test_crash_in_the_vdso(tmp_path: Path) -> None:
    thread = thread_of(crash_in(tmp_path, [str(build(tmp_path)), "vdso"]))
    assert "tick" in names(thread)
    assert names(thread)[-1] == "_start"


def test_overwritten_stack_gives_no_invented_frames(tmp_path: Path) -> None:
    program = build(tmp_path, "-fno-stack-protector")
    thread = thread_of(crash_in(tmp_path, [str(program), "smash"]))
    assert names(thread)[0] == "victim"
    if len(thread["frames"]) > 1:
        assert thread["frames"][1]["trust"] == "scan"


def test_deep_recursion_keeps_both_ends(tmp_path: Path) -> None:
    thread = thread_of(crash_in(tmp_path, [str(build(tmp_path)), "deep"]))
    assert names(thread)[0] == "down"
    assert thread["skipped"] > 10_000
    assert names(thread)[-1] == "_start"
    assert "main" in names(thread)
    assert thread["stopped"] is None


def test_core_that_is_cut_keeps_what_is_left(tmp_path: Path) -> None:
    core = crash_in(tmp_path, [str(build(tmp_path)), "plain"])
    whole = _native.read_core(str(core))
    stack = max(r["frames"][-1]["pc"] for r in whole["threads"])
    assert stack
    data = core.read_bytes()
    cut = tmp_path / "cut"
    for percent in (97, 80, 50, 10, 3):
        cut.write_bytes(data[: len(data) * percent // 100])
        for thread in _native.read_core(str(cut))["threads"]:
            ours = [f["pc"] for f in thread["frames"]]
            assert ours == [f["pc"] for f in whole["threads"][0]["frames"]][: len(ours)]
            assert thread["stopped"] is None or "lost" in thread["stopped"]


def split_debug(folder: Path, program: Path, debug: Path) -> None:
    """Move symbols and DWARF of a program to a file of their own."""
    debug.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["objcopy", "--only-keep-debug", str(program), str(debug)], check=True)
    subprocess.run(["strip", "--strip-all", str(program)], check=True)


def module_of(core: Path, program: Path, **options: str) -> tuple[dict[str, Any], list[str | None]]:
    raw = _native.read_core(str(core), **options)  # type: ignore[arg-type]
    module = next(m for m in raw["modules"] if m["path"] == str(program))
    return module, names(raw["threads"][0])  # type: ignore[return-value,arg-type]


needs_objcopy = pytest.mark.skipif(shutil.which("objcopy") is None, reason="no objcopy")


@needs_objcopy
def test_stripped_program_has_no_names_of_its_own(tmp_path: Path) -> None:
    program = build(tmp_path, "-g")
    split_debug(tmp_path, program, tmp_path / "elsewhere" / "stacks.debug")
    module, functions = module_of(crash_in(tmp_path, [str(program), "plain"]), program)
    assert not set(CALLS) & set(functions)
    assert module["has_debug_lines"] is False


@needs_objcopy
@pytest.mark.parametrize("folder", ["", ".debug"])
@pytest.mark.parametrize("build_id", ["sha1", "none"])
def test_debug_file_by_link(tmp_path: Path, folder: str, build_id: str) -> None:
    program = build(tmp_path, "-g", f"-Wl,--build-id={build_id}")
    debug = tmp_path / folder / "stacks.debug"
    split_debug(tmp_path, program, debug)
    subprocess.run(["objcopy", f"--add-gnu-debuglink={debug}", str(program)], check=True)
    core = crash_in(tmp_path, [str(program), "plain"])
    module, functions = module_of(core, program)
    assert functions[: len(CALLS)] == CALLS
    assert module["has_debug_lines"] is True
    # Another file under that name is not the debug file.
    debug.write_bytes(debug.read_bytes() + b"\0")
    if build_id == "none":
        module, functions = module_of(core, program)
        assert not set(CALLS) & set(functions)
        assert module["has_debug_lines"] is False


@needs_objcopy
def test_debug_file_by_build_id_under_a_sysroot(tmp_path: Path) -> None:
    program = build(tmp_path, "-g", "-Wl,--build-id=sha1")
    sysroot = tmp_path / "sysroot"
    identity = _native.build_id(str(program))
    assert identity
    debug = sysroot / f"usr/lib/debug/.build-id/{identity[:2]}/{identity[2:]}.debug"
    split_debug(tmp_path, program, debug)
    core = crash_in(tmp_path, [str(program), "plain"])
    there = sysroot / str(program)[1:]
    there.parent.mkdir(parents=True)
    shutil.copy(program, there)
    module, functions = module_of(core, program, sysroot=str(sysroot))
    assert functions[: len(CALLS)] == CALLS
    assert module["has_debug_lines"] is True


@needs_objcopy
@pytest.mark.skipif(shutil.which("xz") is None, reason="no xz")
@pytest.mark.skipif(not _native.unpacks["lzma"], reason="built without liblzma")
def test_mini_debug_data(tmp_path: Path) -> None:
    program = build(tmp_path)
    mini = tmp_path / "mini"
    subprocess.run(
        ["objcopy", "-S", "--keep-symbol=crash_here", str(program), str(mini)], check=True
    )
    subprocess.run(["xz", str(mini)], check=True)
    subprocess.run(["strip", "--strip-all", str(program)], check=True)
    subprocess.run(
        ["objcopy", "--add-section", f".gnu_debugdata={mini}.xz", str(program)], check=True
    )
    _, functions = module_of(crash_in(tmp_path, [str(program), "plain"]), program)
    assert functions[0] == "crash_here"


def test_another_build_in_place_of_a_program_gives_no_names(tmp_path: Path) -> None:
    program = build(tmp_path, "-Wl,--build-id=sha1")
    core = crash_in(tmp_path, [str(program), "plain"])
    build(tmp_path, "-Wl,--build-id=sha1", "-O0", "-g")
    module, functions = module_of(core, program)
    assert module["status"] == "mismatch"
    assert module["has_debug_lines"] is False
    assert functions[0] is None
    assert not set(CALLS) & set(functions)
    assert _native.read_core(str(core))["threads"][0]["stopped"] is not None


@pytest.mark.gdb
@pytest.mark.skipif(shutil.which("gdb") is None, reason="no gdb")
@pytest.mark.parametrize("case", ["plain", "callback", "handler", "altstack", "vdso"])
def test_gdb_agrees(tmp_path: Path, case: str) -> None:
    from live.compare_stacks import compare

    program = build(tmp_path)
    result = compare(crash_in(tmp_path, [str(program), case]), str(program))
    assert result.percent == 100.0, result.differences
    assert result.equal_threads == result.threads


@pytest.mark.gdb
@pytest.mark.skipif(shutil.which("gdb") is None, reason="no gdb")
def test_gdb_agrees_on_a_python_process_with_threads(tmp_path: Path) -> None:
    from live.compare_stacks import compare

    script = (
        "import ctypes, threading, time\n"
        "for _ in range(20):\n"
        "    threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()\n"
        "time.sleep(0.2)\n"
        "sorted([2, 1], key=lambda x: ctypes.string_at(0))\n"
    )
    core = crash_in(tmp_path, [sys.executable, "-c", script])
    result = compare(core)
    assert result.threads == 21
    assert result.percent >= 99.0, result.differences


@pytest.mark.skipif(
    shutil.which("aarch64-linux-gnu-gcc") is None or shutil.which("qemu-aarch64") is None,
    reason="no aarch64 compiler or emulator",
)
@pytest.mark.parametrize("kind", ["tables", "no tables, frame pointers"])
@pytest.mark.parametrize("case", ["plain", "callback", "handler"])
def test_aarch64(tmp_path: Path, kind: str, case: str) -> None:
    program = build(tmp_path, "-static", *FLAGS[kind], compiler="aarch64-linux-gnu-gcc")
    subprocess.run(
        ["qemu-aarch64", str(program), case],
        cwd=tmp_path,
        preexec_fn=allow_cores,
        capture_output=True,
    )
    written = next(tmp_path.glob("qemu_*.core"), None)
    if written is None:
        pytest.skip("qemu-aarch64 left no core")
    elf = program.read_bytes()
    table, count = struct.unpack_from("<Q", elf, 32)[0], struct.unpack_from("<H", elf, 56)[0]
    files = []
    for i in range(count):
        kind_, _, offset, start, _, size, _, _ = struct.unpack_from(
            "<IIQQQQQQ", elf, table + 56 * i
        )
        if kind_ == 1:
            end = (start + size + 4095) & ~4095
            files.append((start & ~4095, end, offset & ~4095, str(program)))
    core = tmp_path / "with-files"
    core.write_bytes(with_files(written.read_bytes(), files))
    thread = thread_of(core)
    if case == "handler":
        assert in_order(CALLS[:1], thread)
        assert "interrupted" in names(thread)
    else:
        assert in_order(CALLS, thread), names(thread)
    assert names(thread)[-1] == "_start"
    assert thread["stopped"] is None
