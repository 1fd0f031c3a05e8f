"""What happened, who it was, and what to mistrust: the short facts of a core as blocks."""

import shlex

from postmortem.diagnose.core.signal_words import saved_by
from postmortem.facts.crash import INSTRUCTION_SIGNALS, CppException, Fault
from postmortem.facts.memory import Address, BinaryFacts, MappedFile, Module
from postmortem.facts.process import Process, SlimSource
from postmortem.knowledge.modules import VDSO, module_kind, short_name
from postmortem.present.core.view import CoreView
from postmortem.report.blocks import Block, KeyValues, Table
from postmortem.text import counted, cut, size, some

_LONGEST_MESSAGE = 600
_LONGEST_ARGUMENTS = 160
_LONGEST_VALUE = 160
_MOST_MODULES = 8
_MOST_VARIABLES = 24
_STATES = {"handled": "C++, handled", "unwinding": "C++, on its way"}

# Variables that decide how PyTorch, NCCL, OpenMP and the launchers behave; all of them are in the
# JSON report.
_RELEVANT_PREFIXES = (
    "NCCL_", "RCCL_", "CUDA_", "TORCH", "PYTORCH_", "C10D_", "GLOO_", "TP_", "OMP_", "GOMP_",
    "KMP_", "MKL_", "OPENBLAS_", "BLIS_", "HIP_", "ROCR_", "HSA_", "AMD_", "UCX_", "FI_", "OFI_",
    "PSM", "IBV_", "MASTER_", "TRITON_", "MALLOC_", "LD_", "PYTHON", "NVSHMEM_", "NVIDIA_VISIBLE",
    "OMPI_MCA_", "DEEPSPEED_", "ACCELERATE_", "SLURM_JOB_ID", "SLURM_STEP", "SLURM_PROCID",
    "SLURM_LOCALID", "SLURM_NTASKS", "SLURM_NODEID", "SLURM_JOB_NODELIST", "ASAN_", "TSAN_",
)  # fmt: skip
_RELEVANT = frozenset({
    "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "ROLE_RANK",
    "GLIBC_TUNABLES", "TMPDIR", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMI_SIZE", "VIRTUAL_ENV",
    "CONDA_PREFIX", "TOKENIZERS_PARALLELISM",
})  # fmt: skip


def what_happened(view: CoreView, *, verbose: bool) -> Block | None:
    """Return what the kernel and the run-time libraries said about the end of the process."""
    rows: list[tuple[str, str]] = []
    if view.explanation:
        label = view.signal.name if view.signal is not None else "snapshot"
        rows.append((label, view.explanation))
    if view.signal is not None and view.signal.sender_pid is not None and not view.explanation:
        rows.append(("sender", f"pid {view.signal.sender_pid}"))
    if (
        view.fault is not None
        and view.signal is not None
        and view.signal.name in INSTRUCTION_SIGNALS
    ):
        rows += _fault_rows(view.fault)
    if view.abort_message is not None:
        rows.append(("abort message", _cut(view.abort_message.text.strip(), verbose)))
    if view.fatal_python_error is not None and view.fatal_python_error.message:
        rows.append(("Python stopped", _cut(view.fatal_python_error.message, verbose)))
    if view.panic is not None:
        who = "the check" if view.panic.language == "C" else view.panic.language
        rows.append((f"{who} said", _cut(view.panic.text, verbose)))
    for exception in view.cpp_exceptions[:4]:
        rows.append(
            (_STATES.get(exception.state, "C++ exception"), _exception(exception, view, verbose))
        )
    for thread in view.threads:
        if thread.python_exception is not None and len(rows) < 16:
            error = thread.python_exception
            text = f"{error.type}: {error.message}" if error.message else error.type
            mine = "" if thread.crashed else f" (thread {thread.tid})"
            rows.append(("Python exception", _cut(text, verbose) + mine))
    return KeyValues(tuple(rows), title="what happened") if rows else None


