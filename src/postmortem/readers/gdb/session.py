"""Opening a core in gdb with the symbols of those modules that are wanted, and no others."""

from collections.abc import Mapping
from pathlib import Path

from postmortem.errors import DebuggerError
from postmortem.facts.source import Problem
from postmortem.readers.gdb.mi import Conversation, GdbDied, GdbRefused, GdbTooBusy, GdbTooSlow
from postmortem.records import record

_NOWHERE = "no-files-here"
"""A folder that does not exist in gdb's own working directory."""


@record
class Request:
    """What gdb is asked."""

    executable: str | None
    load: Mapping[str, int] | None
    """Files to read symbols from, and what to add to their addresses; None: what gdb finds."""
    sysroot: str | None = None

    def trusts(self, module: str | None) -> bool:
        """Whether code that gdb read for this module is the code that ran.

        A core does not hold the code. Unknown is a part of the main program when gdb was not given
        one; every other module is one that was to be loaded.
        """
        return module is not None or self.executable is not None


def open_core(gdb: Conversation, core: str, request: Request) -> list[Problem]:
    """Load executable, core and wanted symbols; return what did not work.

    `core` is a name without blanks relative to gdb's working directory: gdb 13 takes the argument
    of ``target core`` as it is, gdb 16 and later read quotes in it. Raises `DebuggerError`
    when gdb refuses the core.

    Where the modules are named, gdb must find none by itself: with ``auto-solib-add off`` it still
    opens every file of the dynamic linker's list (100 ms for 80 libraries), and reads libc against
    that setting, to find out about threads (solib.c, libpthread_solib_p), whatever build is there
    now. An empty root hides them all, and makes gdb independent of that list, which a cut
    core lacks.
    """
    problems: list[Problem] = []
    if request.sysroot is not None:
        debug = Path(request.sysroot, "usr/lib/debug")
        gdb.console(f"set debug-file-directory {debug}:/usr/lib/debug")
    root = request.sysroot if request.load is None else f"{_NOWHERE}/"
    if root is not None:
        gdb.console(f"set sysroot {root}")
    if request.executable is not None:
        problems += _attempt(gdb, f"file {_word(request.executable)}", request.executable)
    gdb.ask(f"-target-select core {core}")
    for path, bias in (request.load or {}).items():
        if path != request.executable:
            problems += _attempt(gdb, f"add-symbol-file {_word(path)} -o {bias:#x}", path)
    return problems


def _word(path: str) -> str:
    # The console splits the arguments of `file` and `add-symbol-file` as a shell would. MI's own
    # -file-exec-and-symbols takes neither quotes nor backslashes (gdb 13).
    return "".join(f"\\{char}" if char in " \t\\'\"" else char for char in path)


def _attempt(gdb: Conversation, command: str, where: str) -> list[Problem]:
    try:
        gdb.console(command)
    except GdbRefused as error:
        return [Problem(where=where, what=f"gdb could not read it: {error.what}")]
    return []


def complaint(error: DebuggerError, seconds: float) -> Problem:
    """Return a gdb that failed as a problem, with what can be done."""
    if isinstance(error, GdbTooSlow):
        what = f"{error.what} ({seconds:g} s); what it had said by then is used"
        return Problem("gdb", what, "postmortem core --engine native does without gdb")
    if isinstance(error, GdbTooBusy):
        what = f"{error.what} and was stopped; what it had said by then is used"
        remedy = "postmortem core --deadline 60 gives it that long; the rest of the report is whole"
        return Problem("gdb", what, remedy)
    if isinstance(error, GdbDied):
        return Problem("gdb", error.what, "another gdb may do better: postmortem core --gdb PATH")
    return Problem("gdb", error.what, error.hint)
