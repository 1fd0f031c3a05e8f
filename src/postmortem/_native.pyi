"""The border to C++: functions only, plain values in bulk, no object of ours.

Text from evidence is decoded as file names are (UTF-8 with ``surrogateescape``), so that paths
can be opened again; renderers make it printable.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NotRequired, TypedDict

from _typeshed import WriteableBuffer
from numpy.typing import NDArray

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
    system_call: int | None
    """Of a SIGSYS by seccomp: the number of the call."""
    call_machine: int | None
    """Whose numbering that is (AUDIT_ARCH_…)."""

RawPlace = tuple[str | None, str | None, int]
"""Function, source file as the compiler saw it, line."""

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
    places: list[RawPlace] | None
    """Inlined calls, the innermost first, then the function itself; None where DWARF is silent."""
    function_offset: int | None
    """Distance of `pc` from the start of the symbol."""

class RawThread(TypedDict):
    tid: int
    signal: int
    """What `pr_cursig` says; the crashed thread has the fatal signal here."""
    registers: tuple[int, ...]
    """In the order of `register_names`."""
    handles: RawSignal | None
    """The fault, or what another process sent, whose handler it runs."""
    frames: list[RawFrame]
    """Of threads with equal stacks the same list."""
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
    status: Literal["ok", "missing", "mismatch", "unverified"]
    bias: int
    deleted: bool
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
    target: int | None
    transfer: str | None
    alignment: int
    divisor: int | None

class RawCaught(TypedDict):
    """The signal that a handler of the process was called for, on the crashed thread."""

    signal: RawSignal
    in_handler: bool
    """False: the handler had returned, and the signal it raised again came at once."""
    registers: tuple[int, ...]
    fault: RawAddress | None
    pc: RawAddress | None
    sp: RawAddress | None
    operand: RawAddress | None
    instruction: RawInstruction | None

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
    locals: tuple[tuple[str, str], ...]
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
    traceback: tuple[RawTracebackLine, ...]
    """Outermost first, as Python prints it; at most 64 lines."""
    traceback_skipped: int
    """Lines left out behind the first 16."""
    chain: tuple[RawLinkedException, ...]
    """From it back to the first exception, at most 8."""

class RawLock(TypedDict):
    """A `threading.Lock` or `RLock`."""

    object: int
    word: int
    """What waiting threads wait on: the `sem_t` of the lock."""
    recursive: bool
    """An RLock."""
    owner: int
    """Of an RLock, `threading.get_ident()` of the thread that holds it; 0: nobody."""
    owner_tid: int | None

class RawHeldLock(RawLock):
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
    held: tuple[RawHeldLock, ...]
    """Locks that a `with` statement of the thread has taken and not released (3.8 to 3.13)."""
    at_hand: tuple[RawLock, ...]
    """Locks in any slot of the innermost frame, in use or left behind (3.8 to 3.13)."""
    end_word: int
    """What `Thread.join` waits on until this thread ends (3.8 to 3.12); 0: not known."""
    object: int
    """Address of its `threading.Thread`; 0: not known."""
    receiver: int
    """Address of the first argument of the innermost frame (`self`); 0: it has none."""
    raised: RawPythonException | None
    """Set, and not yet caught: C code is on its way back to a handler."""
    handled: RawPythonException | None
    """What `sys.exception()` would say: an except or finally block is running."""

class RawAsyncTask(TypedDict):
    """A task of asyncio that has not ended (3.11 to 3.14)."""

    object: int
    name: str
    tid: int | None
    """Of the thread that runs its event loop; None: not known, or none does."""
    running: bool
    """Its innermost frame is on the stack of that thread."""
    nothing_due: bool
    """Its loop has no call due, now or later, and watches nothing but its own waking pipe."""
    waits_on: str | None
    """Type of the future that wakes it."""
    waits_for: tuple[int, ...]
    """Addresses of that future, and of what `asyncio.gather` gathers."""
    frames: list[RawPythonFrame]
    """From what it awaits to its own coroutine."""

class RawGreenlet(TypedDict):
    """A greenlet that is switched out."""

    object: int
    name: str | None
    """Its attribute `name`."""
    type: str
    """``"greenlet"``, ``"Greenlet"`` (gevent), ``"Hub"``."""
    main: bool
    """What its thread began with."""
    tid: int | None
    """Of its thread; None: not known."""
    frames: list[RawPythonFrame]
    """From where it will go on to its outermost call."""

class RawFutexWait(TypedDict):
    """A thread that stood in futex(2), in an operation that waits."""

    tid: int
    address: int
    operation: int
    """Without the flags PRIVATE and CLOCK_REALTIME."""
    expected: int
    timed: bool
    """The wait has a time-out."""
    shared: bool
    """Another process may end it."""
    words: tuple[int, ...] | None
    """The word and the four behind it, 32 bits each; None when the core does not hold it."""
    parked: int
    """What is really waited for, where CPython's parking lot says so; 0: it does not."""

