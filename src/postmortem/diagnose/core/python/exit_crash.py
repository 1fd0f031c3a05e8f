"""The process died while it was already ending.

What it means
    The program had finished its work: exit handlers, destructors of global objects or the
    interpreter's finalisation were running. Something was used after it had been taken down
    (the CUDA context, a library, the interpreter), often by a thread that still ran.
How to be sure
    Functions of exit stand under the crash on the stack of the crashed thread, or on that of
    the main thread while another thread crashed.
What to do
    Results written before are usually whole; check them. End threads, process groups and
    loaders explicitly before main returns; keep GPU objects out of global variables.
"""

from postmortem.diagnose.core.citing import cite_frame, cite_python
from postmortem.diagnose.core.crash import Crash
from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.owners import file_name
from postmortem.diagnose.core.stacks import exit_index, fault_start, site
from postmortem.diagnose.names import short
from postmortem.diagnose.rule import Confidence, Finding, Findings, Role, rule
from postmortem.patterns import Pattern

_SANITIZERS = ("__lsan::", "__asan::", "__tsan::", "__sanitizer::")
_ENDED = Pattern(r"\b(PyThread_exit_thread|PyThread_hang_thread)$")


@rule(
    "https://man7.org/linux/man-pages/man3/exit.3.html",
    "https://github.com/pytorch/pytorch/issues/24983",
    "https://github.com/pytorch/pytorch/issues/38228",
    role=Role.CONTRIBUTING,
)
def exit_crash(crash: Crash) -> Findings:
    kind = crash.kind
    crashed = crash.crashed
    if not (kind.is_fault or kind in (FaultKind.ABORT, FaultKind.RERAISED)):
        return
    if kind is FaultKind.ABORT and any(_ENDED.search(f.function) for f in crashed.frames[:16]):
        return  # gil_at_exit
    if any(f.function.startswith(_SANITIZERS) for f in crashed.frames[:16]):
        return  # sanitizer_report: leaks are looked for at exit
    index = exit_index(crashed)
    main = crash.threads.main
    if index is None and (main is None or main is crashed or (exit_index(main) is None)):
        return
    if index is not None:
        start = fault_start(crashed, kind)
        inner = start if start or kind.is_fault else site(crashed)
        evidence = [cite_frame(crashed, index)]
        who = ""
        if inner is not None and inner < index:
            evidence.insert(0, cite_frame(crashed, inner))
            frame = crashed.frames[inner]
            name = short(frame.function) if frame.function != "??" else file_name(frame.module)
            who = f", in {name}"
        title = f"the process died while it was ending{who}"
        cause = (
            "the program's work was done and it was shutting down (exit handlers, global "
            "destructors, the interpreter's finalisation) when it died: something was used after "
            "its end"
        )
        confidence = Confidence.LIKELY
    else:
        assert main is not None
        at = exit_index(main) or 0
        evidence = [cite_frame(main, at)]
        title = "a thread died while the main thread was ending the process"
        cause = (
            "the main thread was in exit while the crashed thread still ran: it used something "
            "that had already been taken down"
        )
        confidence = Confidence.POSSIBLE
    yield Finding(
        title=title,
        cause=cause,
        confidence=confidence,
        next_steps=(
            "check the results: what was written before the end is usually whole",
            "end threads, DataLoaders and process groups (destroy_process_group) before main "
            "returns; drop global objects that own GPU memory or threads",
        ),
        evidence=(*evidence, *cite_python(crashed)),
    )
