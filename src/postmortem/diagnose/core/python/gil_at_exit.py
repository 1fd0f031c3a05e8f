"""A thread asked for the GIL while the interpreter was ending, and was killed for it.

What it means
    The interpreter was finalising. Python before 3.14 answers a thread that wants the GIL then
    by ending the thread with pthread_exit, which unwinds its stack; C++ code that may not be
    unwound (a destructor such as pybind11's gil_scoped_release) turns that into
    std::terminate. The abort comes after the program's work, or after an error whose
    traceback stands above.
How to be sure
    pthread_exit (or PyThread_exit_thread) under std::terminate, and a function that takes the
    GIL further out, on the same stack.
What to do
    Join daemon and native threads before the end. Look above in the log for the traceback, if
    the job failed.
"""

from postmortem.diagnose.core.citing import cite_abort, cite_frame
from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.stacks import has_python
from postmortem.diagnose.names import bare
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, Role, rule
from postmortem.facts.crash import AbortMessage
from postmortem.facts.threads import Threads
from postmortem.patterns import Pattern

_KILLED = Pattern(r"^(__)?(GI_)?_*pthread_exit$|^PyThread_exit_thread$|^_Unwind_ForcedUnwind")
_ASKED = Pattern(
    r"^(PyThread_exit_thread|take_gil|PyEval_RestoreThread|PyGILState_Ensure|"
    r"PyEval_AcquireThread|_PyThreadState_Attach)$|gil_scoped_(release|acquire)"
)


@rule(
    "https://github.com/pytorch/pytorch/issues/38228",
    "https://github.com/pybind/pybind11/issues/2215",
    "https://docs.python.org/3/c-api/init.html#cautions-regarding-runtime-finalization",
    role=Role.CASCADE,
)
def gil_at_exit(kind: FaultKind, threads: Threads, message: AbortMessage | None) -> Findings:
    crashed = threads.crashed
    if crashed is None or kind is not FaultKind.ABORT:
        return
    names = [bare(frame.function) for frame in crashed.frames[:40]]
    killed = next((i for i, name in enumerate(names) if _KILLED.search(name)), None)
    asked = next((i for i, name in enumerate(names) if _ASKED.search(name)), None)
    not_rethrown = message is not None and message.match("exception-not-rethrown") is not None
    if killed is None and not not_rethrown:
        return
    if asked is None and not (not_rethrown and has_python(threads)):
        return  # forced_unwind
    evidence: list[Evidence] = [cite_abort(message)] if not_rethrown and message else []
    evidence += [cite_frame(crashed, i) for i in (killed, asked) if i is not None]
    yield Finding(
        title="a thread wanted the GIL while Python was ending, and its end aborted the process",
        cause="the interpreter was finalising and ended a thread that asked for the GIL; the "
        "unwinding of that thread met C++ code that may not be unwound. The program's work, or the "
        "error that ended it, came before",
        confidence=Confidence.LIKELY if asked is not None else Confidence.POSSIBLE,
        next_steps=(
            "look above in the log: if a Python traceback stands there, that is the failure",
            "stop and join daemon threads and native threads (loaders, writers, RPC, process "
            "groups) before the program ends",
        ),
        evidence=tuple(evidence),
    )