class RawPython(TypedDict):
    version: str
    """``"3.11.7"``; ``"3.11"`` when the exact one cannot be read."""
    library: str
    """Module that holds the interpreter."""
    gil_holder: int | None
    """Thread id; None when nobody holds it (a C call may have released it)."""
    gil: int
    """Address of the main interpreter's GIL; 0: not known."""
    gil_enabled: bool
    """False in a free-threaded interpreter whose GIL is off."""
    threads: list[RawPythonThread]
    tasks: list[RawAsyncTask]
    greenlets: list[RawGreenlet]

class RawSlim(TypedDict):
    source_bytes: int
    source_expected_bytes: int
    """More than `source_bytes`: the original was cut off."""
    lost_bytes: int
    """Memory that found no room while the original streamed by."""
    kept_bytes: int
    thread_names: dict[int, str]
    """By thread ID, from ``/proc/PID/task/TID/comm`` where it could be read."""

class RawCore(TypedDict):
    machine: str
    origin: str
    slim: RawSlim | None
    """None: an ordinary core."""
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
    code: list[tuple[int, int]]
    """Where code can be, by address: executable segments, files without a segment."""
    modules: list[RawModule]
    abort_message: str | None
    panic: tuple[str, str] | None  # language, text
    python_fatal: tuple[str, str] | None
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
    caught: RawCaught | None
    handler_stack: tuple[int, int] | None
    """Start and size of the alternate stack that the crashed thread ran a handler on."""
    mapped_bytes: int
    dumped_bytes: int
    memory_by_kind: tuple[tuple[str, int, int], ...]
    """Kind, mapped bytes, dumped bytes."""
    problems: list[RawProblem]

unpacks: dict[str, bool]
"""Which packed debug data this build can read: ``lzma`` (.gnu_debugdata), ``zlib`` (sections)."""

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

class RawLive(TypedDict):
    stopped: bool
    """All threads stood still while they were read."""
    refused: int
    """errno of ptrace(2); 0 where it was not refused, or not asked for."""
    stopped_seconds: float
    tids: dict[int, int]
    """By the thread ID that the process itself knows, the one that we know."""
    unknown: int
    """Threads whose registers could not be had."""

def read_process(
    pid: int,
    *,
    stop: bool = True,
    patience_seconds: float = 0.3,
    sysroot: str | None = None,
    max_frames: int = 256,
) -> tuple[RawCore, RawLive]:
    """Read a live process as `read_core` reads a core.

    Its threads are stopped by ptrace for as long as that takes, unless `stop` is False or that is
    refused: then they are read as they run, and only those that are blocked have native frames.
    Threads that have not stopped after `patience_seconds` are read as they are. Raises
    `postmortem.errors.EvidenceError` when the process is not there or its memory cannot be read.
    """

def die_with_parent(parent: int) -> bool:
    """Have the kernel kill this process when its parent ends; False if that has happened."""

def watch(page: WriteableBuffer) -> None:
    """Note in this page of `postmortem.underway` which file is being opened; it must never go."""

def refuse(path: str, why: str) -> None:
    """Have the opening of a file be an error from now on."""

def put_away(descriptors: list[int]) -> int:
    """Return the descriptor of a socket in which copies of descriptors lie; raises OSError."""

def take_out(drawer: int) -> list[int]:
    """Return what was put away, as new descriptors; nothing if it was taken out before."""

def renounce_rights(tcp: bool) -> bool:
    """Have no program that is started from here gain rights; with `tcp`, refuse TCP to it and us.

    True if all of it holds. The second needs Linux 6.7 with Landlock, and refuses the memory of
    other processes (``/proc/PID/mem``) as well. Neither can be taken back.
    """

def lower_limits(data_bytes: int | None, cpu_seconds: int | None) -> None:
    """Write no core file, and allow this process no more than so much (setrlimit(2))."""

def start_guardian(target: int = 0) -> tuple[int, int]:
    """Start a process that acts when its pipe is closed without a byte: by us, or as we are killed.

    Returns its pid, which is also the ID of a process group of its own, and the pipe. Without a
    `target` it kills that group, which others may have joined; with one it sees to it that this
    process, which a tracer may leave stopped, goes on. Raises OSError.
    """