def _fault_rows(fault: Fault) -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    instruction = fault.instruction
    if instruction is not None:
        text = instruction.text or instruction.code.hex(" ")
        touched = instruction.operand
        if touched is not None and instruction.operand_address is not None:
            verb = {"read": "reads", "write": "writes", "execute": "jumps to"}.get(
                instruction.access or "", "touches"
            )
            text += f"  ({verb} {touched} = {instruction.operand_address:#x})"
        if text:
            rows.append(("instruction", text))
    if fault.address is not None:
        rows.append(("address", f"{fault.address.value:#x}, {place(fault.address)}"))
    if fault.operand is not None and fault.operand != fault.address:
        # a general protection fault (SI_KERNEL) comes without an address: the operand has it
        rows.append(("operand", f"{fault.operand.value:#x}, {place(fault.operand)}"))
    if not fault.pc.mapped:
        rows.append(("program counter", f"{fault.pc.value:#x}, {place(fault.pc)}"))
    if fault.file is not None:
        rows.append(("file", _file(fault.file)))
    return rows


_NEAR = 1 << 32
"""Bytes up to which a neighbour says anything about an address; most are terabytes apart."""


def place(address: Address) -> str:
    """Return in words what lies at an address, or how far away the nearest mapping is."""
    if address.mapped:
        what = address.kind or "mapped memory"
        if address.path:
            what = f"{what} {address.path}"
        return f"in {what}" + (f" ({address.permissions})" if address.permissions else "")
    near: list[str] = []
    if address.above_start is not None and address.above_start - address.value < _NEAR:
        kind = address.above_kind or "mapping"
        near.append(f"{size(address.above_start - address.value)} below the next {kind}")
    if address.below_end is not None and address.value - address.below_end < _NEAR:
        near.append(f"{size(address.value - address.below_end)} above the last mapping before it")
    return "not mapped" + (f": {', '.join(near)}" if near else "")


def _file(file: MappedFile) -> str:
    parts = [f"{file.path} at offset {file.offset:,}"]
    if file.deleted_then:
        parts.append("already deleted when the core was written")
    if file.elsewhere:
        parts.append("of another machine: its state is not known here")
    elif not file.exists:
        parts.append("not on this machine now")
    elif file.size is not None:
        parts.append(f"now {file.size:,} bytes long")
    if file.filesystem_free is not None:
        kind = f"{file.filesystem_type} " if file.filesystem_type else ""
        of = f" of {size(file.filesystem_size)}" if file.filesystem_size is not None else ""
        parts.append(f"its {kind}file system has {size(file.filesystem_free)}{of} free now")
    return "; ".join(parts)


def _exception(exception: CppException, view: CoreView, verbose: bool) -> str:
    text = exception.type
    if exception.what is not None:
        text += f": {_cut(exception.what, verbose)}"
    remarks = []
    crashed = view.threads.crashed
    if crashed is None or crashed.tid != exception.tid:
        remarks.append(f"thread {exception.tid}")
    if exception.found_by == "stack":
        remarks.append("found by a pointer on the stack")
    return text + (f" ({', '.join(remarks)})" if remarks else "")


def _cut(text: str, verbose: bool) -> str:
    # what() of c10::Error carries a backtrace of many lines behind the message
    if verbose or (len(text) <= _LONGEST_MESSAGE and text.count("\n") < 8):
        return text
    head = "\n".join(text[:_LONGEST_MESSAGE].split("\n")[:8])
    return f"{head} … ({len(text):,} characters, all in --json)"


