"""What a core file says without a debugger."""

from collections.abc import Mapping
from types import MappingProxyType

from postmortem.facts import crash
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
    signal: crash.Signal | None = None
    """None in a snapshot of a live process."""
    fault: crash.Fault | None = None
    """Where the crashed thread stood; `file` is left to the reader of files."""
    caught: crash.Caught | None = None
    """What a handler on the crashed thread was called for, before `signal` ended the process."""
    abort_message: crash.AbortMessage | None = None
    fatal_python_error: crash.FatalPythonError | None = None
    panic: crash.Panic | None = None
    cpp_exceptions: tuple[crash.CppException, ...] = ()
    """Those of the crashed thread first, in each thread the innermost first."""
    python_stacks: Mapping[int, PythonStack] = MappingProxyType({})
    """By thread ID."""
    problems: tuple[Problem, ...] = ()
