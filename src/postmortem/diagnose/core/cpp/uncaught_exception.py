"""A C++ exception left its thread uncaught, or std::terminate was called.

What it means
    An exception was thrown and nothing on that thread caught it; or it met a function marked
    noexcept (destructors are), or was thrown while another was being handled. Without any
    exception, std::terminate comes from the destructor of a std::thread that was still
    joinable, often at exit after a Python error whose traceback stands above in the log.
How to be sure
    The runtime library's own record of the exception gives its type and message. The frames
    show who threw: the first function outside the C++ runtime.
What to do
    Read the message first. Catch the exception at the top of the thread; join threads before
    their objects go.
"""

from postmortem.diagnose.core import stacks
from postmortem.diagnose.core.citing import cite_exception, cite_frame, cite_python
from postmortem.diagnose.core.crash import Crash
from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.owners import Owner, owner
from postmortem.diagnose.core.special_exceptions import EXCEPTION_RULES
from postmortem.diagnose.names import bare, clip, short, short_type
from postmortem.diagnose.rule import Confidence, Finding, Findings, Role, rule
from postmortem.facts.crash import AbortMessage, CppException
from postmortem.facts.threads import Thread, Trust
from postmortem.patterns import Pattern


@rule(
    "https://en.cppreference.com/w/cpp/error/terminate",
    "https://github.com/pytorch/pytorch/issues/38228",
    yields_to=EXCEPTION_RULES,
)
def uncaught_exception(
    crash: Crash, exception: CppException | None, message: AbortMessage | None
) -> Findings:
    crashed = crash.crashed
    if crash.kind is not FaultKind.ABORT or (message is not None and message.text):
        return
    own = stacks.thrown(exception, crash.threads)
    terminated = stacks.is_terminated(crashed)
    if own is None and not terminated:
        return
    if own is None:
        yield from _without_exception(crashed)
        return
    index = stacks.site(crashed)
    handler = _handler_of_terminate(crashed)
    if handler is not None:  # the program's own, set by std::set_terminate
        terminated, index = True, stacks.site_after(crashed, handler)
    elif _ended_in_handler(crashed):
        yield _terminated_in_handler(crashed, own, index)
        return
    elif not terminated and index is not None and crashed.frames[index].function != "??":
        yield _handled(crashed, own, index)
        return
    index = _thrower(crashed, index)
    if index is not None and stacks.is_lone_word(crashed, index):
        index = None
    by = ""
    if index is not None and crashed.frames[index].function != "??":
        by = f" in {stacks.frame_name(crashed.frames[index], 40)}"
    said = f": {(own.what or '').removeprefix(own.type + ': ')}" if own.what else ""
    # The message is the error itself: where both do not fit, the place is left to the evidence.
    title = f"uncaught C++ exception {short_type(own.type, 44)}"
    title += f"{by}{said}" if len(f"{title}{by}{said}") <= 100 or not said else said
    sure = own.found_by == "tls" and terminated
    more = " It met a function that may not throw (noexcept, a destructor)"
    again = any(bare(f.function) == "std::rethrow_exception" for f in crashed.frames[:16])
    if again:
        more = " It is not new here: std::rethrow_exception threw again what other code had thrown"
        more += " before, on this thread or another (a future, a pool of threads)"
    who = f"see why {stacks.frame_name(crashed.frames[index], 48)} threw" if by and index else None
    yield Finding(
        title=title,
        cause="nothing caught it, so the C++ runtime ended the process"
        + (f".{more}" if again or _met_noexcept(crashed) else ""),
        confidence=Confidence.CERTAIN if sure else Confidence.LIKELY,
        next_steps=(
            *(() if own.what else (_TERMINATE_LINES,)),
            "search the program for who throws that message: the stack shows only who asked"
            if again
            else who or "see in the stack who threw: the first function outside the C++ runtime",
            "catch it at the top of that thread, so that it can be reported as an error",
        ),
        evidence=(cite_exception(own), *crash.frame(index)),
    )


