"""The border to C++: functions only, plain values in bulk, no object of ours.

Text from evidence is decoded as file names are (UTF-8 with ``surrogateescape``), so that paths
can be opened again; renderers make it printable.
"""

from typing import TypedDict

class RawProblem(TypedDict):
    where: str
    what: str
    remedy: str | None

class RawSignal(TypedDict):
    number: int
    code: int | None
    address: int | None
    sender_pid: int | None
    sender_uid: int | None

class RawFrame(TypedDict):
    pc: int
    """Program counter; in all frames but the innermost a return address."""
    trust: str
    """``"context"``, ``"cfi"``, ``"frame_pointer"`` or ``"scan"``."""
    module: int | None
    """Index into `modules`."""
    module_offset: int | None
    """Link-time address of `pc` in its module."""
    function: str | None
    """Demangled; None when no symbol covers the address, or the module is not the same build.

    ``"<signal handler called>"``, gdb's words, for the frame between a handler and what it
    interrupted.
    """
    function_offset: int | None
    """Distance of `pc` from the start of the symbol."""

class RawThread(TypedDict):
    tid: int
    signal: int
    """What `pr_cursig` says; the crashed thread has the fatal signal here."""
    registers: tuple[int, ...]
    """In the order of `register_names`."""
    frames: list[RawFrame]
    stopped: str | None
    """Why the walk ended before the outermost frame."""
    skipped: int
    """Frames left out of the middle of a stack that is longer than `max_frames`."""
    skipped_at: int | None
    """Index in `frames` of the first frame behind the gap; None when nothing was left out."""

class RawModule(TypedDict):
    path: str
    start: int
    end: int
    build_id: str | None
    disk_path: str | None
    disk_build_id: str | None
    status: str
    has_debug_lines: bool

class RawAddress(TypedDict):
    value: int
    mapped: bool
    start: int | None
    end: int | None
    permissions: str | None
    kind: str | None
    path: str | None
    file_offset: int | None
    above_start: int | None
    above_kind: str | None
    below_end: int | None

class RawInstruction(TypedDict):
    pc: int
    code: bytes
    operand: str | None
    operand_address: int | None
    access: str | None
    feature: str | None

class RawException(TypedDict):
    tid: int
    type: str
    what: str | None
    found_by: str
    state: str
    """``"uncaught"`` or ``"handled"``."""
    base_types: tuple[str, ...]

class RawCore(TypedDict):
    machine: str
    origin: str
    size_bytes: int
    expected_bytes: int
    page_size: int
    pid: int
    ppid: int | None
    uid: int | None
    command: str | None
    command_line: str | None
    """`pr_psargs`: the first 80 bytes of the command line, arguments joined by blanks."""
    executable: str | None
    crashed_tid: int | None
    """None in a snapshot."""
    signal: RawSignal | None
    register_names: tuple[str, ...]
    threads: list[RawThread]
    argv: list[str]
    initial_env: list[str]
    env: list[str] | None
    """libc's ``environ`` at the end; None when it cannot be read."""
    modules: list[RawModule]
    abort_message: str | None
    exceptions: list[RawException]
    python_version: str | None
    fault: RawAddress | None
    pc: RawAddress | None
    sp: RawAddress | None
    operand: RawAddress | None
    instruction: RawInstruction | None
    mapped_bytes: int
    dumped_bytes: int
    memory_by_kind: list[tuple[str, int, int]]
    """Kind, mapped bytes, dumped bytes."""
    problems: list[RawProblem]

def read_core(
    path: str,
    *,
    executable: str | None = None,
    sysroot: str | None = None,
    stacks: bool = True,
    max_frames: int = 512,
) -> RawCore:
    """Read a core file: everything that does not need a debugger.

    `executable` stands for the main program instead of the path that the core names; `sysroot` is
    a folder under which the mapped files are looked up. Raises `postmortem.errors.EvidenceError`
    when the file is not a core that can be read at all; a part that cannot be read is a row of
    `problems`.
    """

def decode_instruction(
    machine: str, code: bytes, pc: int, registers: list[int]
) -> list[RawInstruction]:
    """Return one row per memory operand of an instruction, explicit ones first; at least one row.

    `registers` are in the order of `RawCore.register_names`.
    """

def demangle(names: list[str]) -> list[str]:
    """Return C++ names in source form; a name that is not mangled comes back as it is."""

def build_id(path: str) -> str | None:
    """Return the build ID of an ELF file in hex, None if it has none or is not ELF."""
