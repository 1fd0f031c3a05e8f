"""Facts of a core made by hand, with stacks that gdb 13 printed for real crashes.

`stacks/NAME.txt` holds what ``thread apply all bt`` said of a core, one frame a line: function,
module, file, line, and ``i`` for an inlined call, separated by tabs. ctypes_null: ``ctypes.
string_at(0)`` beside six sleeping threads; torch_terminate: PyTorch 2.13 on the CPU, 16 OpenMP
threads, an exception that leaves a ``std::thread``; heap: ``free()`` of a wrong pointer; deadlock:
two locks taken in opposite order, killed by SIGABRT (all CPython 3.11, glibc 2.36).
"""

from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from postmortem.facts.crash import Signal
from postmortem.facts.memory import MemoryTotals, Modules
from postmortem.facts.process import CoreFile, Process
from postmortem.facts.threads import Frame, Thread, Threads, Trust
from postmortem.present.core.view import CoreView
from postmortem.report.blocks import Backtrace, Block, KeyValues, Table

Kind = TypeVar("Kind")
PYTHON = "/opt/train/bin/python3.11"
LIBC = "/lib64/libc.so.6"
LIBSTDCXX = "/lib64/libstdc++.so.6"
TORCH_CUDA = "/opt/train/lib/python3.8/site-packages/torch/lib/libtorch_cuda_cpp.so"


def native(function: str, module: str | None = None, **fields: object) -> Frame:
    """Return a native frame found by unwind tables."""
    return replace(Frame(function, module=module, trust=Trust.CFI), **fields)


def python(function: str, file: str, line: int) -> Frame:
    """Return a Python frame."""
    return Frame(function, "python", file=file, line=line, trust=Trust.PYTHON)


def stacks(name: str) -> dict[int, tuple[Frame, ...]]:
    """Return the stacks of a real core by thread id, the crashed thread first."""
    found: dict[int, list[Frame]] = {}
    text = (Path(__file__).parent / "stacks" / f"{name}.txt").read_text("utf-8")
    for line in text.splitlines():
        if line.startswith("thread "):
            frames = found[int(line.split()[1])] = []
            continue
        function, module, file, number, inlined = line.split("\t")
        frame = Frame(
            function,
            pc=0x7F0000000000 + 16 * len(frames),
            module=module or None,
            file=file or None,
            line=int(number) if number else None,
            inlined=inlined == "i",
            trust=Trust.GDB,
        )
        frames.append(frame)
    return {tid: tuple(found[tid]) for tid in reversed(found)}


def view(
    threads: tuple[Thread, ...] | Threads, *, main_tid: int | None = None, **fields: object
) -> CoreView:
    """Return a core of these threads; everything else can be given by name."""
    if not isinstance(threads, Threads):
        first = threads[0].tid if threads else 0
        threads = Threads(threads, main_tid if main_tid is not None else first)
    pid = threads.main_tid
    plain = CoreView(
        core=CoreFile("core.17", "kernel", 1_932_735_283, 1_932_735_283),
        process=Process(
            pid, "x86_64", executable=PYTHON, argv=("/opt/train/bin/python", "train.py")
        ),
        threads=threads,
        modules=Modules(()),
        memory=MemoryTotals(3 << 30, 2 << 30, (("heap", 1 << 30), ("thread stack", 300 << 20))),
        signal=Signal(6, "SIGABRT", -6, "SI_TKILL", sender_pid=pid, sender_uid=1000),
        explanation="the process called abort()",
    )
    return replace(plain, **fields)


def real_view(name: str, main_tid: int, **fields: object) -> CoreView:
    """Return a core with the stacks of a real one; its first thread crashed."""
    found = stacks(name)
    first = next(iter(found))
    threads = tuple(Thread(tid, crashed=tid == first, frames=f) for tid, f in found.items())
    return view(threads, main_tid=main_tid, **fields)


def seed_frames() -> tuple[Frame, ...]:
    """Return the stack of the example in the ml-engineering book (PyTorch 1.11, Python 3.8)."""
    return (
        native("raise", LIBC, trust=Trust.CONTEXT),
        native("abort", LIBC),
        native("__gnu_cxx::__verbose_terminate_handler() [clone .cold.1]", LIBSTDCXX),
        native("__cxxabiv1::__terminate(void (*)())", LIBSTDCXX),
        native("std::terminate()", LIBSTDCXX),
        native("std::rethrow_exception(std::__exception_ptr::exception_ptr)", LIBSTDCXX),
        native("c10d::ProcessGroupNCCL::WorkNCCL::handleNCCLGuard()", TORCH_CUDA),
        native("c10d::ProcessGroupNCCL::workCleanupLoop()", TORCH_CUDA),
        native("execute_native_thread_routine", LIBSTDCXX),
        native("start_thread", "/lib64/libpthread.so.0"),
        native("clone", LIBC),
    )


def block(blocks: tuple[Block, ...], kind: type[Kind], title: str) -> Kind:
    """Return the one block of a kind whose title starts so."""
    found = [b for b in blocks if isinstance(b, kind) and (b.title or "").startswith(title)]
    assert len(found) == 1, [getattr(b, "title", None) for b in blocks]
    return found[0]


def text(blocks: tuple[Block, ...]) -> str:
    """Return blocks as plain lines, one a row, to read and to search in tests."""
    lines: list[str] = []
    for item in blocks:
        lines.append(f"== {getattr(item, 'title', '')} {getattr(item, 'subtitle', '') or ''}")
        if isinstance(item, Backtrace):
            for row in item.lines:
                index = "…" if row.index is None else str(row.index)
                cells = [index, row.function, row.module, row.location, row.note]
                mark = f"<- {row.marker}" if row.marker else None
                lines.append("  ".join(filter(None, (*cells, mark))))
        elif isinstance(item, KeyValues | Table):
            lines += ["  ".join(row) for row in item.rows]
    return "\n".join(lines)