class RawSlimOutcome(TypedDict):
    source_bytes: int
    source_expected_bytes: int
    lost_bytes: int
    file_bytes: int
    """Size of the slim core."""
    kept_bytes: int
    pieces: int
    threads: int
    problems: list[RawProblem]

def write_slim(
    path: str, fd: int, *, executable: str | None = None, sysroot: str | None = None
) -> RawSlimOutcome:
    """Write the slim core of a core file at the start of `fd`, an empty regular file.

    Raises `postmortem.errors.EvidenceError` when `path` is not a core that can be read at all, and
    OSError when writing fails. Parameters are those of `read_core`.
    """

class RawStreamOutcome(TypedDict):
    outcome: RawSlimOutcome | None
    """What was written to `fd`; None: the stream lies in `spool`, for `write_slim`."""
    stream_bytes: int
    """How much came; 0 when the memory of the process was read instead."""
    problems: list[RawProblem]

def slim_stream(
    source: int,
    begin: bytes,
    fd: int,
    spool: int,
    room: int,
    *,
    pid: int | None = None,
    executable: str | None = None,
    sysroot: str | None = None,
) -> RawStreamOutcome:
    """Take a core that comes through a pipe, in one pass.

    `begin` is what was read of `source` before. With `pid`, and if that is the process of the core
    and stands still (the handler of core_pattern), its memory is read instead of the stream, and
    the slim core is written to `fd`. Else the stream is kept in `spool`: what stacks and modules
    need, and up to `room` bytes of other memory. Both are empty regular files. Raises
    `postmortem.errors.EvidenceError` when it is no core that can be read at all, and OSError when
    writing fails.
    """

def decode_instruction(
    machine: str, code: bytes, pc: int, registers: list[int]
) -> list[RawInstruction]:
    """Return one row per memory operand of an instruction, explicit ones first; at least one row.

    `registers` are in the order of `RawCore.register_names`.
    """

def demangle(names: list[str]) -> list[str]:
    """Return C++ names in source form; a name that is not mangled comes back as it is."""

def source_lines(path: str, addresses: list[int]) -> list[list[RawPlace]]:
    """Return what DWARF in an ELF file says of link-time addresses, as `RawFrame.places`."""

def build_id(path: str) -> str | None:
    """Return the build ID of an ELF file in hex, None if it has none or is not ELF."""

RawFact = dict[str, Any]
"""The fields of a fact by their names (csrc/*/fields.h), facts in it as such dicts too.

A file is the name that was given for it, or else its number."""

class RawQuery(TypedDict):
    errors: list[str]
    calls: list[str]
    pid: int | None
    fd: int | None
    path: str | None
    slower: int
    """Nanoseconds."""

class RawCounts(TypedDict):
    lines: int
    calls: int
    signals: int
    exits: int
    remarks: int
    output: int
    unparsed: int
    pids: bool
    brackets: bool
    times: bool
    relative: bool
    epochs: bool
    annotations: bool
    colors: bool
    traces: bool
    summary: bool
    halves: bool
    durations: bool
    detached: bool
    cut: bool

class RawCheck(TypedDict):
    uses: int
    right: int
    wrong: int
    unknown: int
    examples: tuple[str, ...]

class RawStrace(TypedDict):
    matches: list[RawFact]
    match_count: int
    processes: list[RawFact]
    """`Task` of each."""
    syscalls: list[RawFact]
    failures: list[RawFact]
    files: list[tuple[str, int, int, int, int, int, int]]
    """The fields of `FileCount`."""
    slow: list[RawFact]
    connections: list[RawFact]
    timeouts: list[RawFact]
    name_messages: list[RawFact]
    folders: list[tuple[str, int, int, float, float | None, float | None]]
    """The fields of `FolderCount`."""
    first_time: float | None
    last_time: float | None
    counts: RawCounts
    check: RawCheck
    forgotten: int
    """Processes that ended well and were left out, since there were too many."""
    unlisted: int
    """Others that were left out for the same reason; those that ended badly have come first."""
    io_uring: bool
    open_for_writing: list[str]
    libraries: set[str]
    """Names of shared libraries that were opened; only with `statistics`."""
    opens: int
    lone_halves: int
    bytes: list[int]
    cut_lines: int
    by_time: bool
    summed: bool
    """The clock is the sum of the stamps of -r, from 0."""
    first_unparsed: str | None
    first_unparsed_file: int
    first_unparsed_line: int

