"""Node.js or V8 ended the process.

What it means
    The heap of JavaScript reached its limit, V8 met a fatal error, or the program called
    process.abort(). The reason was printed to standard error.

How to be sure
    The function of Node.js or V8 that ends the process stands on the crashed stack. What an
    exception said is taken from V8's heap, its stack from what was printed last, where both
    are still there.

What to do
    Read the last lines on standard error; they have the stack of JavaScript. Values and frames
    of JavaScript are not read from the core.
"""

from postmortem.diagnose.core.citing import cite_frame
from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.names import bare, clip
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, rule
from postmortem.facts.crash import Panic
from postmortem.facts.threads import Thread

_INNERMOST = 24
_ENDS = (FaultKind.ABORT, FaultKind.BREAKPOINT, FaultKind.COMPILER_TRAP)
_READ = 'read what follows "FATAL ERROR" or "Uncaught" on standard error'
# Function, title, cause, first step: the first that stands on the stack.
_REASONS = (
    (
        "node::OOMErrorHandler",
        "the JavaScript heap is full (Node.js)",
        "V8 could not free enough memory below its limit, and Node.js aborts then. The limit is "
        "V8's own (--max-old-space-size, or part of the machine's or the container's memory)",
        "NODE_OPTIONS=--max-old-space-size=MIB raises the limit; --heapsnapshot-near-heap-limit=1 "
        "shows what fills it",
    ),
    (
        "node::OnFatalError",
        "a fatal error of V8 (Node.js)",
        "V8 met a state in which it cannot go on, and Node.js printed it and aborted",
        _READ,
    ),
    (
        "v8::internal::Isolate::CreateMessageOrAbort",
        "a JavaScript exception that nothing would have caught",
        "V8 runs with --abort-on-uncaught-exception, and stops where such an exception is thrown",
        _READ,
    ),
    (
        "node::Assert",
        "a check of Node.js itself failed",
        "native code of Node.js or of an add-on broke a condition that must hold",
        _READ,
    ),
    (
        "node::Abort",
        "process.abort() was called, or Node.js stopped itself",
        "JavaScript code asked for the end, or native code of Node.js did",
        _READ,
    ),
)


@rule("https://nodejs.org/api/cli.html")
def node_end(kind: FaultKind, crashed: Thread | None, panic: Panic | None) -> Findings:
    if crashed is None or kind not in _ENDS:
        return
    names = [bare(frame.function) for frame in crashed.frames[:_INNERMOST]]
    found = next((row for row in _REASONS if row[0] in names), None)
    if found is None or (kind is not FaultKind.ABORT and "v8::base::OS::Abort" not in names):
        return
    name, title, cause, step = found
    evidence = [cite_frame(crashed, names.index(name))]
    if panic is not None and panic.language == "JavaScript":
        title = f"JavaScript exception: {panic.head.removeprefix('Uncaught ')}"
        cause = f"{clip(panic.head, 300)}: {cause}"
        functions = panic.text.splitlines()[1:]
        evidence += [Evidence(f"thread {crashed.tid}", clip(line, 200)) for line in functions[:3]]
    yield Finding(
        title=title,
        cause=cause,
        confidence=Confidence.LIKELY,
        next_steps=(
            step,
            "llnode NODE -c CORE, then v8 bt (a plug-in of lldb), shows the JavaScript stack; "
            "node --report-on-fatalerror writes it to a file next time",
        ),
        evidence=tuple(evidence),
    )
