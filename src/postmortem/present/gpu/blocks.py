"""The blocks of a report on a GPU's dump."""

from collections.abc import Iterator

from postmortem.diagnose.gpu.words import line_of, short_kernel, triple
from postmortem.facts.gpu_core import GpuCore, GpuFault, GpuFrame, GpuMemory, GpuRegisters
from postmortem.knowledge.cuda_exceptions import cuda_exception
from postmortem.report.blocks import (
    Backtrace,
    BacktraceLine,
    Block,
    Excerpt,
    KeyValues,
    Table,
    Tone,
)
from postmortem.text import counted, more, size

_SHOWN = 8
_SHOWN_VERBOSE = 64
_PER_LINE = 16


def gpu_blocks(core: GpuCore, *, verbose: bool) -> tuple[Block, ...]:
    """Return what is shown beside the diagnoses."""
    found: list[Block] = [KeyValues(tuple(_facts(core)))]
    if core.queues:
        found.append(_queues(core, _SHOWN_VERBOSE if verbose else _SHOWN))
    if core.faults:
        found.append(_stack(core.faults[0]))
    if len(core.faults) > 1:
        found.append(_faults(core, _SHOWN_VERBOSE if verbose else _SHOWN))
    if core.stands:
        found.append(_stands(core, _SHOWN_VERBOSE if verbose else _SHOWN))
    if verbose and core.kernels:
        found.append(_kernels(core))
    if verbose and core.registers is not None:
        found += _registers(core.registers)
    return tuple(found)


def _facts(core: GpuCore) -> Iterator[tuple[str, str]]:
    if core.pid is not None:
        host = f" on {core.hostname}" if core.hostname else ""
        yield "process", f"pid {core.pid}{host} (by the file's name)"
    for number, one in enumerate(core.devices):
        words = f"{one.name}, {one.architecture}, PCI {one.bus}"
        if one.multiprocessors is not None:
            words += ", " + counted(one.multiprocessors, "multiprocessor")
        yield f"GPU {number}", "; ".join([words, *one.exceptions])
    if core.driver or core.cuda:
        yield "driver", (core.driver or "not said") + (f", CUDA {core.cuda}" if core.cuda else "")
    if core.vendor == "AMD":
        yield (
            "code objects",
            ", ".join(f"0x{one:x}" for one in core.code_objects[:_SHOWN]) or "none",
        )
        yield "memory in the dump", size(core.global_bytes)
        return
    kernel = None
    if core.faults and core.faults[0].has_thread:
        first = core.faults[0].first
        kernel = core.kernel_of(first.device, first.grid)
        if kernel is not None:
            shape = f"grid {triple(kernel.grid_size)} of blocks {triple(kernel.block_size)}"
            if kernel.cluster_size is not None:
                shape += f" in clusters {triple(kernel.cluster_size)}"
            yield "kernel", f"{kernel.name or 'its code is not in the dump'}; {shape}"
            if kernel.host_tid is not None:
                wait = ", which waited for it" if kernel.blocking else ", which went on meanwhile"
                yield "launched by", f"thread {kernel.host_tid}{wait}"
        yield (
            "thread",
            f"block {triple(first.block)}, thread {triple(first.thread)}: GPU {first.device}, "
            f"multiprocessor {first.multiprocessor}, warp {first.warp}, lane {first.lane}",
        )
    yield (
        "on the GPU",
        f"{counted(core.blocks, 'block')}, {counted(core.warps, 'warp')}, "
        f"{counted(core.threads, 'thread')}",
    )
    lines = f"{core.modules_with_lines} with lines"
    yield "modules of code", f"{core.modules_with_code} of {core.modules} in the dump, {lines}"
    memory = core.global_bytes + core.shared_bytes + core.local_bytes
    yield "memory in the dump", size(memory) if memory else "none (a lightweight dump)"


def _stack(fault: GpuFault) -> Backtrace:
    lines: list[BacktraceLine] = []
    for index, frame in enumerate(fault.frames):
        lines += _lines(frame, index)
    who = f"block {triple(fault.first.block)}, thread {triple(fault.first.thread)}"
    title = f"GPU stack of {who}" if fault.has_thread else "where the GPU failed"
    return Backtrace(title, tuple(lines))