_TERMINATE_LINES = (
    'read the type of the exception, and the line "what():" behind it, on standard error'
)
_CHECKS = Pattern(
    r"^(c10::detail::torch(Check|InternalAssert)Fail|pybind11::(pybind11_fail|detail::|object_api)|"
    r"std::|fmt::|c10::ThrowEnforceNotMet)"
)


def _thrower(thread: Thread, start: int | None) -> int | None:
    """Return the frame that threw: not the function that only makes the exception for it."""
    if start is None:
        return None
    for index in range(start, min(len(thread.frames), start + 8)):
        frame = thread.frames[index]
        if frame.kind == "python" or frame.function == "??":
            break
        if stacks.is_of_header(frame) or owner(frame) in (Owner.GLIBC, Owner.CXX_RUNTIME):
            continue
        if _CHECKS.match(bare(frame.function)) is None:
            return index
    return start


_OF_LIBRARY = Pattern(r"^std::__throw_(?!ios_)(\w+?)(?:_fmt)?$")
"""Functions of the C++ library that throw what they are named after."""
_THROWING = (
    "__cxa_throw",
    "__cxa_rethrow",
    "std::rethrow_exception",
    "__gxx_personality_v0",
    "_Unwind_RaiseException",
)


def _handler_of_terminate(thread: Thread) -> int | None:
    """Return the index of std::terminate where a function of the program's own stands inside it.

    A throw must stand right outside: std::terminate did not come from anywhere else then.
    """
    names = [bare(frame.function) for frame in thread.frames[:24]]
    at = next((i for i, name in enumerate(names) if name == "std::terminate"), None)
    inner = stacks.site(thread)
    if at is None or inner is None or inner >= at:
        return None
    return at if any(name in _THROWING for name in names[at + 1 : at + 4]) else None


_PROGRAMS = (Owner.PROGRAM, Owner.EXTENSION)


def _ended_in_handler(thread: Thread) -> bool:
    """Return whether std::terminate was called by other code than what throws."""
    names = [bare(frame.function) for frame in thread.frames[:24]]
    at = next((i for i, name in enumerate(names) if name == "std::terminate"), None)
    if at is None or any(name in _THROWING or "Unwind" in name for name in names):
        return False
    following = thread.frames[at + 1] if at + 1 < len(thread.frames) else None
    if following is None or stacks.is_terminate(following) or following.trust is Trust.SCAN:
        return False
    # The C++ library's throwing functions are exported: what has no name there is not of it.
    return following.function != "??" or owner(following) in _PROGRAMS


def _terminated_in_handler(thread: Thread, own: CppException, index: int | None) -> Finding:
    known = index is not None and thread.frames[index].function != "??"
    name = short(thread.frames[index].function, 36) if known and index is not None else ""
    by = f" by {name}" if name else ""
    said = f": {own.what}" if own.what else ""
    frames = () if index is None else (cite_frame(thread, index),)
    caught = own.found_by == "tls"  # those are on the thread's list of caught ones
    did = "handled" if caught else "unwound"
    was = "had been caught" if caught else "was on its way to a handler, and destructors ran"
    return Finding(
        title=f"std::terminate was called{by} while {short_type(own.type, 30)} was {did}{said}",
        cause=f"{own.type}{clip(said, 400)} {was}; no throw is on the stack, so the code "
        "that ran then ended the process itself, or something it used did (a std::thread that "
        "was destroyed before it was joined). It is most likely what went wrong first",
        confidence=Confidence.LIKELY,
        next_steps=(f"see in {name or 'the handler'} what calls std::terminate",),
        evidence=(cite_exception(own), *frames, *cite_python(thread)),
    )


