"""A function of pthreads was given a thread that is none.

What it means
    A pthread_t is the address of the thread's own record in the C library. pthread_join,
    pthread_kill and their like read it: where the thread was joined before, or was detached and
    has ended, its memory may be gone; a handle that was never set leads anywhere.
How to be sure
    The fault is in the function itself, while it reads the record. That the handle is wrong is
    sure; why it is must be seen in the program.
What to do
    Look at who joins or signals that thread, and how often. std::thread and Python's threads keep
    the handle themselves.
"""

from postmortem.diagnose.core.crash import Crash
from postmortem.diagnose.core.stacks import plain
from postmortem.diagnose.rule import Confidence, Finding, Findings, rule
from postmortem.patterns import Pattern

_TAKES_A_THREAD = Pattern(
    r"^pthread_((join|timedjoin_np|tryjoin_np|clockjoin_(np|ex)|detach|cancel|getattr_np|"
    r"getcpuclockid|[gs]etname_np|[gs]etaffinity_np|[gs]etschedparam|setschedprio)|"
    r"(kill|sigqueue)(_internal|_implementation)?)$"
)


@rule("https://man7.org/linux/man-pages/man3/pthread_self.3.html")
def wrong_thread(crash: Crash) -> Findings:
    frames = crash.crashed.frames
    if not crash.kind.is_memory_fault or not frames:
        return
    inner = plain(frames[0].function)
    if not _TAKES_A_THREAD.match(inner):
        return
    outer = (plain(frame.function) for frame in frames[1:3])
    name = next((name for name in outer if _TAKES_A_THREAD.match(name)), inner)
    name = name.replace("clockjoin_ex", "join")
    by = crash.named(", called by", crash.caller, 40)
    yield Finding(
        title=f"{name} was given a thread that is gone or never was{by}",
        cause=f"{crash.words}. {name} reads the thread's own record at the pthread_t that it was "
        "given, and no such record is there: the thread was joined before, was detached and has "
        "ended, or the handle was never set or overwritten",
        confidence=Confidence.LIKELY,
        next_steps=(
            "look for a second join of that thread, or one behind a detach: after either its "
            "pthread_t may not be used any more",
            "see where the pthread_t is set: pthread_create leaves it unset where it fails",
        ),
        evidence=(crash.cited, *crash.way()),
        explains=("bad_pointer", "null_dereference", "ctypes_call", "extension_crash"),
    )