def _lines(frame: GpuFrame, index: int) -> Iterator[BacktraceLine]:
    if not frame.places:
        yield BacktraceLine(f"0x{frame.pc:x}", index, note="its code is not in the dump")
    for place in frame.places:
        where = f"{place.file}:{place.line}" if place.file and place.line else place.file
        yield BacktraceLine(
            place.function or f"0x{frame.pc:x}",
            index,
            location=where,
            note="inlined" if place.inlined else None,
            tone=Tone.STRONG if index == 0 else Tone.PLAIN,
        )


def _faults(core: GpuCore, most: int) -> Table:
    rows = []
    for one in core.faults[:most]:
        name = cuda_exception(one.code).name if one.code else "TRAP"
        where = line_of(one.frames[0]) if one.frames else None
        who = f"{triple(one.first.block)} {triple(one.first.thread)}" if one.has_thread else "–"
        pc = f"0x{one.pc:x}" if one.pc is not None else "–"
        rows.append(
            (
                name,
                str(one.threads),
                str(one.warps),
                str(one.first.multiprocessor),
                who,
                where or pc,
            )
        )
    columns = ("exception", "threads", "warps", "sm", "first block and thread", "where")
    return Table(columns, tuple(rows), title="all that failed", right_aligned=(1, 2, 3))


def _stands(core: GpuCore, most: int) -> Table:
    rows = []
    for one in core.stands[:most]:
        kernel = core.kernel_of(one.device, one.grid)
        name = (
            short_kernel(kernel.name) if kernel is not None and kernel.name else f"grid {one.grid}"
        )
        frame = one.frames[0]
        where = line_of(frame) or f"0x{frame.pc:x}"
        remark = f", {one.failed} failed" if one.failed else ""
        remark += f", {one.threads - one.active} diverged" if one.active < one.threads else ""
        remark += f", {one.in_system} in the driver's code" if one.in_system else ""
        first = triple(one.some[0].block)
        blocks = f"{one.blocks} from {first}" if one.blocks > 1 else first
        cells = (str(one.warps), str(one.threads), blocks, name, where + remark)
        rows.append(cells)
    left = len(core.stands) + core.stands_left_out - len(rows)
    title = "where the warps stood" + more(left, " (and {} more places)")
    columns = ("warps", "threads", "blocks", "kernel", "where")
    return Table(columns, tuple(rows), title=title, right_aligned=(0, 1))


def _queues(core: GpuCore, most: int) -> Table:
    rows = tuple(
        (
            *(str(one.id), "–" if one.device is None else str(one.device)),
            *(size(one.saved_bytes), "; ".join(one.exceptions) or "–"),
        )
        for one in core.queues[:most]
    )
    left = len(core.queues) - len(rows)
    title = "queues" + more(left, " (and {} more)")
    return Table(("queue", "GPU", "saved waves", "noted"), rows, title=title, right_aligned=(0, 1))


def _kernels(core: GpuCore) -> Table:
    rows = tuple(
        (
            *(str(one.device), str(one.grid), triple(one.grid_size), triple(one.block_size)),
            *(str(one.blocks), str(one.registers), one.name or "–"),
        )
        for one in core.kernels[:_SHOWN_VERBOSE]
    )
    columns = ("GPU", "grid", "blocks", "threads", "running", "registers", "kernel")
    return Table(columns, rows, title="kernels", right_aligned=(0, 1, 4, 5))


def _registers(one: GpuRegisters) -> Iterator[Block]:
    rows = [
        (f"R{start}…", " ".join(f"{value:08x}" for value in one.registers[start : start + 8]))
        for start in range(0, len(one.registers), 8)
    ]
    if one.predicates:
        rows.append(("predicates", " ".join(str(value & 1) for value in one.predicates)))
    if any(one.uniform):
        last = max(i for i, value in enumerate(one.uniform) if value)
        rows.append(("UR0…", " ".join(f"{value:08x}" for value in one.uniform[: last + 1])))
    rows.append(("lanes", f"valid {one.valid_lanes:08x}, active {one.active_lanes:08x}"))
    yield KeyValues(tuple(rows), title="registers of that thread")
    for name, memory in (("local memory of that thread", one.local), ("shared memory", one.shared)):
        if memory is not None and memory.data:
            yield _memory(name, memory)


def _memory(name: str, memory: GpuMemory) -> Excerpt:
    lines = tuple(
        (None, f"{memory.address + at:08x}  {memory.data[at : at + _PER_LINE].hex(' ', 4)}")
        for at in range(0, len(memory.data), _PER_LINE)
    )
    return Excerpt(f"{name}, {len(memory.data)} of {memory.size} bytes", lines)
