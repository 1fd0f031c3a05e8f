"""The run-time of .NET ended the process.

What it means
    An exception reached the end of its thread, code called Environment.FailFast(), or the
    run-time met a state in which it cannot go on. It printed the reason and the methods to
    standard error, and aborted.

How to be sure
    Functions of libcoreclr stand between abort() and the code that .NET compiled. The
    exception's own words are taken from what was left of the thread's stack, if they still
    are there.

What to do
    Read what the run-time printed. dotnet-dump analyze CORE, then clrstack and pe, shows the
    methods and the exception.
"""

from postmortem.diagnose.core.citing import cite_frame
from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.names import bare, clip
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, rule
from postmortem.facts.crash import Panic
from postmortem.facts.threads import Thread

_INNERMOST = 32
_ENDING = ("PROCAbort", "PROCEndProcess", "PROCCreateCrashDump", "SafeExitProcess")
_REASONS = (
    ("SystemNative::FailFast", "Environment.FailFast() was called", ".NET code asked for the end"),
    (
        "UnwindManagedExceptionPass1",
        "a .NET exception that nothing caught",
        "no catch block took it, so the runtime printed it and ended the process",
    ),
    (
        "EEPolicy::HandleFatalError",
        "a fatal error of the .NET runtime",
        "the runtime found its own state damaged, or could not go on",
    ),
)


@rule("https://learn.microsoft.com/dotnet/core/diagnostics/dotnet-dump")
def dotnet_end(kind: FaultKind, crashed: Thread | None, panic: Panic | None) -> Findings:
    if crashed is None or kind is not FaultKind.ABORT:
        return
    names = [bare(frame.function) for frame in crashed.frames[:_INNERMOST]]
    found = None
    if any(name in _ENDING for name in names):
        found = next((row for row in _REASONS if row[0] in names), None)
    said = panic is not None and panic.language == ".NET"
    if found is None and not (said and _is_nameless(names)):
        return
    name, title, cause = found or _REASONS[1]
    evidence = [cite_frame(crashed, names.index(name))] if found is not None else []
    if panic is not None and said:
        title = f"{title}: {panic.head}"
        methods = [line.strip() for line in panic.text.splitlines()[1:]]
        cause = f"{clip(panic.head, 300)}: {cause}"
        if methods:
            evidence.append(Evidence(f"thread {crashed.tid}", clip(methods[0], 200)))
    yield Finding(
        title=title,
        cause=cause,
        # Without names on the stack, the words may be those of an exception that was caught before.
        confidence=Confidence.LIKELY if found is not None else Confidence.POSSIBLE,
        next_steps=(
            "read what the runtime printed to standard error: the exception and its methods",
            "dotnet-dump analyze CORE, then clrstack -all and pe, shows methods and exceptions",
        ),
        evidence=tuple(evidence),
    )


def _is_nameless(names: list[str]) -> bool:
    """Return whether abort() was called by code without a name: a program in a single file."""
    return "abort" in names[:-1] and names[names.index("abort") + 1] == "??"
