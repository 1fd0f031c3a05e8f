"""CPython met an object that is damaged, freed or null.

What it means
    The interpreter itself failed on the header of an object: its reference count, its type or
    the links of the garbage collector. Python code cannot do that. Native code wrote past a
    buffer, gave a reference back that it did not own, or handed over a null pointer. The
    collector and the allocator only come across the damage: it is older than the crash, and
    the Python line is where they happened to run.
How to be sure
    The innermost frames are CPython's own and the thread holds the GIL. Another place in every
    run confirms damaged memory. A bug of CPython itself looks the same, but is rare.
What to do
    Run with PYTHONMALLOC=debug (and -X dev), which checks blocks as they are freed. Suspect the
    native modules of your own first; run gc.collect() after calls into them, to come nearer to
    the moment of the damage.
"""

from postmortem.diagnose.core.citing import cite_frame, cite_python
from postmortem.diagnose.core.crash import Crash
from postmortem.diagnose.core.owners import Owner, file_name, module_name, module_owner, package
from postmortem.diagnose.core.pyobject_fault import ObjectFault, Touch, intruder, object_fault
from postmortem.diagnose.names import bare, short
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, rule
from postmortem.facts.memory import Modules
from postmortem.facts.process import Process
from postmortem.text import some

_MOST_SUSPECTS = 6


@rule(
    "https://docs.python.org/3/c-api/refcounting.html",
    "https://docs.python.org/3/using/cmdline.html#envvar-PYTHONMALLOC",
)
def damaged_object(crash: Crash, modules: Modules) -> Findings:
    found = object_fault(crash.kind, crash.signal, crash.threads, crash.fault)
    if found is None:
        return
    crashed = crash.crashed
    function = short(crashed.frames[found.index].function, 40)
    evidence: list[Evidence] = [crash.cited, cite_frame(crashed, found.index)]
    by = ""
    if found.caller is not None:
        frame = crashed.frames[found.caller]
        evidence.append(cite_frame(crashed, found.caller))
        name = short(frame.function, 32) if frame.function != "??" else ""
        by = f"{name} in {module_name(frame.module)}" if name else module_name(frame.module)
    evidence.extend(cite_python(crashed))
    suspects = _suspects(modules, crash.process)
    if suspects and found.touch is not Touch.NULL:
        evidence.append(Evidence("native modules outside the platform", suspects))
    other = intruder(crash.threads)
    beside = ""
    if other is not None and found.touch is not Touch.NULL:
        evidence.append(cite_frame(*other))
        name = short(other[0].frames[other[1]].function, 40)
        beside = (
            f". Thread {other[0].tid} was in {name} at that moment, called by native code and "
            "without the GIL: two threads worked on Python's objects at once, which damages them"
        )
    yield Finding(
        title=_title(found, function, by),
        cause=_cause(found, bare(crashed.frames[found.index].function), by) + beside,
        confidence=Confidence.LIKELY,
        next_steps=(
            *(
                [f"make native code of thread {other[0].tid} take the GIL first"]
                if beside and other
                else []
            ),
            *_steps(found, function, by, suspects),
        ),
        evidence=tuple(evidence),
    )


def _title(found: ObjectFault, function: str, by: str) -> str:
    match found.touch:
        case Touch.COLLECTOR:
            return f"the garbage collector met a damaged Python object (in {function})"
        case Touch.ALLOCATOR if "ree" in function:
            return f"Python's allocator was given back a block that is not its own (in {function})"
        case Touch.ALLOCATOR:
            return f"Python's memory allocator found its blocks overwritten (in {function})"
        case Touch.CHECK:
            return f"a block of Python's memory was freed twice or overwritten (in {function})"
        case Touch.RELEASE:
            return f"a damaged or already freed Python object was released (in {function})"
        case Touch.USE:
            return f"a damaged or already freed Python object was used (in {function})"
        case Touch.NULL:
            return f"{by} passed a null pointer to {function}"


def _cause(found: ObjectFault, function: str, by: str) -> str:
    if found.touch is Touch.NULL:
        return (
            f"{by} called {function} with a null pointer where a Python object must be: most often "
            "a call before it failed and its result was not checked"
        )
    if found.touch is Touch.CHECK:
        return (
            f"{found.touch.value} and failed on what stands in its header, which is no header (any "
            "more): the block had been freed before, was written over, or is not of this allocator"
        )
    older = (
        "the damage is older than this moment, and the Python line only shows where "
        f"{'the collector' if found.touch is Touch.COLLECTOR else 'the allocator'} happened to run"
    )
    seen = (
        "its header (reference count, type, links) does not hold what must be there"
        if found.touch is not Touch.ALLOCATOR
        else "the list of free blocks does not hold what must be there"
    )
    who = (
        "native code wrote past a buffer, used an object after it was freed, or released a "
        "reference that it did not own"
    )
    if found.touch in (Touch.COLLECTOR, Touch.ALLOCATOR):
        return f"{found.touch.value}, and {seen}: {who}; {older}"
    near = f"; {by}, which called here, is the first suspect" if by else ""
    return f"{found.touch.value}, and {seen}: {who}{near}"


def _steps(found: ObjectFault, function: str, by: str, suspects: str) -> tuple[str, ...]:
    if found.touch is Touch.NULL:
        return (
            f"find in {by} where the argument of {function} comes from, and check it for NULL",
            "print the Python error that is set there (PyErr_Print): it says what failed",
        )
    if found.touch is Touch.CHECK:
        return (
            'read "Debug memory block at address" on standard error: pad bytes of 0xdd say that '
            "the block was free already, others what was written over it",
            "look at who gives it back here: is it from that allocator, and given back once?",
        )
    suspected = f" ({suspects})" if suspects else ""
    nearer = (
        "gc.collect() after each call of a suspect, or gc.set_threshold(1), brings the crash "
        "nearer to its cause"
        if found.touch is Touch.COLLECTOR
        else "does it crash at another place each time? then memory is damaged, and the stack of "
        "the crash does not show who did it"
    )
    return (
        "PYTHONMALLOC=debug python -X dev …: stops where a damaged block is freed and says which",
        f"suspect native modules of your own first{suspected}: wrong Py_DECREF, borrowed "
        "references, writes past the end of an array",
        nearer,
    )


def _suspects(modules: Modules, process: Process) -> str:
    """Return the extension modules that are neither a platform's nor of an installed package."""
    names: list[str] = []
    for module in modules:
        name = file_name(module.path)
        is_extension = ".cpython-" in name or ".abi3." in name or name.endswith("module.so")
        if not is_extension or package(module.path) is not None or name in names:
            continue
        if module_owner(module.path, process) is Owner.EXTENSION:
            names.append(name)
    return some(names, _MOST_SUSPECTS)
