"""What may explain what: rows of (cause, effect), what must join them, and how sure that makes it.

The strength is *certain* where the evidence names both ends, *likely* where only one candidate is
left, *possible* otherwise. A row without a join proves nothing: two things that happened in one job
need not have to do with each other.
"""

from collections.abc import Callable, Collection, Hashable
from typing import Generic, Protocol, TypeVar

from postmortem.diagnose.incident.events import Event, EventType, wrote
from postmortem.facts.process_role import AGENT
from postmortem.records import record
from postmortem.report.model import Confidence

_QUOTES = "'\""
_PEER_GONE = frozenset(("ECONNRESET", "EPIPE"))
_DISK_BROKE = frozenset(("EIO", "EROFS", "ENXIO", "ENODEV", "ESTALE", "ENOTCONN"))


class Joinable(Protocol):
    """What an event of any kind has, so that rows may join it."""

    @property
    def type(self) -> Hashable: ...
    @property
    def confidence(self) -> Confidence: ...
    @property
    def order(self) -> int: ...


E = TypeVar("E", bound=Joinable)


@record
class Explains(Generic[E]):
    """One row: events of these types may explain those."""

    id: str
    causes: Collection[Hashable]
    effects: Collection[Hashable]
    join: Callable[[E, E], Confidence | None]


def same_process(cause: Event, effect: Event) -> Confidence | None:
    """Both name the process, or the one rank, and neither is a child of it; or one wrote the other.

    What a process wrote names it where the log of its words has no number of a process.
    """
    if cause.pid is not None and effect.pid is not None:
        # One rank is one process, whatever two programs call its host.
        one = _one_host(cause, effect) or (cause.ranks == effect.ranks != () and not cause.role)
        return Confidence.CERTAIN if cause.pid == effect.pid and one else None
    if cause.role or effect.role or not _one_host(cause, effect):
        return None
    if not (cause.ranks and effect.ranks):
        known = wrote(cause.wrote, effect.what) or wrote(effect.wrote, cause.what)
        return Confidence.LIKELY if known else None
    one = len(cause.ranks) == len(effect.ranks) == 1
    return Confidence.LIKELY if one and cause.ranks == effect.ranks else None


def same_end(cause: Event, effect: Event) -> Confidence | None:
    """Two reports of the end of one process, the cause from the one that looks deeper.

    Where both name the signal, it is the same. What logs conclude on of a kernel's line is an
    effect of that.
    """
    deeper = _DEPTH.index(cause.source) < _DEPTH.index(effect.source)
    if not deeper and not (cause.source == effect.source and effect.type is EventType.FAILED):
        return None
    if cause.signal and effect.signal and cause.signal != effect.signal:
        return None
    return same_process(cause, effect)


def same_exit(cause: Event, effect: Event) -> Confidence | None:
    """What a process said explains the code that it ended with; a launcher's follows its ranks'."""
    if cause.source == effect.source:
        return None
    if not effect.ranks and effect.confidence is Confidence.POSSIBLE and cause.belongs:
        return Confidence.LIKELY
    several = len(cause.ranks) > 1 and set(effect.ranks) <= set(cause.ranks)
    return Confidence.LIKELY if effect.ranks and several else same_process(cause, effect)


def told_twice(cause: Event, effect: Event) -> Confidence | None:
    """A recording repeats what the logs tell of how a process ended."""
    return same_process(cause, effect) if cause.source == "logs" != effect.source else None


def lost_peer_exits(cause: Event, effect: Event) -> Confidence | None:
    """Of a rank that only lost its peer, the code that it ended with says nothing more."""
    if cause.source == effect.source or not effect.ranks or effect.role:
        return None
    return Confidence.LIKELY if set(effect.ranks) <= set(cause.ranks) else None


def lost_child(cause: Event, effect: Event) -> Confidence | None:
    """The effect says which child it lost, or how; or the cause is a child of its rank."""
    if cause.pid is not None and effect.children:
        return Confidence.CERTAIN if cause.pid in effect.children else None
    if not cause.role or effect.role or effect.children or cause.ranks != effect.ranks:
        return None
    if not cause.ranks:
        pool = cause.role != AGENT and effect.match("pool-process-died") is not None
        return Confidence.LIKELY if pool else None
    told = cause.signal is not None and cause.signal in effect.what
    told = told or not _PEER_GONE.isdisjoint(effect.errnos)  # its end of a pipe, or of a socket
    return Confidence.LIKELY if told else Confidence.POSSIBLE


def memory_kill(cause: Event, effect: Event) -> Confidence | None:
    """The kernel or the scheduler says whom it killed for memory."""
    if effect.signal not in (None, "SIGKILL"):
        return None
    found = same_process(cause, effect) or lost_child(cause, effect)
    # Of the rank that failed, and it failed by itself: the kernel never kills without need.
    alone = found is Confidence.POSSIBLE and bool(cause.belongs) and effect.order == 0
    return Confidence.LIKELY if alone else found


