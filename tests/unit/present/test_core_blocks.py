"""What a reader sees of a core."""

import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.prose import Prose
from postmortem.facts.crash import AbortMessage, CppException, Fault, Instruction, Signal
from postmortem.facts.memory import Address, BinaryFacts, MappedFile, MemoryTotals, Module, Modules
from postmortem.facts.process import CoreFile, Process
from postmortem.facts.threads import Frame, RaisedException, Thread, Threads, Trust, Wait
from postmortem.present.core.blocks import core_blocks
from postmortem.present.core.view import CoreView
from postmortem.report.blocks import Backtrace, KeyValues, Table, Tone
from postmortem.report.model import Confidence, Diagnosis, Evidence, Role
from unit.present.views import (
    LIBC,
    PYTHON,
    block,
    native,
    python,
    real_view,
    seed_frames,
    text,
    view,
)


def diagnosis(*frames: tuple[int, int] | None, role: Role = Role.CASCADE) -> Diagnosis:
    """Return a diagnosis that cites frames of threads."""
    cited = tuple(Evidence("here", "w", frame) for frame in frames)
    return Diagnosis("x", "t", role, Confidence.CERTAIN, "c", (), cited)


def seed_view(**fields: object) -> CoreView:
    """Return the core of the example in the ml-engineering book."""
    crashed = Thread(3097702, crashed=True, name="pt_nccl_watchdg", frames=seed_frames())
    return view((crashed,), main_tid=3097667, **fields)


def test_the_seed_example(prose: Prose) -> None:
    blocks = core_blocks(seed_view(diagnoses=(diagnosis((3097702, 6)),)))
    stack = block(blocks, Backtrace, "crashed")
    assert stack.title == 'crashed thread 3097702 "pt_nccl_watchdg"'
    assert stack.subtitle == "NCCL watchdog · 11 frames"
    assert [line.index for line in stack.lines] == [*range(8), None]
    prose(*(f"{line.function} ({line.module}): {line.note}" for line in stack.lines))
    assert [line.marker for line in stack.lines] == [None] * 6 + ["the message", None, None]


def test_verbose_shows_every_frame_in_full() -> None:
    stack = block(core_blocks(seed_view(), verbose=True), Backtrace, "crashed")
    assert [line.index for line in stack.lines] == list(range(11))
    assert stack.lines[2].function.endswith("handler() [clone .cold.1]")


def test_the_marker_stands_at_the_frame_that_tells_most() -> None:
    cited = diagnosis((3097702, 1), (3097702, 4), (3097702, 7), (1, 0), role=Role.ROOT)
    lines = block(core_blocks(seed_view(diagnoses=(cited,))), Backtrace, "crashed").lines
    assert [(line.index, line.marker) for line in lines if line.marker] == [(7, "look here")]
    assert lines[7].tone is Tone.BAD


@pytest.mark.parametrize("frame", [(3097702, 99999), (3097703, 6), None])
def test_a_frame_that_is_not_on_this_stack_marks_nothing(frame: tuple[int, int] | None) -> None:
    blocks = core_blocks(seed_view(diagnoses=(diagnosis(frame),)))
    assert not any(line.marker for line in block(blocks, Backtrace, "crashed").lines)


def test_a_null_pointer_through_ctypes(prose: Prose) -> None:
    signal = Signal(11, "SIGSEGV", 1, "SEGV_MAPERR", address=0)
    address = Address(0, mapped=False, above_start=0x10000, above_kind="module")
    pc = Address(0x7F0000001000, mapped=True, kind="module", path=LIBC)
    instruction = Instruction(
        pc.value, b"\xc5\xf9\x74\x0f", "vpcmpeqb (%rdi),%ymm0,%ymm1", "rdi", 0, "read"
    )
    fault = Fault(pc, Address(0x7FFE, mapped=True), address, instruction=instruction)
    blocks = core_blocks(
        real_view("ctypes_null", 5805, signal=signal, fault=fault, explanation="it read address 0")
    )
    rows = block(blocks, KeyValues, "what happened").rows
    assert [name for name, _ in rows] == ["SIGSEGV", "instruction", "address"]
    prose(*map(": ".join, rows))
    lines = block(blocks, Backtrace, "crashed").lines
    assert (lines[0].function, lines[0].location) == ("__strlen_avx2", "strlen-avx2.S:76")
    prose(lines[5].note)
    assert lines[-1].function == "14 frames of program start-up"
    others = block(blocks, Table, "6 other threads in 1 group")
    assert others.rows == (("6 Python threads", "time_sleep -> __clock_nanosleep", "sleeps"),)


