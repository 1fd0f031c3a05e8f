"""Kind ``core``: one core file."""

from __future__ import annotations

from postmortem.facts.memory import ModuleStatus
from postmortem.report.contract import Address, Shape
from postmortem.report.contract.threads import AsyncTask, Group, Raised, Thread


class Process(Shape):
    pid: int
    executable: str | None
    argv: list[str]
    env: dict[str, str]
    env_is_current: bool
    rank: int | None
    local_rank: int | None
    world_size: int | None
    launcher: str | None
    role: str | None
    """of a child or a launcher: "DataLoader worker\""""
    hostname: str | None
    crashed_at: float | None
    """seconds since the epoch, where something beside the core tells"""
    python_version: str | None
    ppid: int | None
    uid: int | None
    command: str | None
    machine: str


class Caught(Shape):
    number: int
    name: str
    code: str | None
    address: Address | None
    sender_pid: int | None


class Signal(Shape):
    number: int | None
    """null for a snapshot, as are all but `explanation`"""
    name: str | None
    code: str | None
    """`SEGV_MAPERR`"""
    code_number: int | None
    address: Address | None
    sender_pid: int | None
    sender_uid: int | None
    explanation: str
    caught: Caught | None
    """the signal that a handler of the process caught first, null if none; where the handler raised
    the same signal again, `code` and `address` beside it are those of the first"""


class Signature(Shape):
    hash: str
    """16 hexadecimal digits; equal hashes have equal summaries"""
    summary: str
    """`SIGSEGV in store_at (libext) <- train.step`"""
    calls: list[str]
    """what it is made of, innermost first"""


class FatalPythonError(Shape):
    function: str
    message: str


class Panic(Shape):
    language: str
    """Go, Rust, .NET or JavaScript"""
    text: str


class CppException(Shape):
    type: str
    what: str | None
    tid: int
    found_by: str
    state: str


class Module(Shape):
    path: str
    build_id: str | None
    start: Address
    end: Address
    status: ModuleStatus
    """the file on disk compared with the one that was mapped, by build ID"""
    disk_path: str | None
    disk_build_id: str | None


class Memory(Shape):
    mapped_bytes: int
    dumped_bytes: int
    by_kind: dict[str, int]
    """dumped bytes"""


class Slim(Shape):
    source_bytes: int
    source_expected_bytes: int
    kept_bytes: int
    lost_bytes: int


class CoreFile(Shape):
    path: str
    origin: str
    size_bytes: int
    expected_bytes: int
    truncated: bool
    slim: Slim | None
    """what a [slim core](slim-cores.md) was made from and holds; null for an ordinary core"""


class Place(Shape):
    value: Address
    mapped: bool
    start: Address | None
    end: Address | None
    permissions: str | None
    kind: str | None
    path: str | None
    file_offset: int | None
    above_start: Address | None
    above_kind: str | None
    below_end: Address | None


class Instruction(Shape):
    pc: Address
    code: str
    text: str | None
    operand: str | None
    operand_address: Address | None
    access: str | None
    feature: str | None


class MappedFile(Shape):
    path: str
    offset: int
    exists: bool
    size: int | None
    deleted_then: bool
    filesystem_free: int | None
    filesystem_size: int | None
    filesystem_type: str | None


class Fault(Shape):
    pc: Place
    sp: Place
    address: Place | None
    operand: Place | None
    stack_limit: int | None
    instruction: Instruction | None
    file: MappedFile | None


class Core(Shape):
    process: Process
    """who died"""
    signal: Signal
    signature: Signature | None
    """what cores of one incident share; null where no frame could be read. See
    [signatures](signatures.md)"""
    abort_message: str | None
    """the last words of glibc"""
    fatal_python_error: FatalPythonError | None
    """the interpreter stopped itself (Py_FatalError)"""
    panic: Panic | None
    """what a language's run-time said when it ended the process, as its memory still has it"""
    cpp_exception: CppException | None
    """in flight"""
    python_exception: Raised | None
    crashed_thread: int | None
    """its thread ID; null for a snapshot"""
    main_thread: int
    registers: dict[str, Address] | None
    """of the crashed thread"""
    threads: list[Thread]
    groups: list[Group]
    """threads with like stacks. Lines of library code, boilerplate and names of threads do not
    split a group; the user's own Python line does"""
    async_tasks: list[AsyncTask]
    """of asyncio, that have not ended (CPython 3.11 to 3.13)"""
    modules: list[Module]
    """mapped ELF files, and whether the file on disk is the same build"""
    memory: Memory
    """of a slim core, that of its original"""
    core: CoreFile
    fault: Fault | None
    """where the failing instruction and what it touched lie"""