def refused_call(cause: Event, effect: Event) -> Confidence | None:
    """A call of the process, or of its child, failed and its error says so, or names the file."""
    said = bool(set(cause.errnos) & set(effect.errnos))
    # torch.save reports no more than this of any error.
    unsaid = cause.type is EventType.STORAGE and effect.match("ckpt-iostream") is not None
    path = cause.path or ""
    words, named = _words(effect.what), _names(effect.what, path)
    process = same_process(cause, effect)
    if cause.source == effect.source:  # a recording tells of the call, and of how its process ended
        ended = effect.type is EventType.EXITED and None not in (cause.pid, effect.pid)
        return process if ended else _storage_of_host(cause, effect)
    if process is not None:
        return process if said or named else Confidence.LIKELY
    if cause.ranks and set(cause.ranks) <= set(effect.ranks) and (said or named):
        return Confidence.LIKELY  # a child of the rank, or one of several that raised alike
    if cause.pid is not None and effect.pid is not None:
        return None
    if unsaid or (said and named):
        return Confidence.LIKELY
    # Where it quotes a file, it is of that one, but for a full disk; and `KeyError: 'labels'` is of
    # no call: without an error's number a whole path has to stand there.
    quotes = any(word[0] in _QUOTES for word in effect.what.split())
    of_another = cause.type is not EventType.STORAGE and quotes
    unclear = not of_another if said else "/" in path and path in words
    return Confidence.POSSIBLE if unclear else None


def _storage_of_host(cause: Event, effect: Event) -> Confidence | None:
    """Its disk or file server failed, says the kernel of its host, and so does its error."""
    kernel = cause.type is EventType.STORAGE and cause.source == "logs"
    broke = kernel and _DISK_BROKE & set(effect.errnos) and set(cause.ranks) & set(effect.ranks)
    return Confidence.LIKELY if broke else None


def no_room(cause: Event, effect: Event) -> Confidence | None:
    """The error says that there was no room, or may mean it; a path of it lies there, if any."""
    place = f"{cause.path}".rstrip("/") + "/"
    # torch.save reports no more than this of any error, and memory that is full no error at all.
    unsaid = effect.match("ckpt-iostream") is not None
    shared = effect.signal == "SIGBUS" and place == "/dev/shm/"
    if not (unsaid or shared or set(cause.errnos) & set(effect.errnos)):
        return None
    paths = [word for word in _words(f"{effect.path or ''} {effect.what}") if word.startswith("/")]
    if not paths or any(path.startswith(place) for path in paths):
        return cause.confidence
    return None


def damaged_file(cause: Event, effect: Event) -> Confidence | None:
    """The error names the file, or came of reading a checkpoint where one alone is damaged."""
    if _names(effect.what, cause.path or ""):
        return Confidence.LIKELY
    loads = effect.loads or effect.match("ckpt-central-dir", "st-incomplete") is not None
    return cause.confidence if loads else None


def same_tensor(cause: Event, effect: Event) -> Confidence | None:
    """Both tell of bad numbers, and not of other tensors or modules than each other."""
    if cause.source == effect.source:
        return None
    if effect.source == "scan" and not cause.names:  # that a loss is nan is no reason for weights
        return None
    if cause.names and effect.names:
        if any(a == b or a.startswith(f"{b}.") for a in cause.names for b in effect.names):
            return Confidence.LIKELY
        return None
    return Confidence.LIKELY


def same_device(cause: Event, effect: Event) -> Confidence | None:
    """The driver's line was joined with the rank already, by its GPU or its host."""
    if not set(cause.ranks) & set(effect.ranks):
        return None
    return Confidence.LIKELY


def kernel_failed(cause: Event, effect: Event) -> Confidence | None:
    """The process ended with an error of CUDA; which, mostly follows from the GPU's exception."""
    if effect.match("gpu-kernel-error") is None:
        return None
    said = bool(cause.says) and cause.says in effect.what
    process = same_process(cause, effect)
    if process is not None:
        return process
    if (cause.pid is not None and effect.pid is not None) or not _one_host(cause, effect):
        return None
    return Confidence.LIKELY if said else Confidence.POSSIBLE


def gpu_memory(cause: Event, effect: Event) -> Confidence | None:
    """A request failed in the allocator, and the process ended with PyTorch's error of it."""
    if effect.match("gpu-memory-short") is None:
        return None
    if cause.ranks and effect.ranks:
        return Confidence.LIKELY if set(cause.ranks) & set(effect.ranks) else None
    return Confidence.POSSIBLE


def same_host(cause: Event, effect: Event) -> Confidence | None:
    """The host that failed is the one it ran on."""
    if cause.ranks and set(effect.ranks) & set(cause.ranks):
        return Confidence.LIKELY
    return Confidence.LIKELY if cause.host and cause.host == effect.host else None


def worn_hardware(cause: Event, effect: Event) -> Confidence | None:
    """It ended on that host, as what uses such hardware ends: nothing else of it is known."""
    if cause.host is None or effect.host is None or not _one_host(cause, effect):
        return None
    fits = {
        "memory": effect.signal == "SIGBUS",
        "host": effect.signal == "SIGBUS",
        "gpu": effect.match("gpu-broke") is not None,
        "disk": bool(_DISK_BROKE & set(effect.errnos)),
        "network": effect.match("fabric-broke") is not None,
    }
    return Confidence.LIKELY if fits.get(cause.breaks) else None


