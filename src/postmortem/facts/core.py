"""What a core file says without a debugger."""

from collections.abc import Mapping
from types import MappingProxyType

from postmortem.facts.crash import (
    AbortMessage,
    Caught,
    CppException,
    FatalPythonError,
    Fault,
    Panic,
    Signal,
)
from postmortem.facts.memory import CodeRanges, MemoryTotals, Modules
from postmortem.facts.process import CoreFile, Process
from postmortem.facts.python_stacks import PythonStack
from postmortem.facts.source import Problem
from postmortem.facts.threads import Threads
from postmortem.records import record


@record
class CoreFacts:
    """All that a core file says without a debugger."""

    core: CoreFile
    process: Process
    threads: Threads
    modules: Modules
    memory: MemoryTotals
    code: CodeRanges = CodeRanges()
    signal: Signal | None = None
    """None in a snapshot of a live process."""
    fault: Fault | None = None
    """Where the crashed thread stood; `file` is left to the reader of files."""
    caught: Caught | None = None
    """What a handler on the crashed thread was called for, before `signal` ended the process."""
    abort_message: AbortMessage | None = None
    fatal_python_error: FatalPythonError | None = None
    panic: Panic | None = None
    cpp_exceptions: tuple[CppException, ...] = ()
    """Those of the crashed thread first, in each thread the innermost first."""
    python_stacks: Mapping[int, PythonStack] = MappingProxyType({})
    """By thread ID."""
    problems: tuple[Problem, ...] = ()
