"""The C heap is damaged.

What it means
    malloc or free found its own records overwritten, or a pointer that is not its own: a
    block freed twice, a pointer into the middle of a block or from another allocator, or a
    buffer that something wrote past.
How to be sure
    The C library's message says what it found. An invalid or repeated free is usually wrong
    in the very call on the stack; overwritten records were damaged earlier, and the code that
    is on the stack now is innocent. A crash inside malloc or free without a message is most
    likely the same.
What to do
    Catch the damage when it is done, not when it is found: AddressSanitizer or valgrind on a
    small case. Suspect the native code of your own first, then mixed allocators.
"""

from postmortem.diagnose.core.citing import cite_abort, degree_of
from postmortem.diagnose.core.crash import Crash
from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.owners import Owner, file_name, owner
from postmortem.diagnose.core.stacks import caller, exit_index, in_allocator, is_malloc, plain, site
from postmortem.diagnose.names import short
from postmortem.diagnose.rule import Confidence, Finding, Findings, rule
from postmortem.facts.crash import AbortMessage
from postmortem.facts.threads import Thread
from postmortem.knowledge.messages import explained
from postmortem.patterns import Pattern

# Messages of glibc's malloc/malloc.c, and whether the caller on the stack is suspect.
_MESSAGES = (
    ("heap-double-free", True),
    ("heap-free-invalid", True),
    ("heap-munmap", True),
    ("heap-prev-size", False),
    ("heap-malloc-corrupt", False),
)
_STEPS = (
    "run a small case under AddressSanitizer (LD_PRELOAD=libasan.so for extensions built with "
    "-fsanitize=address) or valgrind: they stop where the damage is done",
    "two allocators or C++ runtimes in one process? unset LD_PRELOAD (tcmalloc, jemalloc) and look "
    "for more than one libstdc++ among the modules",
    "MALLOC_CHECK_=3 with glibc 2.34 or later needs LD_PRELOAD=libc_malloc_debug.so.0",
)


@rule(
    "https://man7.org/linux/man-pages/man3/mallopt.3.html",
    "https://github.com/pytorch/pytorch/issues/2542",
    "https://github.com/google/sanitizers/wiki/AddressSanitizer",
)
def heap_corruption(crash: Crash, message: AbortMessage | None) -> Findings:
    crashed = crash.crashed
    found = _by_message(message) if message is not None else None
    if message is not None and found is not None and crash.kind is FaultKind.ABORT:
        what, cause, is_here = found
        by = crash.named(", freed by", crash.caller, 40) if is_here else ""
        yield Finding(
            title=f"heap corruption: {what}{by}",
            cause=cause + _at_exit(crashed),
            confidence=degree_of(message),
            next_steps=_first_step(crashed, is_here) + _STEPS,
            evidence=(cite_abort(message), *crash.frame(crash.caller)),
        )
        return
    if not crashed.frames or not _died_in_malloc(crash.kind, crashed):
        return
    frame = crashed.frames[_malloc_index(crashed)]
    where = short(frame.function) if frame.function != "??" else file_name(frame.module)
    if _GIVES_BACK.match(plain(crashed.frames[0].function)) and crash.kind.is_memory_fault:
        yield _foreign_pointer(crash)
        return
    did = "failed while it followed" if crash.kind.is_memory_fault else "stopped the program over"
    yield Finding(
        title=f"heap corruption: the program died inside {where}",
        cause=f"the allocator itself {did} its own records: something damaged the heap earlier "
        "(an overrun, a use after free, a second free); the caller on the stack may be innocent",
        confidence=Confidence.LIKELY,
        next_steps=_first_step(crashed, False) + _STEPS,
        evidence=(crash.cited, *crash.frame(crash.caller)),
    )


_TRAPS = (FaultKind.PRIVILEGED_INSTRUCTION, FaultKind.COMPILER_TRAP)
"""How allocators end a program whose heap they find damaged: musl's by hlt."""
_GIVES_BACK = Pattern(r"^(free|cfree|realloc)$")
"""They look at the word before the block and nothing else, before inner functions take over."""


def _foreign_pointer(crash: Crash) -> Finding:
    """Return what a fault in free() itself means: the block has no readable header."""
    name = plain(crash.crashed.frames[0].function)
    by = crash.named(", called by", crash.caller, 40)
    return Finding(
        title=f"heap corruption: {name} was given a pointer malloc never returned{by}",
        cause=f"{name}() failed on the very first look at the block that it was given: nothing "
        "readable is there. The pointer was overwritten, never set, freed long ago and unmapped, "
        "or does not come from malloc",
        confidence=Confidence.LIKELY,
        next_steps=_first_step(crash.crashed, True) + _STEPS,
        evidence=(crash.cited, *crash.frame(crash.caller)),
    )


def _by_message(message: AbortMessage) -> tuple[str, str, bool] | None:
    """Return the message's words, its meaning, and whether the caller on the stack is suspect."""
    if message.match("assertion") and not message.match("assertion-of-malloc"):
        return None  # of an allocator that is not the C library's, in its words
    found = message.match("heap-message")
    shown = found["what"] if found else message.text.split("\n", 1)[0].strip()
    for name, is_here in _MESSAGES:
        if message.match(name):
            return shown, explained(name).cause, is_here
    return None


def _died_in_malloc(kind: FaultKind, thread: Thread) -> bool:
    if kind.is_memory_fault or kind in _TRAPS:
        return kind is not FaultKind.BAD_CALL and in_allocator(thread)
    if kind is not FaultKind.ABORT:
        return False
    # No message can be read (cut core, musl, another allocator): the stack says as much.
    names = [plain(frame.function) for frame in thread.frames[:8]]
    at = site(thread)
    return "malloc_printerr" in names or (
        at is not None and owner(thread.frames[at]) is Owner.ALLOCATOR
    )


def _malloc_index(thread: Thread) -> int:
    return next((i for i, frame in enumerate(thread.frames[:12]) if is_malloc(frame)), 0)


def _first_step(thread: Thread, is_here: bool) -> tuple[str, ...]:
    index = caller(thread)
    if index is None or not is_here:
        return ()
    name = short(thread.frames[index].function)
    if name == "??":
        return ("look at the code that called free (the frames just outside the C library)",)
    return (f"look at what {name} frees: is it from malloc, and is it freed only once?",)


def _at_exit(thread: Thread) -> str:
    if exit_index(thread) is None:
        return ""
    return " It was found while the program was ending (destructors of global objects)."