def test_a_torch_trainer(prose: Prose) -> None:
    blocks = core_blocks(real_view("torch_terminate", 5839))
    stack = block(blocks, Backtrace, "crashed thread 5864")
    extension = [line for line in stack.lines if line.note == "your extension"]
    assert extension[0].function == "c10d::ProcessGroupFakeNCCL::checkWork"
    assert extension[0].tone is Tone.STRONG
    assert stack.lines[-1].function == "8 frames of thread start-up"
    table = block(blocks, Table, "40 other threads in 5 groups")
    assert [row[0] for row in table.rows] == [
        "main thread (5839)", "8 Python threads", "15 OpenMP workers",
        "15 PyTorch pthreadpool workers", "OpenBLAS worker (5840)",
    ]  # fmt: skip
    prose(*[row[2] for row in table.rows])  # fmt: skip


def test_all_threads_shows_each_distinct_stack_once() -> None:
    blocks = core_blocks(real_view("torch_terminate", 5839), all_threads=True)
    stacks = [b for b in blocks if isinstance(b, Backtrace)]
    assert len(stacks) == 6
    main = block(blocks, Backtrace, "main thread: 5839")
    assert "5 frames of PyTorch dispatcher" in [line.function for line in main.lines]
    assert main.lines[-1].function == "14 frames of program start-up"


def test_python_frames_stand_among_native_ones(prose: Prose) -> None:
    crashed = Thread(
        5,
        crashed=True,
        holds_gil=True,
        frames=(
            native("boom", "/home/u/libmyops.so"),
            native("ffi_call", "/lib/x86_64-linux-gnu/libffi.so.8"),
            python("train_step", "/home/u/train.py", 31),
            python("Module._call_impl", "/x/site-packages/torch/nn/modules/module.py", 1518),
            python("<module>", "/home/u/train.py", 40),
            native("Py_BytesMain", "/usr/lib/libpython3.11.so.1.0"),
            native("_start", PYTHON),
        ),
        python_exception=RaisedException("ValueError", "corrupt record"),
    )
    blocks = core_blocks(view((crashed,)))
    stack = block(blocks, Backtrace, "crashed")
    prose(stack.subtitle)
    assert [(line.function, line.module, line.location) for line in stack.lines[2:5]] == [
        ("train_step", "Python", "train.py:31"),
        ("Module._call_impl", "Python", "torch/nn/modules/module.py:1518"),
        ("<module>", "Python", "train.py:40"),
    ]
    assert ("Python exception", "ValueError: corrupt record") in block(
        blocks, KeyValues, "what happened"
    ).rows
    assert not any(isinstance(item, Table) for item in blocks), "there are no other threads"


def test_frames_that_cannot_be_trusted_say_so(prose: Prose) -> None:
    mine = "/home/u/libmyops.so"
    frames = (
        native("??", mine, module_offset=0x1234),
        native("maybe", "/lib/libx.so", trust=Trust.SCAN),
    )
    modules = Modules((Module(mine, 0, 9, "mismatch", "91bc" * 10, "3f2a" * 10, mine),))
    blocks = core_blocks(view((Thread(1, crashed=True, frames=frames),), modules=modules))
    first, second = block(blocks, Backtrace, "crashed").lines
    assert first.function == "?? +0x1234"
    prose(first.note)
    prose(second.note)
    assert first.tone is second.tone is Tone.WARNING
    ((name, words),) = block(blocks, KeyValues, "trouble").rows
    assert name == "libmyops.so"
    prose(words)