def identity(view: CoreView, *, verbose: bool) -> Block:
    """Return who the process was, its memory, and its core."""
    process = view.process
    rows = [("process", " · ".join(_who(process, verbose=verbose)))]
    if process.role:
        rows.append(("role", f"{process.role}, started by process {process.ppid}"))
    ranks = _ranks(process)
    if ranks:
        rows.append(("rank", ranks))
    memory, core = view.memory, view.core
    kinds = ", ".join(f"{size(count)} {kind}" for kind, count in memory.by_kind[:5] if count)
    held = f"{size(memory.dumped_bytes)} in the core of {size(memory.mapped_bytes)} mapped"
    rows.append(("memory", f"{held}: {kinds}" if kinds else held))
    origin = "written by the kernel"
    if core.origin != "kernel":
        is_crash = view.threads.crashed is not None
        by = {"gcore": "gdb", "a tool": "a tool, not the kernel or gdb,"}.get(
            name := saved_by(core, view.modules), name
        )
        origin = f"saved by {by} when the signal came" if is_crash else f"a snapshot by {by}"
    text = f"{core.path} · {size(core.size_bytes)} · {origin}"
    if core.truncated:
        text += f" · cut: {size(core.expected_bytes - core.size_bytes)} are missing at the end"
    rows.append(("core", text))
    if core.slim is not None:
        rows.append(("slim", _slim(core.slim)))
    if view.signature is not None:
        rows.append(("signature", f"{view.signature.hash} · {view.signature.summary}"))
    return KeyValues(tuple(rows), title="process")


def _slim(source: SlimSource) -> str:
    text = (
        f"holds {size(source.kept_bytes)} of memory, what readers of stacks need; the rest of a "
        f"core of {size(source.source_bytes)} is left out by design"
    )
    if source.source_expected_bytes > source.source_bytes:
        text += f" (that core was cut: {size(source.source_expected_bytes)} were promised)"
    return text


def _who(process: Process, *, verbose: bool) -> list[str]:
    parts = [_command(process, verbose=verbose), f"pid {process.pid}"]
    if process.python_version:
        parts.append(f"CPython {process.python_version}")
    if process.hostname:
        parts.append(f"host {process.hostname}")
    if process.crashed_at is not None:
        parts.append(f"died {_moment(process.crashed_at)}")
    if process.machine != "x86_64" or verbose:
        parts.append(process.machine)
    if verbose and process.executable:
        parts.append(process.executable)
    return parts


def _moment(seconds: float) -> str:
    """Return a time in UTC, which is nobody's local time and so the same for all who read it."""
    import time

    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))


def _command(process: Process, *, verbose: bool) -> str:
    if not process.argv:
        return process.executable or process.command or "unknown program"
    if verbose:
        return shlex.join(process.argv)
    # /opt/conda/envs/train/bin/python says no more than python, and the rest is what matters
    text = shlex.join((process.argv[0].rpartition("/")[2] or process.argv[0], *process.argv[1:]))
    if len(text) <= _LONGEST_ARGUMENTS:
        return text
    return f"{text[: _LONGEST_ARGUMENTS - 1]}… ({counted(len(process.argv), 'argument')})"


def _ranks(process: Process) -> str | None:
    parts = []
    if process.rank is not None:
        of = "" if process.world_size is None else f" of {process.world_size}"
        parts.append(f"{process.rank}{of}")
    if process.local_rank is not None:
        parts.append(f"local rank {process.local_rank}")
    if parts and process.launcher:
        parts.append(f"by {process.launcher}")
    return ", ".join(parts) or None


def environment(view: CoreView, *, verbose: bool) -> Block | None:
    """Return the variables that decide how such programs behave."""
    rows = [
        (name, value if verbose else cut(value, _LONGEST_VALUE + 1))
        for name, value in view.process.env
        if name in _RELEVANT or name.startswith(_RELEVANT_PREFIXES)
    ]
    if not rows:
        return None
    if not verbose and len(rows) > _MOST_VARIABLES:
        rest = [name for name, _ in rows[_MOST_VARIABLES:]]
        rows[_MOST_VARIABLES:] = [(f"{len(rest)} more", some(rest, 6))]
    when = "when it died" if view.process.env_is_current else "as it was started"
    return KeyValues(
        tuple(rows), title=f"environment {when} (of {len(view.process.env)} variables)"
    )


