"""A check of the C library found that a buffer was written past.

What it means
    "stack smashing detected": the function that was returning had a local array written past
    its end. "buffer overflow detected": a copy into a buffer of known size was too long
    (FORTIFY_SOURCE); the copy did not happen.
How to be sure
    The C library's message says it, or its check (__stack_chk_fail, __chk_fail) is on the
    stack. The first function outside the C library is the one whose buffer it was.
What to do
    Look at the local arrays and the copies in that function.
"""

from postmortem.diagnose.core.citing import cite_abort, degree_of
from postmortem.diagnose.core.crash import Crash
from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.stacks import of_libc
from postmortem.diagnose.rule import Finding, Findings, rule
from postmortem.facts.crash import AbortMessage
from postmortem.knowledge.messages import explained

# (message, functions that print it (debug/ in glibc), title); where the message is not there, the
# functions tell. Those of a copy come last: other checks end in them too.
_CHECKS: tuple[tuple[str, frozenset[str], str], ...] = (
    (
        "stack-smash",
        frozenset({"stack_chk_fail", "stack_chk_fail_local"}),
        "stack smashing detected",
    ),
    ("fortify-percent-n", frozenset(), "%n in a format string that can be written"),
    ("fortify-longjmp", frozenset({"longjmp_chk"}), "longjmp to a function that had returned"),
    (
        "fortify-fd-set",
        frozenset({"fdelt_warn", "fdelt_chk"}),
        "file descriptor of 1024 or more in FD_SET (select)",
    ),
    ("fortify-copy", frozenset({"chk_fail"}), "buffer overflow"),
)


@rule(
    "https://gcc.gnu.org/onlinedocs/gcc/Instrumentation-Options.html",
    "https://man7.org/linux/man-pages/man7/feature_test_macros.7.html",
)
def buffer_overflow(crash: Crash, message: AbortMessage | None) -> Findings:
    if crash.kind is not FaultKind.ABORT:
        return
    frames = crash.crashed.frames[:8]
    said = next((c for c in _CHECKS if message and message.match(c[0])), None)
    check = said or next((c for c in _CHECKS if any(of_libc(f, c[1]) for f in frames)), None)
    if check is None:
        return
    cited = (cite_abort(message),) if said and message else ()
    name, _, title = check
    known = explained(name)
    yield Finding(
        title=f"{title}{crash.named(' in', crash.caller)}",
        cause=known.cause,
        confidence=degree_of(message if said else None),
        next_steps=(
            *known.next_steps,
            "run a small case under AddressSanitizer: it names the variable and the line",
        ),
        evidence=(*cited, *crash.frame(crash.caller)),
    )
