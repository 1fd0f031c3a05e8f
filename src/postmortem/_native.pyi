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

class RawPythonFrame(TypedDict):
    function: str
    """Qualified (``Class.method``) since CPython 3.11."""
    file: str | None
    """`co_filename`."""
    line: int | None
    """None when the instruction belongs to no line, or the line table cannot be read."""
    entry: bool
    """An evaluator call ends behind this frame: its caller is C code."""
    evaluators: int
    """How many calls of `_PyEval_EvalFrameDefault` end between this frame and the next outer one;
    0: the same call runs both (3.11 and later); more than 1: the outer ones run no frame any
    more, as while a frame's variables are destroyed (3.12 and later)."""
    locals: list[tuple[str, str]]
    """Name and value as text, bounded; nothing was executed. Empty unless asked for."""

class RawTracebackLine(TypedDict):
    file: str | None
    line: int | None
    function: str

class RawLinkedException(TypedDict):
    relation: str
    """``"cause"`` (raise ... from) or ``"context"`` (raised while this one was handled)."""
    type: str
    message: str

class RawPythonException(TypedDict):
    type: str
    """With its module, unless that is `builtins` or `__main__`."""
    message: str
    """What `BaseException.__str__` makes of the arguments (a class's own is not run); at most
    4096 characters of text."""
    traceback: list[RawTracebackLine]
    """Outermost first, as Python prints it; at most 64 lines."""
    traceback_skipped: int
    """Lines left out behind the first 16."""
    chain: list[RawLinkedException]
    """From it back to the first exception, at most 8."""

class RawHeldLock(TypedDict):
    object: int
    word: int
    """What waiting threads wait on: the `sem_t` of the lock."""
    recursive: bool
    """An RLock."""
    frame: int
    """Index in the thread's Python frames, before any were left out."""

class RawPythonThread(TypedDict):
    """A thread of an interpreter; one that runs code in several interpreters is in each."""

    tid: int | None
    """None when no thread of the core belongs to it (a fork left it behind)."""
    name: str | None
    """`threading.Thread.name`; None when `threading` does not know the thread."""
    holds_gil: bool
    frames: list[RawPythonFrame]
    """Innermost first."""
    idle_evaluators: int
    """Evaluator calls that run no frame, in front of the innermost frame."""
    skipped: int
    """Frames left out of the middle of more than 2048."""
    skipped_at: int | None
    stopped: str | None
    """Why the chain of frames ended early."""
    held: list[RawHeldLock]
    """Locks that a `with` statement of the thread has taken and not released (3.8 to 3.13)."""
    raised: RawPythonException | None
    """Set, and not yet caught: C code is on its way back to a handler."""
    handled: RawPythonException | None
    """What `sys.exception()` would say: an except or finally block is running."""

class RawFutexWait(TypedDict):
    """A thread that stood in futex(2), in an operation that waits."""

    tid: int
    address: int
    operation: int
    """Without the flags PRIVATE and CLOCK_REALTIME."""
    expected: int
    words: list[int] | None
    """The word and the four behind it, 32 bits each; None when the core does not hold it."""

class RawPython(TypedDict):
    version: str
    """``"3.11.7"``; ``"3.11"`` when the exact one cannot be read."""
    library: str
    """Module that holds the interpreter."""
    gil_holder: int | None
    """Thread id; None when nobody holds it (a C call may have released it)."""
    threads: list[RawPythonThread]

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
    futex_waits: list[RawFutexWait]
    python: RawPython | None
    """None when no interpreter is there, none that can be read (then `problems` says why), or it
    was not asked for."""
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
    python: bool = True,
    python_locals: bool = False,
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