def holds_up(cause: Event, effect: Event) -> Confidence | None:
    """Who stands elsewhere, or waits for a thread that died, is the rank that the others miss."""
    if cause.source == effect.source:
        return None
    return same_process(cause, effect)


def other_ranks(cause: Event, effect: Event) -> Confidence | None:
    """A rank that is gone or late is missed by others; which, their own report has joined."""
    if not effect.ranks or set(cause.ranks) & set(effect.ranks):
        return None
    if cause.source == effect.source and cause.belongs:  # else a kernel's line on nobody's process
        return Confidence.CERTAIN if cause.order == 0 else Confidence.LIKELY
    return Confidence.LIKELY if cause.ranks else None


_DEPTH = ("gpu_core", "core", "strace", "hang", "scan", "watch", "gpu_memory", "logs")
"""Kinds of evidence, that which says most of why a process ended first."""

_ENDS = frozenset(
    {EventType.CRASHED, EventType.KILLED, EventType.EXITED, EventType.RAISED, EventType.FAILED}
)
_ERRORS = frozenset({EventType.RAISED, EventType.COULD_NOT_START, EventType.NON_FINITE})
_CRASHES = frozenset({EventType.CRASHED, EventType.KILLED})
REFUSALS = frozenset({EventType.STORAGE, EventType.REFUSED, EventType.NETWORK})
_MISSED = frozenset({EventType.NOT_IN_COLLECTIVE, EventType.CALLED_OTHER})
_HOLDS_UP = frozenset({EventType.STUCK, EventType.SLOW})
_CAUSES = frozenset(EventType) - frozenset(
    {EventType.LOST_PEER, EventType.WATCHDOG, EventType.STOPPED}
)

TABLE: tuple[Explains[Event], ...] = (
    Explains("memory-kill", frozenset({EventType.KILLED_FOR_MEMORY}), _ENDS, memory_kill),
    Explains("crash-ends-process", _CRASHES, _ENDS, same_end),
    Explains("watchdog-ends-process", frozenset({EventType.WATCHDOG}), _ENDS, same_end),
    Explains("child-lost", _ENDS | {EventType.KILLED_FOR_MEMORY}, _ENDS, lost_child),
    Explains("call-refused", REFUSALS | {EventType.COULD_NOT_START}, _ENDS, refused_call),
    Explains("no-room", frozenset({EventType.FULL}), _ENDS | REFUSALS, no_room),
    Explains("file-damaged", frozenset({EventType.DAMAGED}), _ENDS, damaged_file),
    Explains(
        "numbers", frozenset({EventType.NON_FINITE}), frozenset({EventType.NON_FINITE}), same_tensor
    ),
    Explains("gpu-lost", frozenset({EventType.DEVICE_LOST}), _ENDS | _MISSED, same_device),
    Explains(
        "kernel-failed",
        frozenset({EventType.KERNEL_FAILED}),
        _ENDS | {EventType.WATCHDOG},
        kernel_failed,
    ),
    Explains("gpu-memory", frozenset({EventType.GPU_MEMORY}), _ENDS, gpu_memory),
    Explains(
        "host-failed",
        frozenset({EventType.HOST_FAILED, EventType.NODE_DOWN}),
        _ENDS | _MISSED,
        same_host,
    ),
    Explains("hardware", frozenset({EventType.HARDWARE}), _ENDS | REFUSALS, worn_hardware),
    Explains("error-ends-process", _ERRORS, frozenset({EventType.EXITED}), same_exit),
    Explains(
        "exit-recorded", frozenset({EventType.EXITED}), frozenset({EventType.EXITED}), told_twice
    ),
    Explains(
        "lost-peer-exits",
        frozenset({EventType.LOST_PEER}),
        frozenset({EventType.EXITED}),
        lost_peer_exits,
    ),
    Explains(
        "thread-missed",
        frozenset({EventType.THREAD_DIED}),
        _MISSED | {EventType.STUCK, EventType.EXITED},
        holds_up,
    ),
    Explains("held-up", _HOLDS_UP, _MISSED | {EventType.STUCK}, holds_up),
    Explains("end-is-missed", _ENDS, _MISSED, same_end),
    Explains(
        "peer-missed", _CAUSES, frozenset({EventType.LOST_PEER, EventType.WATCHDOG}), other_ranks
    ),
)
"""The rows in the order in which they are tried: of two that join a pair, the first counts."""


def _one_host(cause: Event, effect: Event) -> bool:
    if cause.host is None or effect.host is None:
        return True
    return cause.host.partition(".")[0] == effect.host.partition(".")[0]


def _words(text: str) -> list[str]:
    return [word.strip(_QUOTES + "()[],:;").rstrip(".") for word in text.split()]


def _names(text: str, path: str) -> bool:
    """Return whether a text names a file, as a whole or by the last parts of its path."""
    ways = ((path, word) for word in _words(text) if path and word)
    return any(f"/{a}".endswith(f"/{b}") or f"/{b}".endswith(f"/{a}") for a, b in ways)
