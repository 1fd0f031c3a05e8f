"""The crash is in code that a compiler made while the program ran.

What it means
    numba, XLA and others compile functions into memory. The instruction that failed lies in no
    file, so no debugger can name it; who called it can be named. Such code checks no index
    unless it is told to.
How to be sure
    The frame of the fault lies in no module, and the frames that called it are the compiler's
    own. In a worker of a thread pool they are on the stack of the thread that waits for it.
What to do
    Run with the compiler's checks, or without compilation: the error then has a Python line.
"""

from postmortem.diagnose.core.citing import cite_frame, cite_python
from postmortem.diagnose.core.crash import Crash
from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.jit_frames import NUMBA, compiled_by, compiled_for_worker
from postmortem.diagnose.core.stacks import fault_start
from postmortem.diagnose.rule import Confidence, Finding, Findings, Role, rule

_STEPS = {
    NUMBA: (
        "NUMBA_BOUNDSCHECK=1 python …: an index outside its array raises IndexError at its line",
        "NUMBA_DISABLE_JIT=1 python …: the same functions as plain Python, with tracebacks",
        "look for parallel=True, fastmath, carray() and pointers from outside: there numba checks "
        "nothing",
    )
}
_ANY = (
    "switch the compilation off (jax.disable_jit(), or the like) and see whether it still dies",
    "look at what is given to the compiled function: sizes, types, arrays that were freed",
)


@rule("https://numba.readthedocs.io/en/stable/reference/envvars.html", role=Role.CONTRIBUTING)
def jit_code(crash: Crash) -> Findings:
    kind = crash.kind
    crashed = crash.crashed
    if not kind.is_memory_fault and kind not in (FaultKind.ARITHMETIC, FaultKind.COMPILER_TRAP):
        return
    start = fault_start(crashed, kind)
    told = compiled_by(crashed, start)
    certain = told is not None
    told = told or compiled_for_worker(crash.threads, start)
    if told is None:
        return
    yield Finding(
        title=f"the crash is in code that {told.compiler} compiled at run time",
        cause=f"the code at the fault lies in no file, and {told.compiler} "
        + ("called it" if certain else "had work done by this thread's pool")
        + ": a compiled function went outside its memory, or was given a bad array",
        confidence=Confidence.LIKELY if certain else Confidence.POSSIBLE,
        next_steps=_STEPS.get(told.compiler, _ANY),
        evidence=(
            crash.cited,
            cite_frame(crashed, start),
            cite_frame(told.thread, told.index),
            *cite_python(told.thread, crash.threads),
        ),
    )