def test_trouble_names_modules_on_stacks_and_counts_the_rest(prose: Prose) -> None:
    def module(name: str, status: str) -> Module:
        return Module(f"/x/{name}", 0, 1, status)  # type: ignore[arg-type]

    modules = Modules((
        module("libon.so", "missing"), module("liboff.so", "missing"),
        module("libnoid.so", "unverified"), module("libother.so", "unverified"),
        module("libgood.so", "ok"), Module("linux-vdso.so.1", 0, 1, "unverified"),
        module("libother1.so", "mismatch"), module("libhere.so", "mismatch"),
    ))  # fmt: skip
    frames = (
        native("f", "/x/libon.so"),
        native("g", "/x/libnoid.so"),
        native("h", "linux-vdso.so.1"),
        native("i", "/x/libhere.so"),
    )
    core = CoreFile("core", "kernel", 1 << 30, 3 << 30)
    blocks = core_blocks(
        view((Thread(1, crashed=True, frames=frames),), modules=modules, core=core)
    )
    assert [row[0] for row in block(blocks, KeyValues, "trouble").rows] == [
        "core", "libhere.so", "libother1.so", "libon.so", "1 missing", "libnoid.so", "1 unverified",
    ]  # fmt: skip
    prose(text(blocks))


def test_exceptions_messages_and_files(prose: Prose) -> None:
    what = "NCCL error: unhandled system error" + "\nframe #1: long" * 40
    file = MappedFile("/dev/shm/torch_1", 4096, True, 0, 0, 64 << 20, "tmpfs", deleted_then=True)
    pc = Address(1, mapped=False)
    blocks = core_blocks(
        seed_view(
            cpp_exceptions=(
                CppException(3097702, "c10::DistBackendError", what, "tls"),
                CppException(7, "std::bad_alloc", None, "stack"),
            ),
            abort_message=AbortMessage("free(): invalid pointer\n"),
            signal=Signal(7, "SIGBUS", 2, "BUS_ADRERR", 4096),
            fault=Fault(pc, pc, file=file),
        )
    )
    rows = dict(block(blocks, KeyValues, "what happened").rows)
    assert rows["abort message"] == "free(): invalid pointer"
    prose(rows["C++ exception"])
    first = block(blocks, KeyValues, "what happened").rows[-2][1]
    assert first.startswith("c10::DistBackendError: NCCL error: unhandled system error")
    assert "all in --json" in first
    prose(rows["file"])
    assert rows["program counter"] == "0x1, not mapped"


def test_who_the_process_was(prose: Prose) -> None:
    process = Process(
        3097667, "x86_64", executable=PYTHON, hostname="node17", python_version="3.11.7",
        argv=("/opt/train/bin/python", "train.py", "--name", "two words"), rank=3, local_rank=3,
        world_size=8, launcher="torchrun", env_is_current=True,
        env=(("RANK", "3"), ("NCCL_DEBUG", "INFO"), ("HOME", "/home/u"), ("LS_COLORS", "x" * 999),
             ("PYTHONPATH", "p" * 999)),
    )  # fmt: skip
    memory = MemoryTotals(
        8 << 30, 5_583_457_485, (("heap", 4_939_212_390), ("stack", 0), ("odd", 5))
    )
    blocks = core_blocks(seed_view(process=process, memory=memory))
    rows = dict(block(blocks, KeyValues, "process").rows)
    assert rows["process"] == (
        "python train.py --name 'two words' · pid 3097667 · CPython 3.11.7 · host node17"
    )
    assert rows["rank"] == "3 of 8, local rank 3, by torchrun"
    prose(rows["memory"])
    variables = block(blocks, KeyValues, "environment")
    assert [name for name, _ in variables.rows] == ["RANK", "NCCL_DEBUG", "PYTHONPATH"]
    assert len(variables.rows[2][1]) < 200
    prose(variables.title)


