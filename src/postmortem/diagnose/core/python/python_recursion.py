"""Python code recursed until the C stack was full.

What it means
    Python code called itself through C (repr, pickle, copy, json, __getattr__, a callback)
    until the stack of the thread was full. Normally RecursionError comes first: either
    sys.setrecursionlimit was raised, or C code without that check recursed, or the thread's
    stack is too small for the limit.
How to be sure
    The fault address is just past the end of the stack and the interpreter's evaluation
    functions repeat. Whether the limit was raised is in the program: look for
    setrecursionlimit.
What to do
    Leave the recursion limit alone and the RecursionError will name the line. Break cycles in
    the data (an object that contains itself, a __getattr__ that asks for its own attribute).
"""

from postmortem import thresholds
from postmortem.diagnose.core.citing import cite_python, cite_recursion
from postmortem.diagnose.core.crash import Crash
from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.owners import file_name
from postmortem.diagnose.core.recursion import Recursion, recursion
from postmortem.diagnose.names import short
from postmortem.diagnose.rule import Confidence, Finding, Findings, rule


@rule(
    "https://docs.python.org/3/library/sys.html#sys.setrecursionlimit",
    "https://docs.python.org/3/library/threading.html#threading.stack_size",
)
def python_recursion(crash: Crash) -> Findings:
    crashed = crash.crashed
    cycle = recursion(crashed.frames)
    if cycle is None or not cycle.is_python:
        return
    certain = crash.kind is FaultKind.STACK_OVERFLOW
    if not certain and not (
        crash.kind is FaultKind.RERAISED and cycle.frames >= thresholds.OVERFLOW_FRAMES
    ):
        return
    version = f" {crash.process.python_version}" if crash.process.python_version else ""
    yield Finding(
        title=f"Python recursion used up the C stack{_through(cycle)}",
        cause=f"{crash.words}. The interpreter's own functions repeat "
        f"on the stack, so Python{version} code called itself through C until there was no stack "
        "left; the recursion limit that should have raised RecursionError was raised, or does not "
        "apply to this C code",
        confidence=Confidence.CERTAIN
        if certain and cycle.frames >= thresholds.OVERFLOW_FRAMES
        else Confidence.LIKELY,
        next_steps=(
            "remove or lower sys.setrecursionlimit(): RecursionError then names the Python line",
            "no setrecursionlimit? look for repr, pickle, deepcopy or json of data that contains "
            "itself, and for a __getattr__ or property that asks for itself",
            "only if the depth is legitimate: threading.stack_size(512 << 20) before the thread "
            "starts, or ulimit -s for the main thread",
        ),
        evidence=(crash.cited, cite_recursion(crashed, cycle), *cite_python(crashed)),
    )


def _through(cycle: Recursion) -> str:
    """Return the Python function that a reader can look for, where it is known."""
    if cycle.python is None:
        return ""
    place = f" ({file_name(cycle.python.file)}:{cycle.python.line})" if cycle.python.file else ""
    return f" through {short(cycle.python.function)}{place}"
