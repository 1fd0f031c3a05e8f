"""A Go program panicked, and no deferred function recovered.

What it means
    Go's run-time found a nil pointer, an index beyond the end or the like, or the program
    called panic(). The runtime printed the reason and the goroutine's stack, and, with
    GOTRACEBACK=crash, raised SIGABRT on itself to leave a core.
How to be sure
    runtime.gopanic or runtime.throw stands on the crashed stack. The first function outwards
    that is not the run-time's is where it happened. Without the program's file its words tell,
    which the run-time keeps.
What to do
    Read the lines after "panic:" or "fatal error:" on standard error. Delve (dlv core EXE CORE)
    shows all goroutines; only those that were running are in the stacks here.
"""

from postmortem.diagnose.core.citing import cite_frame, cite_words
from postmortem.diagnose.core.stacks import is_nameless
from postmortem.diagnose.names import clip, short
from postmortem.diagnose.rule import Confidence, Finding, Findings, rule
from postmortem.facts.crash import Panic
from postmortem.facts.threads import Frame, Thread
from postmortem.patterns import Pattern

_INNERMOST = 40
_PANIC = Pattern(
    r"^runtime\.(gopanic|fatalpanic|fatalthrow(\.func\d)?|throw|fatal|sigpanic|dopanic\w*)(\.abi\w+)?$"
)
_MEANINGS: tuple[tuple[str, str], ...] = (
    ("runtime.panicmem", "nil pointer dereference"),
    ("runtime.goPanicIndex", "index out of range"),
    ("runtime.panicIndex", "index out of range"),
    ("runtime.goPanicSlice", "slice bounds out of range"),
    ("runtime.panicSlice", "slice bounds out of range"),
    ("runtime.panicdivide", "integer divide by zero"),
    ("runtime.panicdottype", "interface conversion: another type is in it"),
    ("runtime.panicnildottype", "interface conversion: the interface is nil"),
    ("runtime.panicmakeslice", "makeslice: length out of range"),
    ("runtime.mapassign", "assignment to an entry in a nil map"),
    ("runtime.closechan", "close of a nil or closed channel"),
    ("runtime.chansend", "send on a closed channel"),
    ("runtime.sigpanic", "a fault, usually a nil pointer"),
    ("runtime.throw", "a fatal error of Go's runtime"),
    ("runtime.fatalthrow", "a fatal error of Go's runtime"),
)


@rule("https://pkg.go.dev/runtime#hdr-Environment_Variables")
def go_panic(crashed: Thread | None, panic: Panic | None) -> Findings:
    if crashed is None:
        return
    found = _panic(crashed)
    said = panic if panic is not None and panic.language == "Go" else None
    if found is None and (said is None or not is_nameless(crashed)):
        return
    behind = range(len(crashed.frames) if found is None else found, len(crashed.frames))
    outer = next((i for i in behind if not _of_run_time(crashed.frames[i])), None)
    names = [frame.function for frame in crashed.frames[:outer]]
    words_of = _MEANINGS
    if "runtime.sigpanic" in names and "runtime.throw" in names:
        words_of = (("runtime.sigpanic", "a fault outside of Go's code"),)
    what = next((words for name, words in words_of if any(n.startswith(name) for n in names)), "")
    end_words = said.match("go-end") if said is not None else None
    is_fatal = end_words is not None and bool(end_words["fatal"])
    what = (end_words["what"] if end_words and not is_fatal else said.head if said else "") or what
    evidence = [] if found is None else [cite_frame(crashed, found)]
    if said is not None and found is None:
        evidence = [cite_words(crashed, said)]
    where = ""
    if outer is not None:
        evidence.append(cite_frame(crashed, outer))
        where = f" in {short(crashed.frames[outer].function)}"
    end = "Go stopped" if is_fatal else "Go panicked"
    yield Finding(
        title=f"{end}{': ' + clip(what, 84 - len(where)) if what else ''}{where}",
        cause=(f"{what}: " if what else "")
        + (
            "Go's runtime found its own state, or the program's, damaged"
            if is_fatal
            else "no deferred function recovered"
        )
        + ", so Go's runtime printed the reason to standard error and ended the process",
        confidence=Confidence.LIKELY,
        next_steps=(
            'read what follows "panic:" or "fatal error:" on standard error',
            "dlv core EXE CORE shows all goroutines; here are those that were running",
        ),
        evidence=tuple(evidence),
    )


def _panic(thread: Thread) -> int | None:
    """Return the index of the outermost frame of the way from a panic to the end."""
    found = [i for i, f in enumerate(thread.frames[:_INNERMOST]) if _PANIC.match(f.function)]
    return found[-1] if found else None


def _of_run_time(frame: Frame) -> bool:
    return frame.is_signal or frame.function.startswith("runtime.")