def _handled(thread: Thread, own: CppException, index: int) -> Finding:
    """Return what an exception means that was caught before something else called abort."""
    name = short(thread.frames[index].function, 36)
    said = f": {own.what}" if own.what else ""
    return Finding(
        title=f"{name} aborted while {short_type(own.type, 36)} was being handled{said}",
        cause="the exception had been caught on this thread (or is a leftover on its stack), and "
        f"{name} then stopped the process; the exception may be the reason",
        confidence=Confidence.POSSIBLE,
        next_steps=(
            "read the last lines on standard error",
            f"see in {name} why it stops the process after such an error",
        ),
        evidence=(cite_exception(own), cite_frame(thread, index), *cite_python(thread)),
        role=Role.CONTRIBUTING,
    )


def _met_noexcept(thread: Thread) -> bool:
    names = [bare(frame.function) for frame in thread.frames[:16]]
    return any(
        name in ("__cxa_call_terminate", "__clang_call_terminate", "__gxx_personality_v0")
        for name in names
    )


def _is_plain_program(thread: Thread) -> bool:
    """Return whether a C++ program's own main() led to this end, and no Python."""
    if any(f.kind == "python" or owner(f) is Owner.CPYTHON for f in thread.frames):
        return False
    return any(bare(f.function) == "main" for f in thread.frames)


def _without_exception(thread: Thread) -> Findings:
    """Yield what std::terminate means when no exception is in flight."""
    names = [bare(frame.function) for frame in thread.frames[:16]]
    if any("pthread_exit" in name or name == "_Unwind_ForcedUnwind" for name in names):
        return  # the interpreter killed the thread: gil_at_exit
    if any(name in ("__cxa_pure_virtual", "__cxa_deleted_virtual") for name in names):
        return  # pure_virtual_call
    index = stacks.site(thread)
    evidence = [
        cite_frame(thread, i)
        for i, frame in enumerate(thread.frames[:12])
        if stacks.is_terminate(frame)
    ][-1:]
    evidence += [cite_frame(thread, index)] if index is not None else []
    by = ""
    if index is not None and thread.frames[index].function != "??":
        by = f" by {short(thread.frames[index].function, 40)}"
    rethrown = any(name in _THROWING for name in names)
    again = "__cxa_rethrow" in names
    thrown = next((f"std::{found[1]}" for one in names if (found := _OF_LIBRARY.search(one))), "")
    if rethrown:
        yield Finding(
            title=(
                f"possibly `throw;` without an exception to throw again{by}"
                if again
                else f"uncaught C++ exception {thrown or 'of unknown type'}{by}"
            ),
            cause="`throw;` was executed and no exception is recorded on this thread: it stands "
            "outside a catch block, or the record could not be read"
            if again
            else "a C++ exception was thrown and nothing caught it; "
            + ("the C++ library threw it" if thrown else "its type could not be read"),
            confidence=Confidence.LIKELY,
            next_steps=(_TERMINATE_LINES,),
            evidence=tuple(evidence),
        )
        return
    joinable = any("std::thread" in name for name in names)
    # __cxa_throw is an exported symbol: where std::terminate has a name, a throw would have one.
    is_named = any(name.startswith("std::terminate") for name in names)
    at_exit = stacks.exit_index(thread) is not None
    plain = _is_plain_program(thread)
    traceback = "look for a Python traceback above in the log: at exit this abort only follows it"
    close = "join() or detach() every std::thread before its object goes"
    if not plain:
        close += "; from Python, close the objects that own threads (process groups, writers, "
        close += "servers) before the end"
    yield Finding(
        title=f"std::terminate was called without an exception{by}",
        cause="no C++ exception is in flight: the usual cause is a std::thread that was destroyed "
        "while it still ran (not joined)"
        + ("" if joinable else "; code may also have called std::terminate itself")
        + (
            ""
            if joinable or is_named
            else ", called a pure virtual function or thrown nothing anew"
        )
        + ("; here the program was already ending" if at_exit else ""),
        confidence=Confidence.LIKELY if joinable or is_named else Confidence.POSSIBLE,
        next_steps=(close,) if plain else (traceback, close),
        evidence=tuple(evidence),
        # In a Python program the error whose traceback was printed came first.
        role=Role.CASCADE if at_exit and not plain else None,
    )