def test_a_snapshot_opens_with_the_main_thread() -> None:
    threads = (
        Thread(7, frames=(native("poll", LIBC),)),
        Thread(5, frames=(native("work", "/x/liba.so"),)),
    )
    core = CoreFile("core", "gcore", 1, 1)
    blocks = core_blocks(
        view(Threads(threads, 5), signal=None, core=core, explanation="a snapshot by gcore")
    )
    assert block(blocks, Backtrace, "main thread 5").lines[0].function == "work"
    assert block(blocks, Table, "1 other thread in 1 group")
    assert block(blocks, KeyValues, "what happened").rows == (("snapshot", "a snapshot by gcore"),)


def test_locals_arguments_and_registers_are_shown_when_asked_for() -> None:
    frame = Frame("f", arguments=(("n", "3"),), locals=(("buffer", "x" * 500),))
    thread = Thread(1, crashed=True, frames=(frame,), registers={"rip": 16, "rsp": 255})
    one = view((thread,))

    def details(**how: bool) -> tuple[tuple[str, str], ...]:
        return block(core_blocks(one, **how), Backtrace, "crashed").lines[0].details

    assert details() == ()
    assert details(verbose=True) == (("n", "3"),)
    assert [name for name, _ in details(with_locals=True)] == ["n", "buffer"]
    assert len(details(with_locals=True)[1][1]) == 200
    assert block(core_blocks(one, verbose=True), Table, "registers").rows == (
        ("rip", "0x0000000000000010", "rsp", "0x00000000000000ff", "", ""),
    )


def test_waiting_threads_say_for_what_and_for_whom(prose: Prose) -> None:
    threads = (
        Thread(1, crashed=True, frames=(native("abort", LIBC),)),
        Thread(
            2,
            python_name="uploader",
            frames=(python("one", "/home/u/e.py", 7),),
            waits_for=Wait("lock 0x7f10", 0x7F10, 3),
        ),
    )
    table = block(core_blocks(view(threads)), Table, "1 other")
    ((name, place, words),) = table.rows
    assert (name, place) == ('Python thread "uploader" (2)', "one (e.py:7)")
    prose(words)


def test_the_crashing_module() -> None:
    facts = BinaryFacts(
        "/home/u/libmyops.so",
        ("libstdc++.so.6", "libc.so.6"),
        (("libstdc++.so.6", ("GLIBCXX_3.4", "GLIBCXX_3.4.29")),),
        runpath=("$ORIGIN",),
        static_tls=True,
    )
    rows = dict(
        block(core_blocks(seed_view(binary=facts)), KeyValues, "crashing module libmyops.so").rows
    )
    assert rows["needs"] == "libstdc++.so.6, libc.so.6"
    assert rows["versions"] == "libstdc++.so.6: GLIBCXX_3.4.29"
    assert rows["RUNPATH"] == "$ORIGIN"
    assert rows["static TLS"].startswith("yes")


def test_nothing_known_is_no_crash() -> None:
    blocks = core_blocks(view((), signal=None, explanation=""))
    assert not any(isinstance(item, Backtrace) for item in blocks)
    blocks = core_blocks(view((Thread(1, crashed=True, stopped="not in the core"),)))
    assert block(blocks, Backtrace, "crashed").lines[0].function == "no frames: not in the core"


def test_no_symbols_at_all(prose: Prose) -> None:
    frames = tuple(native("??", None, pc=number) for number in range(60))
    threads = tuple(Thread(tid, crashed=tid == 1, frames=frames) for tid in (1, 2, 3))
    blocks = core_blocks(view(threads))
    prose(block(blocks, Table, "2 other threads in 1 group").rows[0][1])