class RawLine(TypedDict):
    shape: str
    pid: int | None
    time: str | None
    name: str | None
    arguments: list[bytes]
    result: int | None
    errno: str | None
    injected: bool
    seconds: str | None
    annotation: str | None
    agrees: NotRequired[bool]
    """Whether the quick way to the result and the exact one give the same; only for calls."""

def read_strace(
    sources: list[tuple[int | Callable[[], bytes], int]],
    *,
    errors: list[str] = ...,
    calls: list[str] = ...,
    signals: list[str] = ...,
    statistics: bool = False,
    infer_sigbus: bool = False,
    check: bool = False,
    threads: int = 2,
    block_bytes: int = 0,
    most_matches: int = 5000,
    most_of_one: int = 5000,
    queries: list[RawQuery] = ...,
    only: int = 0,
    exports: list[object] = ...,
    label: str | bytes = "",
    names: list[str] | list[bytes] = ...,
    learn: Callable[[list[str]], object] | None = None,
) -> RawStrace:
    """Return what a log says.

    A source is an open descriptor or a callable that gives the next bytes (none at the end), and
    the task that a file of -ff is of, else 0. `check` hides the annotations of -y from the tracker
    and compares every use of a descriptor with them. Hits are calls for which a query holds, or
    that `errors` or `calls` name. `only` is a process: hits and totals are of its tasks alone.
    `exports` are told of every call, in the order of the log; `label` is what they call
    the log, and `names` are those of its files. `learn` is told of every command line that runs,
    before the calls that come behind its execve().
    """

class RawTables(TypedDict):
    rows: NDArray[Any]
    """One row a call (72 bytes), read-only: int64 ``start_ns``, ``duration_ns`` (-1: not told),
    ``result``, ``bytes``, ``line``, ``began_line`` (0: not in the log); int32 ``pid``, ``fd`` (-1),
    ``file``, ``target`` (-1); uint16 ``syscall``, ``errno`` (0: none); uint8 ``kind``, ``source``,
    ``flags`` (1 returned, 2 on two lines, 4 unfinished, 8 injected, 16 target deleted)."""
    files: list[str]
    targets: list[str]
    errnos: list[str]
    syscalls: list[str]

def export_columns() -> object:
    """Return an export that keeps all calls; `close_export` gives its `RawTables`."""

def export_batches(
    take: Callable[[RawTables], object], *, batch: int, mask: Callable[[str], str] | None = None
) -> object:
    """Return an export that hands over `batch` calls at a time, each with tables of its own."""

def export_calls(
    descriptor: int, *, form: str, mask: Callable[[str], str] | None = None, texts: bool = False
) -> object:
    """Return an export that writes calls as lines; `form` is ``"csv"`` or ``"ndjson"``.

    `texts` adds each call in full, which nothing masks. Writing raises OSError.
    """

def export_folded(
    descriptor: int, *, mask: Callable[[str], str] | None = None, name: Callable[[list[str]], str]
) -> object:
    """Return an export that writes stacks and weights; `name` makes a name of a command line."""

def export_timeline(
    descriptor: int,
    *,
    mask: Callable[[str], str] | None = None,
    name: Callable[[list[str]], str],
    words: Callable[[list[str]], list[str]],
    all_calls: bool = False,
    shortest_ns: int = 1000000,
    quiet: list[str] = ...,
) -> object:
    """Return an export that writes packets of Perfetto, less those of `head` in `RawClosed`."""

class RawClosed(TypedDict, total=False):
    calls: int
    stacks: int
    timed: bool
    written: int
    untimed: int
    without_duration: int
    clocks: list[str]
    head: bytes
    """Packets of a timeline that must stand before all others."""

def close_export(export_: object) -> Any:
    """Write what is left, and return `RawClosed`, or `RawTables` of `export_columns`."""

def sweep_log(
    descriptor: int, size: int, words: list[str], threads: int = 2, from_start: bool = False
) -> tuple[bool, int]:
    """Return whether none of the words (2 to 64 bytes) is in a file, and if so its lines.

    False says that a word is there, or that the file could not be read to its end. The place in the
    file is left as it is. Calls by the name of `io_uring_` do not count in a log that has the start
    of its programs, where all rings are those that libuv makes for epoll_ctl() alone.
    """

def interrupt_seen() -> bool:
    """Return whether Ctrl-C was pressed while a log is being read; for its callables."""

