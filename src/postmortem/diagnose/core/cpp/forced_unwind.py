"""A thread that was being ended met C++ code that may not be unwound.

What it means
    pthread_cancel and pthread_exit end a thread by unwinding its stack, as an exception does.
    A function that may not throw (noexcept, a destructor) turns that into std::terminate; a
    catch (...) that swallows it makes the C library abort with "exception not rethrown".
How to be sure
    __pthread_unwind or _Unwind_ForcedUnwind is on the stack under the abort, or the C
    library's message says it. The first function outside the run-time libraries is where the
    thread was when its end was asked for.
What to do
    Ask threads to end by a flag instead of pthread_cancel; let catch (...) throw again (or
    catch abi::__forced_unwind first); do not call pthread_exit from C++.
"""

from postmortem.diagnose.core.citing import cite_abort, cite_frame, degree_of
from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.owners import Owner, owner
from postmortem.diagnose.core.stacks import frame_name, is_machinery
from postmortem.diagnose.names import bare
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, rule
from postmortem.facts.crash import AbortMessage
from postmortem.facts.threads import Thread
from postmortem.patterns import Pattern

_UNWINDING = Pattern(
    r"^_*(GI_+)?pthread_(unwind|exit)$|^_Unwind_ForcedUnwind|^unwind_(stop|cleanup)$"
)
_EXIT = Pattern(r"^_*(GI_+)?pthread_exit$")
_CANCELLED = Pattern(
    r"pthread_enable_asynccancel|sigcancel_handler|cancel_handler|_cancel$|cancel_"
)
_WITHIN = 40


@rule(
    "https://man7.org/linux/man-pages/man3/pthread_cancel.3.html",
    "https://gcc.gnu.org/legacy-ml/gcc/2003-12/msg00743.html",
)
def forced_unwind(
    kind: FaultKind, crashed: Thread | None, message: AbortMessage | None
) -> Findings:
    if crashed is None or kind is not FaultKind.ABORT:
        return
    names = [bare(frame.function) for frame in crashed.frames[:_WITHIN]]
    at = [i for i, name in enumerate(names) if _UNWINDING.search(name)]
    swallowed = message is not None and message.match("exception-not-rethrown") is not None
    if not at and not swallowed:
        return
    if any(f.kind == "python" or owner(f) is Owner.CPYTHON for f in crashed.frames):
        return  # gil_at_exit
    index = _met(crashed, 0 if swallowed or not at else at[-1] + 1)
    where = ""
    if index is not None and crashed.frames[index].function != "??":
        where = f" in {frame_name(crashed.frames[index], 40)}"
    how = "pthread_exit" if any(_EXIT.search(name) for name in names) else "pthread_cancel"
    evidence: list[Evidence] = [cite_abort(message)] if swallowed and message else []
    evidence += [cite_frame(crashed, i) for i in at[-1:]]
    evidence += [cite_frame(crashed, index)] if index is not None else []
    stopped = (
        "a catch (...) caught that and did not throw it again"
        if swallowed
        else "the unwinding met code that may not be unwound (noexcept, a destructor, a C++ "
        "library that was linked with another unwinder)"
    )
    yield Finding(
        title=f"{how} could not end a thread{where}",
        cause=f"{how} ends a thread by unwinding its stack, and {stopped}; the runtime library "
        "then ends the process",
        confidence=degree_of(message) if swallowed and how == "pthread_exit" else Confidence.LIKELY,
        next_steps=(
            f"find who calls {how}: ask the thread to end by a flag or a closed queue instead",
            "catch (...) blocks on that stack must end in `throw;`; noexcept functions must not "
            "block (read, wait, sleep) in a thread that may be cancelled",
        ),
        evidence=tuple(evidence),
    )


def _met(thread: Thread, start: int) -> int | None:
    for index in range(start, len(thread.frames)):
        frame = thread.frames[index]
        runtime = owner(frame) in (Owner.GLIBC, Owner.CXX_RUNTIME)
        unwinding = _UNWINDING.search(bare(frame.function)) or _CANCELLED.search(frame.function)
        if not (runtime or unwinding or is_machinery(frame)):
            return index
    return None