def test_a_deep_recursion() -> None:
    turn = (native("visit(node*)", "/x/liba.so"), native("walk(node*)", "/x/liba.so"))
    frames = (native("strlen", LIBC), *turn * 2051, native("main", "/home/u/bin/app"))
    stack = block(core_blocks(view((Thread(1, crashed=True, frames=frames),))), Backtrace, "crash")
    assert [line.function for line in stack.lines] == [
        "strlen", "visit", "walk", "2,050 more repeats of 2 frames: walk -> visit", "main",
    ]  # fmt: skip
    assert stack.lines[-1].index == 4103


def test_many_different_threads_are_counted() -> None:
    threads = tuple(
        Thread(tid, crashed=tid == 1, frames=(native(f"f{tid}", "/x/liba.so"),))
        for tid in range(1, 251)
    )
    table = block(core_blocks(view(threads)), Table, "249 other threads in 249 groups")
    assert len(table.rows) == 15
    assert table.rows[-1][0] == "235 threads in 235 more groups"
    every = core_blocks(view(threads), all_threads=True)
    assert len(block(every, Table, "249 other").rows) == 249


def test_250_threads_of_a_trainer_take_milliseconds() -> None:
    some = real_view("torch_terminate", 5839).threads.items
    threads = tuple(
        replace(some[number % len(some)], tid=number + 1, crashed=number == 0)
        for number in range(250)
    )
    many = view(threads)
    core_blocks(many)
    started = time.thread_time()
    core_blocks(many)
    assert time.thread_time() - started < 1.0  # 4 ms where it was written; seconds if quadratic


names = st.text(max_size=40) | st.sampled_from(["??", "a<b>::c(int)", "\x1b[31m", "\udc80"])


@given(st.lists(names, max_size=60), names, st.booleans())
def test_whatever_the_evidence_says_there_is_a_report(
    functions: list[str], path: str, verbose: bool
) -> None:
    frames = tuple(native(name, path) for name in functions)
    thread = Thread(1, crashed=True, name=path, frames=frames)
    assert core_blocks(view((thread,)), verbose=verbose, all_threads=True)


def test_a_walk_that_stopped_says_so_where_it_stopped(prose: Prose) -> None:
    thread = Thread(1, crashed=True, frames=(native("f", LIBC),), stopped="no unwind information")
    stack = block(core_blocks(view((thread,))), Backtrace, "crashed")
    assert stack.subtitle == "main thread · at least 1 frame"
    prose(stack.lines[-1].function)


def test_a_gap_in_a_deep_stack_is_shown_where_it_is(prose: Prose) -> None:
    turn = (native("visit", "/x/liba.so"), native("walk", "/x/liba.so"))
    frames = (native("strlen", LIBC), *turn * 100, native("main", "/home/u/bin/app"))
    thread = Thread(1, crashed=True, frames=frames, skipped_frames=3900, skipped_at=101)
    stack = block(core_blocks(view((thread,))), Backtrace, "crashed")
    assert stack.subtitle == "main thread · 4,102 frames"
    prose(*[line.function for line in stack.lines])  # fmt: skip
    plain = replace(thread, frames=frames[:2], skipped_at=1)
    lines = block(core_blocks(view((plain,))), Backtrace, "crashed").lines
    assert [line.index for line in lines] == [0, None, 1]
    prose(lines[1].function)


def test_the_instruction_is_shown_only_where_it_raised_the_signal() -> None:
    pc = Address(0x1000, mapped=True)
    odd = Address(0x4141414141414151, mapped=False)
    fault = Fault(pc, pc, operand=odd, instruction=Instruction(0x1000, b"\x0f\x0b", "ud2"))
    killed = core_blocks(seed_view(fault=fault))
    assert "ud2" not in text(killed)
    faulted = core_blocks(seed_view(fault=fault, signal=Signal(11, "SIGSEGV", 128, "SI_KERNEL")))
    rows = dict(block(faulted, KeyValues, "what happened").rows)
    assert rows["instruction"] == "ud2"
    assert rows["operand"] == "0x4141414141414151, not mapped"
    assert "address" not in rows