def read_strace_line(line: bytes) -> RawLine:
    """Return what one line is, for tests of the grammar."""

RawHit = tuple[int, int, int, int, str, dict[str, str]]
"""Signature, begin and end of the match, line from 0, text of the line, named groups."""

def compile_signatures(patterns: list[str]) -> Any:
    """Return an opaque handle; raises ValueError, with the number of a pattern that is refused.

    The syntax is in csrc/signatures/syntax.h. Each pattern needs a text of four bytes that all of
    its matches contain.
    """

def scan_signatures(
    compiled: Any, data: bytes | bytearray | memoryview, each: int
) -> tuple[list[RawHit], list[int], int]:
    """Return at most `each` hits of each signature, lines of each, line ends of the data.

    Of a line of over 8 KiB pieces around what the filter found are looked at.
    """

def scan_signature_lines(
    compiled: Any, data: bytes | bytearray | memoryview, begins: Any, ends: Any
) -> list[tuple[int, int, dict[str, str]]]:
    """Return (line, signature, named groups) for ``data[begins[i]:ends[i]]``, in this order.

    `begins` and `ends` are contiguous buffers of 64-bit integers; lines that do not lie in the
    data have no signature.
    """

def signature_literals(compiled: Any) -> list[list[str]]:
    """Return the texts that are looked for in place of each pattern."""

def texts_in(texts: Sequence[str], data: bytes | bytearray | memoryview) -> list[int]:
    """Return which of some texts, by their numbers, stand in the data; in one pass over it."""

class RawFlightRecorder(TypedDict):
    """A dump of PyTorch's flight recorder; numbers in it are places in its lists."""

    version: str
    numbers: bytes
    """Of each call its number, 8 bytes; this and the next three in the order of the calls."""
    shape_of: bytes
    """4 bytes."""
    created: bytes
    """8 bytes: nanoseconds since 1970, 0 where the dump does not say."""
    started: bytes
    shapes: list[
        tuple[
            str,
            str,
            int | None,
            str,
            str,
            tuple[tuple[int, ...], ...],
            tuple[tuple[int, ...], ...],
            tuple[str, ...],
            int,
            bool,
            bool,
            int,
        ]
    ]
    """(group, its words, its number here, operation, state, inputs, outputs, dtypes, time-out in
    ms, retired, is p2p, stack)."""
    frames: tuple[tuple[str, str | None, int | None], ...]
    stacks: tuple[tuple[int, ...], ...]
    """Frames of each, the innermost first."""
    members: tuple[tuple[str, str, str | None, tuple[int, ...]], ...]
    """(group, its words, ranks as JSON, ranks)."""
    status: tuple[tuple[int, int, int, int], ...]
    """(number of the group here, last enqueued, started, completed); -1 for none."""

def read_flight_recorder(data: bytes) -> RawFlightRecorder:
    """Read a pickled dump without running it; raises EvidenceError if it is cut or damaged."""

class RawRankLabel(TypedDict):
    """One writer of a log, as its prefixes name it; see `read_ranklog`."""

    host: str | None
    """torchrun's role, a node, a service, of Ray an address."""
    pod: str | None
    worker: str | None
    section: str | None
    local: int | None
    rank: int | None
    task: int | None
    pid: int | None
    lines: int
    first_line: int
    last_line: int
    at_marks: tuple[int, ...]
    """Its lines before each of the log's marks."""
    last_words: tuple[str, ...]
    tail: tuple[RawPlainLine, ...]
    """More of its last lines that are not empty, the oldest first."""
    work: tuple[RawPlainLine, ...]
    """The first lines behind each error that tell of work."""

RawPlainLine = tuple[int, str, int, int]
"""Where it stands and its text; of a form that its writer had printed before, in which something
has moved on, the first line of that form and how often it was seen, else zeros."""

RawRegion = tuple[
    int, int, bool, tuple[tuple[int, int, str], ...], tuple[str, ...], str, tuple[int, ...]
]
"""Label, kinds as bits, whether it was cut, (line, ordinal, text) of each line, of a traceback what
its writer wrote before it, each line's stream: ``"o"``, ``"e"`` or a blank for not known, and which
lines have another logger's head before them than the line above, and so begin a record."""

class RawRankLog(TypedDict):
    """A log of many ranks."""

    labels: tuple[RawRankLabel, ...]
    """The first one is that of lines without a prefix."""
    regions: tuple[RawRegion, ...]
    links: tuple[tuple[str, int, int, str, int, int], ...]
    """NCCL's channels: host, from, to, how, count, first line."""
    marks: tuple[tuple[int, int, str], ...]
    """Line, label and text of each line behind which processes may start anew."""
    grammar: tuple[str, ...]
    bytes: int
    lines: int
    zeros: int
    """Zero bytes, which are left out."""
    binary_lines: int
    cut_lines: int
    left_out: int
    nameless: int

