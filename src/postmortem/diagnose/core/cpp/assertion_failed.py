"""An assertion in native code failed.

What it means
    The code checked something that its author took for always true, and it was not.
How to be sure
    The C library keeps the message with file, line, function and condition; without it,
    __assert_fail on the stack says as much and its caller is the place.
What to do
    Read the source at that line; the condition names what was wrong.
"""

from postmortem.diagnose.core.citing import cite_abort, cite_words, degree_of
from postmortem.diagnose.core.crash import Crash
from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.stacks import is_debug_mode, of_libc
from postmortem.diagnose.names import bare
from postmortem.diagnose.rule import Finding, Findings, rule
from postmortem.facts.crash import AbortMessage, Panic

_FRAMES = {"assert_fail", "assert_perror_fail"}
_OF_CXX = {"std::__glibcxx_assert_fail", "std::__replacement_assert"}


@rule("https://man7.org/linux/man-pages/man3/assert.3.html")
def assertion_failed(crash: Crash, message: AbortMessage | None, said: Panic | None) -> Findings:
    if crash.kind is not FaultKind.ABORT:
        return
    frames = crash.crashed.frames[:8]
    found = message.match("assertion") if message is not None else None
    by_frames = any(
        of_libc(f, _FRAMES) or bare(f.function) in _OF_CXX or is_debug_mode(f) for f in frames
    )
    if (message and message.match("assertion-of-malloc")) or (found is None and not by_frames):
        return
    cited = (cite_abort(message),) if found and message else ()
    sure = degree_of(message if found else None)
    if found is None and said is not None and said.language == "C":
        found, cited = said.match("assertion"), (cite_words(crash.crashed, said),)
    if found is not None:
        file = found["file"].rsplit("/", 1)[-1]
        title = f"assertion failed at {file}:{found['line']}: {found['condition']}"
        steps = (f"read {found['file']} line {found['line']}: why is the condition false?",)
    else:
        title = f"assertion failed{crash.named(' in', crash.caller)}"
        steps = ("read the message of the assertion on standard error",)
    yield Finding(
        title=title,
        cause="native code checked a condition that its author assumed to be always true, "
        "and stopped the program because it was not",
        confidence=sure,
        next_steps=steps,
        evidence=(*cited, *crash.frame(crash.caller)),
    )
