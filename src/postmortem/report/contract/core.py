"""Kind ``core``: one core file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from postmortem.facts import crash, memory, process
from postmortem.facts.crash import FatalPythonError, Panic
from postmortem.facts.process import SlimSource
from postmortem.facts.threads import RaisedException
from postmortem.report.contract import Shape
from postmortem.report.contract.threads import AsyncTask, Greenlet, Group, Thread
from postmortem.text import Pointer

if TYPE_CHECKING:
    from postmortem.diagnose.stacks.signature import Signature


class Process(Shape, of=process.Process, without=("initial_env",)):
    env: dict[str, str]


_OF_CALLS = ("system_call", "call_machine", "inferred", "then")


class Caught(Shape, of=crash.Signal, without=(*_OF_CALLS, "code_number", "sender_uid")):
    pass


class Signal(Shape, of=crash.Signal, without=_OF_CALLS):
    number: int | None
    """null for a snapshot, as are all but `explanation`"""
    name: str | None
    explanation: str
    caught: Caught | None
    """the signal that a handler of the process caught first, null if none; where the handler raised
    the same signal again, `code` and `address` beside it are those of the first"""


class CppException(Shape, of=crash.CppException, without=("base_types",)):
    pass


class Module(Shape, of=memory.Module, without=("bias", "has_debug_lines", "deleted")):
    pass


class Memory(Shape, of=memory.MemoryTotals):
    by_kind: dict[str, int]


class CoreFile(Shape, of=process.CoreFile):
    truncated: bool
    slim: SlimSource | None
    """what a [slim core](slim-cores.md) was made from and holds; null for an ordinary core"""


_DECODED = ("target", "transfer", "divisor", "alignment")


class Instruction(Shape, of=crash.Instruction, without=_DECODED):
    code: str


class MappedFile(Shape, of=memory.MappedFile, without=("elsewhere",)):
    pass


class Fault(Shape, of=crash.Fault, without=("handler_stack",)):
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
    python_exception: RaisedException | None
    crashed_thread: int | None
    """its thread ID; null for a snapshot"""
    main_thread: int
    registers: dict[str, Pointer] | None
    """of the crashed thread"""
    threads: list[Thread]
    groups: list[Group]
    """threads with like stacks. Lines of library code, boilerplate and names of threads do not
    split a group; the user's own Python line does"""
    async_tasks: list[AsyncTask]
    """of asyncio, that have not ended (CPython 3.11 to 3.14)"""
    greenlets: list[Greenlet]
    """that are switched out (greenlet 2.0 and later)"""
    modules: list[Module]
    """mapped ELF files, and whether the file on disk is the same build"""
    memory: Memory
    """of a slim core, that of its original"""
    core: CoreFile
    fault: Fault | None
    """where the failing instruction and what it touched lie"""