def read_ranklog(
    source: int | Callable[[], bytes],
    keep: list[tuple[str, str]],
    *,
    sink: Callable[[int, bytes], object] | None = None,
    block_bytes: int = ...,
    sample_bytes: int = ...,
    kept_bytes: int = ...,
) -> RawRankLog:
    """Read one log in one pass, in bounded memory; `sink` gets the clean text of each label.

    `keep` has (text, kind) of the lines that are kept: texts of four bytes or more, and the kinds
    that `KEEPS` in facts/signature.py names.
    """

class RawGpuGrid(TypedDict):
    """One kernel that was launched."""

    device: int
    id: int
    context: int
    module: int
    entry: int
    type: int
    origin: int
    status: int
    registers: int
    host_tid: int
    blocking: bool
    grid_size: tuple[int, int, int]
    block_size: tuple[int, int, int]
    cluster_size: tuple[int, int, int]
    blocks: int
    warps: int
    kernel: str | None

class RawGpuDevice(TypedDict):
    """One GPU."""

    name: str | None
    chip: str | None
    sm_type: str | None
    id: int
    pci_bus: int
    pci_device: int
    sms: int
    warps_per_sm: int
    sm_major: int
    sm_minor: int
    status: int

class RawGpuFocus(TypedDict):
    """What the dump has of the first thread that failed."""

    registers: tuple[int, ...]
    predicates: tuple[int, ...]
    uniform: tuple[int, ...]
    uniform_predicates: tuple[int, ...]
    valid_lanes: int
    active_lanes: int
    local: tuple[int, int, bytes] | None
    """(address, size, first bytes)."""
    shared: tuple[int, int, bytes] | None

class RawGpuMetadata(TypedDict):
    """Who wrote a dump; 0: not told."""

    generator: str | None
    driver_major: int
    driver_minor: int
    cuda_major: int
    cuda_minor: int
    flags: int
    timestamp: int
    """Seconds since 1970."""

class RawGpuModule(TypedDict):
    """Code that was loaded."""

    context: int
    """Its place."""
    handle: int
    bytes: int
    """Of code; 0: the dump has none."""
    functions: int
    has_lines: bool

class RawGpuCore(TypedDict):
    """What `read_cuda_core` returns."""

    size_bytes: int
    expected_bytes: int
    metadata: RawGpuMetadata | None
    devices: tuple[RawGpuDevice, ...]
    contexts: tuple[tuple[int, int, int], ...]
    """(place of the device, handle, thread of the process)."""
    modules: tuple[RawGpuModule, ...]
    grids: tuple[RawGpuGrid, ...]
    faults: tuple[RawFact, ...]
    stands: tuple[RawFact, ...]
    stands_left_out: int
    grids_left_out: int
    blocks: int
    warps: int
    lanes: int
    global_bytes: int
    managed_bytes: int
    shared_bytes: int
    local_bytes: int
    focus: RawGpuFocus | None
    problems: tuple[RawProblem, ...]

def read_cuda_core(path: str, *, memory_bytes: int = 0) -> RawGpuCore:
    """Read a core dump of CUDA GPUs; raises EvidenceError where it is none.

    `memory_bytes` is how much of the local and shared memory of the thread that failed comes along.
    """

class RawAmdAgent(TypedDict):
    """One GPU of AMD."""

    exceptions: int
    id: int
    location: int
    vendor: int
    device: int
    target: int
    simds: int
    waves_per_simd: int

class RawAmdQueue(TypedDict):
    """One of its queues."""

    exceptions: int
    id: int
    agent: int
    """Its id."""
    type: int
    saved_bytes: int
    """Of saved waves."""

class RawAmdCore(TypedDict):
    """What `read_amd_core` returns."""

    size_bytes: int
    expected_bytes: int
    driver: tuple[int, int]
    """Version of the kernel driver's interface."""
    agents: tuple[RawAmdAgent, ...]
    queues: tuple[RawAmdQueue, ...]
    code_objects: tuple[int, ...]
    memory_bytes: int
    problems: tuple[RawProblem, ...]

def read_amd_core(path: str) -> RawAmdCore:
    """Read the state of AMD's GPUs in a core; raises EvidenceError where there is none."""