def trouble(view: CoreView) -> Block | None:
    """Return what makes parts of this report less than certain."""
    on_stack = {frame.module for thread in view.threads for frame in thread.frames}
    rows: list[tuple[str, str]] = []
    if view.core.truncated:
        there, all_of_it = size(view.core.size_bytes), size(view.core.expected_bytes)
        rows.append(("core", f"cut: {there} of {all_of_it} are there; stacks may be incomplete"))
    mismatched = [m for m in view.modules if m.status == "mismatch"]
    mismatched.sort(key=lambda module: module.path not in on_stack)
    rows += [(short_name(m.path) or m.path, _mismatch(m)) for m in mismatched[:_MOST_MODULES]]
    if len(mismatched) > _MOST_MODULES:
        rest = [short_name(m.path) for m in mismatched[_MOST_MODULES:]]
        rows.append((counted(len(rest), "more"), f"not the builds that crashed: {some(rest)}"))
    for status, words in (
        ("missing", "not on this machine: its frames have no names; --sysroot says where it is"),
        ("unverified", "has no build ID to compare: its names may be wrong"),
    ):
        found = [m for m in view.modules if m.status == status and _is_file(m)]
        seen = [m for m in found if m.path in on_stack]
        gone = "was deleted or replaced while the process ran: its frames have no names"
        rows += [
            (short_name(m.path) or m.path, gone if m.deleted else words)
            for m in seen[:_MOST_MODULES]
        ]
        rest = [short_name(m.path) for m in (*seen[_MOST_MODULES:], *found) if m not in seen]
        if rest:
            rows.append((f"{len(rest):,} {status}", f"on no stack: {some(rest, 5)}"))
    return KeyValues(tuple(rows), title="trouble") if rows else None


def _is_file(module: Module) -> bool:
    return module_kind(module.path).area != VDSO and not module.path.startswith("[")


def _mismatch(module: Module) -> str:
    here, then = _id(module.disk_build_id), _id(module.build_id)
    where = f" ({module.disk_path})" if module.disk_path not in (None, module.path) else ""
    return (
        f"the file on disk{where} is not the one that crashed (build ID {here} here, {then} in the "
        "core): its frames have no names"
    )


def _id(build_id: str | None) -> str:
    return "none" if not build_id else f"{build_id[:8]}…"


def memory_table(view: CoreView) -> Table:
    """Return what the core holds, by kind of memory."""
    rows = tuple((kind, size(count), f"{count:,}") for kind, count in view.memory.by_kind)
    return Table(("kind", "in the core", "bytes"), rows, "memory by kind", right_aligned=(1, 2))


def module_table(view: CoreView) -> Table:
    """Return all modules, for the full view."""
    rows = tuple((f"{m.start:#x}", m.status, m.build_id or "none", m.path) for m in view.modules)
    return Table(("start", "status", "build ID", "file"), rows, "modules")


def binary(facts: BinaryFacts, *, verbose: bool) -> Block:
    """Return what the linker wrote into the module that the crash is in."""
    rows = [("needs", some(facts.needed, 40 if verbose else 6) or "nothing")]
    for library, versions in facts.versions if verbose else ():
        rows.append((library, ", ".join(versions)))
    if not verbose:
        newest = [f"{lib}: {v[-1]}" for lib, v in facts.versions if v]
        if newest:
            rows.append(("versions", some(newest, 4)))
    if facts.runpath or facts.rpath:
        kind, folders = ("RUNPATH", facts.runpath) if facts.runpath else ("RPATH", facts.rpath)
        rows.append((kind, ":".join(folders)))
    if facts.static_tls:
        rows.append(
            ("static TLS", "yes: dlopen fails when the reserve of the C library is used up")
        )
    return KeyValues(tuple(rows), title=f"crashing module {short_name(facts.path)}")
