"""Facts of real crashes: a program ends on the spot, and its core must say how."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from builders.commands import crash_in, execute
from builders.processes import speaking

pytest.importorskip("postmortem._native")

from builders.facts import read_core
from postmortem.facts.core import CoreFacts
from postmortem.facts.crash import CppException

pytestmark = [pytest.mark.cores, pytest.mark.cxx]
PROGRAM = Path(__file__).parents[1] / "programs" / "throwers.cpp"
BUILDS = {
    "plain": ("-O1",),
    "debug": ("-O0", "-g"),
    "no_pie": ("-O1", "-no-pie", "-fno-pie"),
    "runtime_inside": ("-O1", "-static-libstdc++", "-static-libgcc"),
    "static": ("-O1", "-static"),
    "stripped": ("-O1", "-static", "-s"),
}


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    folder = tmp_path_factory.mktemp("throwers")
    done: dict[str, Path] = {}

    def make(kind: str) -> Path:
        if kind not in done:
            target = folder / kind
            run = execute(
                [compiler, "-std=c++17", *BUILDS[kind], str(PROGRAM), "-o", str(target), "-pthread"]
            )
            if run.returncode != 0:
                pytest.skip(f"cannot be built so: {run.stderr[-300:]}")
            done[kind] = target
        return done[kind]

    return make


@pytest.fixture
def facts_of(build: Callable[[str], Path], tmp_path: Path) -> Callable[..., CoreFacts]:
    def run(case: str, *more: str, kind: str = "plain", **env: str) -> CoreFacts:
        core = crash_in(tmp_path / f"{kind}-{case}", [str(build(kind)), case, *more], **env)
        return read_core(str(core), stacks=False)

    return run


THROWN = [
    ("nested", "std::_Nested_exception<std::runtime_error>", "outer trouble"),
    ("rethrown", "std::invalid_argument", "kept in a pointer"),
    ("rethrown_in_catch", "std::runtime_error", "thrown again"),
    ("own_words", "(anonymous namespace)::OwnWords", "these are not the base's words"),
    ("integer", "int", "-7"),
    ("words", "char const*", "only text"),
    (
        "string",
        "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >",
        "a std::string that is longer than its own buffer",
    ),
    ("code", "(anonymous namespace)::Code", "42 (read as a 4-byte integer)"),
    ("no_exception", "(anonymous namespace)::NoException", None),
    ("plain", "(anonymous namespace)::Plain", "std::exception"),
    ("both", "(anonymous namespace)::Both", "second base"),
    ("virtual", "(anonymous namespace)::Virtual", "virtual base"),
    ("hidden", "(anonymous namespace)::Hidden", "nobody else sees this type"),
    ("memory", "std::bad_alloc", "std::bad_alloc"),
    ("at", "std::out_of_range", "map::at"),
    ("system", "std::system_error", "write of step 12: No space left on device"),
    ("noexcept", "std::length_error", "out of noexcept"),
    ("thread", "std::runtime_error", "from a thread"),
]


@pytest.mark.parametrize(("case", "type_name", "what"), THROWN)
def test_uncaught_exception(
    facts_of: Callable[..., CoreFacts], case: str, type_name: str, what: str | None
) -> None:
    facts = facts_of(case)
    first = facts.cpp_exceptions[0]
    assert (first.type, first.what, first.state) == (type_name, what, "uncaught")
    assert first.tid == facts.threads.items[0].tid
    assert first.found_by == "tls"


@pytest.mark.parametrize("kind", ["debug", "no_pie"])
@pytest.mark.parametrize(
    ("case", "type_name", "what"), [t for t in THROWN if t[0] in ("both", "rethrown", "memory")]
)
def test_uncaught_exception_of_other_builds(
    facts_of: Callable[..., CoreFacts], kind: str, case: str, type_name: str, what: str | None
) -> None:
    first = facts_of(case, kind=kind).cpp_exceptions[0]
    assert (first.type, first.what, first.state) == (type_name, what, "uncaught")


@pytest.mark.parametrize("kind", ["runtime_inside", "static"])
@pytest.mark.parametrize("case", ["integer", "memory", "hidden", "system", "own_words"])
def test_run_time_library_linked_into_the_program(
    facts_of: Callable[..., CoreFacts], kind: str, case: str
) -> None:
    """No libstdc++.so: the stack must tell, and what is not sure stays unsaid."""
    _, type_name, what = next(t for t in THROWN if t[0] == case)
    first = facts_of(case, kind=kind).cpp_exceptions[0]
    assert first.type == type_name
    assert first.what in (what, None)
    assert first.state == "uncaught"
    if case in ("integer", "memory", "system"):
        assert first.what == what


def test_filesystem_error_has_its_whole_text(facts_of: Callable[..., CoreFacts]) -> None:
    (first,) = facts_of("files").cpp_exceptions
    assert first.type == "std::filesystem::__cxx11::filesystem_error"
    assert first.what is not None
    assert "/nonexistent/shard-00017" in first.what
    assert first.base_types[:2] == ("std::system_error", "std::runtime_error")


def test_nested_exception_lists_the_inner_one_after(facts_of: Callable[..., CoreFacts]) -> None:
    facts = facts_of("nested")
    states = [(e.what, e.state) for e in facts.cpp_exceptions]
    assert states[0] == ("outer trouble", "uncaught")
    assert all(state == "handled" for _, state in states[1:])


def test_handled_exception_is_context(facts_of: Callable[..., CoreFacts]) -> None:
    facts = facts_of("handled")
    (only,) = facts.cpp_exceptions
    expected = CppException(
        tid=facts.process.pid,
        type="std::runtime_error",
        what="being handled",
        found_by="tls",
        base_types=("std::exception",),
        state="handled",
    )
    assert only == expected
    assert facts.signal is not None
    assert (facts.signal.name, facts.signal.code, facts.signal.address) == (
        "SIGSEGV",
        "SEGV_MAPERR",
        0,
    )


def test_exception_on_its_way_is_found_by_the_stack(facts_of: Callable[..., CoreFacts]) -> None:
    (only,) = facts_of("unwinding").cpp_exceptions
    assert (only.what, only.found_by, only.state) == ("on its way", "stack", "unwinding")


def test_a_destructor_that_throws_does_not_hide_the_first_exception(
    facts_of: Callable[..., CoreFacts],
) -> None:
    found = [(e.what, e.found_by, e.state) for e in facts_of("unwinding_throws").cpp_exceptions]
    assert found == [
        ("thrown by a destructor", "tls", "uncaught"),
        ("the first error", "stack", "unwinding"),
    ]


def test_abort_in_a_handler_is_not_an_uncaught_exception(
    facts_of: Callable[..., CoreFacts],
) -> None:
    (only,) = facts_of("aborts_in_catch").cpp_exceptions
    assert (only.what, only.state) == ("caught, then aborted", "handled")


@pytest.mark.parametrize("kind", ["plain", "debug", "runtime_inside", "static"])
def test_exceptions_of_the_past_are_not_told(facts_of: Callable[..., CoreFacts], kind: str) -> None:
    assert facts_of("forgotten", kind=kind).cpp_exceptions == ()


def test_assertion_text(facts_of: Callable[..., CoreFacts]) -> None:
    facts = facts_of("assert")
    assert facts.abort_message is not None
    assert 'Assertion `which.empty() && "must be empty"\' failed.' in facts.abort_message.text


@pytest.mark.parametrize("kind", ["plain", "no_pie", "static"])
def test_environment_at_the_end_is_read(facts_of: Callable[..., CoreFacts], kind: str) -> None:
    facts = facts_of("environment", kind=kind, RANK="1", GOES_AWAY="yes")
    process = facts.process
    assert process.env_is_current
    assert (process.rank, process.world_size) == (5, 16)
    assert process.variable("GOES_AWAY") is None
    assert dict(process.initial_env)["RANK"] == "1"
    assert dict(process.initial_env)["GOES_AWAY"] == "yes"


def test_cleared_environment_is_empty(facts_of: Callable[..., CoreFacts]) -> None:
    process = facts_of("no_environment", RANK="1", WORLD_SIZE="4").process
    assert (process.env, process.env_is_current) == ((), True)
    assert process.rank is None


def test_command_line_with_blanks_and_bytes(facts_of: Callable[..., CoreFacts]) -> None:
    facts = facts_of("environment", "two words", "", "ümlaut", "x" * 5000)
    assert facts.process.argv[1:] == ("environment", "two words", "", "ümlaut", "x" * 5000)
    assert facts.process.executable == facts.process.argv[0]


def test_getopt_does_not_reorder_the_command_line(facts_of: Callable[..., CoreFacts]) -> None:
    assert facts_of("getopt", "first", "-v", "last").process.argv[1:] == (
        "getopt",
        "first",
        "-v",
        "last",
    )


def test_title_over_the_arguments(facts_of: Callable[..., CoreFacts]) -> None:
    facts = facts_of("title")
    assert facts.process.argv == ("a-title-of-its-own",)
    assert any("title" in p.what for p in facts.problems)


def test_mapped_file_that_was_cut(facts_of: Callable[..., CoreFacts], tmp_path: Path) -> None:
    shard = tmp_path / "shard.bin"
    facts = facts_of("bus", str(shard))
    assert facts.fault is not None
    assert facts.fault.address is not None
    address = facts.fault.address
    assert (address.kind, address.path, address.file_offset) == ("file", str(shard), 4096 + 16)
    assert facts.signal is not None
    assert facts.signal.code == "BUS_ADRERR"
    assert facts.fault.instruction is not None
    assert facts.fault.instruction.access == "write"
    assert facts.fault.operand == address


def test_stack_overflow_of_the_main_thread(facts_of: Callable[..., CoreFacts]) -> None:
    fault = facts_of("deep").fault
    assert fault is not None
    assert fault.address is not None
    assert not fault.address.mapped
    assert fault.address.above_kind == "stack"
    assert fault.address.above_start is not None
    assert fault.address.above_start - fault.address.value < 65536


def test_stack_overflow_of_a_thread(facts_of: Callable[..., CoreFacts]) -> None:
    fault = facts_of("deep_thread").fault
    assert fault is not None
    assert fault.address is not None
    assert (fault.address.mapped, fault.address.permissions) == (True, "---")
    assert fault.address.above_kind == "thread stack"


def test_trap_and_jump_into_nothing(facts_of: Callable[..., CoreFacts]) -> None:
    trap = facts_of("trap")
    assert trap.signal is not None
    assert trap.signal.name in ("SIGILL", "SIGTRAP")
    assert trap.fault is not None
    assert trap.fault.instruction is not None
    assert trap.fault.instruction.feature == "trap"
    jump = facts_of("jump").fault
    assert jump is not None
    assert jump.instruction is not None
    assert (jump.instruction.code, jump.instruction.access) == (b"", "execute")


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="addresses of x86-64")
@pytest.mark.parametrize(("case", "access"), [("impossible", "write"), ("copy", "read")])
def test_impossible_address_is_known_from_the_instruction(
    facts_of: Callable[..., CoreFacts], case: str, access: str
) -> None:
    facts = facts_of(case)
    assert facts.signal is not None
    assert (facts.signal.code, facts.signal.address) == ("SI_KERNEL", None)
    assert facts.fault is not None
    assert facts.fault.address is None
    assert facts.fault.instruction is not None
    instruction = facts.fault.instruction
    assert (instruction.operand_address, instruction.access) == (0xDEADBEEFDEADBEEF, access)
    assert facts.fault.operand is not None
    assert not facts.fault.operand.mapped


def test_file_in_shared_memory(facts_of: Callable[..., CoreFacts]) -> None:
    if not os.access("/dev/shm", os.W_OK):
        pytest.skip("no /dev/shm")
    path = Path(f"/dev/shm/postmortem-test-{os.getpid()}")
    try:
        fault = facts_of("bus", str(path)).fault
    finally:
        path.unlink(missing_ok=True)
    assert fault is not None
    assert fault.address is not None
    assert (fault.address.kind, fault.address.path) == ("shared memory", str(path))


def test_python_sets_its_environment(tmp_path: Path) -> None:
    code = "import os; os.environ.update(RANK='3', WORLD_SIZE='8', LOCAL_RANK='1'); os.abort()"
    core = crash_in(tmp_path, [sys.executable, "-c", code])
    facts = read_core(str(core), stacks=False)
    process = facts.process
    assert (process.rank, process.local_rank, process.world_size) == (3, 1, 8)
    assert process.launcher is None  # set by the script itself
    version = sys.version_info
    assert process.python_version == f"{version[0]}.{version[1]}.{version[2]}"
    assert process.argv == (sys.executable, "-c", code)
    assert process.command == facts.threads.items[0].name
    assert facts.signal is not None
    assert facts.signal.sender_pid == process.pid


def test_snapshot_is_no_crash(tmp_path: Path) -> None:
    gcore = shutil.which("gcore")
    if gcore is None:
        pytest.skip("no gcore")
    program = [sys.executable, "-c", "print('ready', flush=True); input()"]
    env = os.environ | {"RANK": "2"}
    with speaking(*program, stdin=subprocess.PIPE, env=env) as (process, said):
        said.readline()
        run = execute([gcore, "-o", str(tmp_path / "core"), str(process.pid)])
    cores = list(tmp_path.glob("core*"))
    if not cores:
        pytest.skip(f"gcore may not attach: {run.stderr[-200:]}")
    facts = read_core(str(cores[0]), stacks=False)
    assert facts.core.origin == "gcore"
    assert facts.signal is None
    assert facts.threads.crashed is None
    assert facts.process.rank == 2
    assert facts.process.argv == tuple(program)


def test_attributes_of_systemd_name_host_and_thread(
    build: Callable[[str], Path], tmp_path: Path
) -> None:
    core = crash_in(tmp_path, [str(build("plain")), "thread"], HOSTNAME="from-the-shell")
    try:
        os.setxattr(core, "user.coredump.hostname", b"gpu007")
        os.setxattr(core, "user.coredump.thread_name", b"pt_nccl_watchdg")
    except OSError:
        pytest.skip("no extended attributes here")
    facts = read_core(str(core), stacks=False)
    assert facts.process.hostname == "gpu007"
    assert facts.threads.crashed is not None
    assert facts.threads.crashed.name == "pt_nccl_watchdg"
    assert facts.threads.main is not None
    assert facts.threads.main.name == "plain"


def test_cut_core_keeps_what_it_has(build: Callable[[str], Path], tmp_path: Path) -> None:
    core = crash_in(tmp_path, [str(build("plain")), "environment"])
    whole = core.read_bytes()
    cut = tmp_path / "cut.core"
    for share in (0.9, 0.5, 0.2):
        cut.write_bytes(whole[: int(len(whole) * share)])
        facts = read_core(str(cut), stacks=False)
        assert facts.core.truncated
        assert facts.signal is not None
        assert facts.signal.name == "SIGABRT"
        assert facts.process.command == "plain"
        assert facts.process.argv
        assert any("command line" in p.where for p in facts.problems)


def test_what_a_static_program_without_symbols_said(facts_of: Callable[..., CoreFacts]) -> None:
    said = facts_of("assert", kind="stripped").abort_message
    assert said is not None
    assert "must be empty" in said.text
