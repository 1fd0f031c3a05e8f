"""What part an error's wording gives the rank that printed it; the knowledge base has the words."""

from collections.abc import Iterable
from enum import StrEnum
from functools import lru_cache

from postmortem.diagnose.ranks.cause_kinds import StartupFault
from postmortem.facts.rank_logs import ExceptionText, LogFailure
from postmortem.facts.signature import Match
from postmortem.facts.threads import is_own
from postmortem.knowledge.messages import briefs


class ErrorRole(StrEnum):
    """What an error says of the rank that has it; of several, the one that stands here first."""

    MISMATCH = "mismatch"
    """Ranks disagree; the message says on what."""
    SENT_TOO_MUCH = "sent too much"
    """A peer sent more than was asked for: one of the two is wrong."""
    NAMED = "named"
    """It names other ranks."""
    AFTERMATH = "aftermath"
    """A consequence of an earlier error of the same process."""
    STOPPED = "stopped"
    """Somebody ended it."""
    STARTUP = "startup"
    CLOSED = "closed"
    """A peer went away: its connection closed."""
    WAITED = "waited"
    """A peer did not come: a time-out."""
    OWN = "own"


def part_of(failure: LogFailure) -> ErrorRole:
    """Return what part a failure gives its rank; what began a chain decides."""
    if failure.parts:  # of a group, each sub-exception
        parts = [part_of_words(said) for said in failure.parts]
        return next((part for part in parts if part is ErrorRole.OWN), parts[0])
    said = failure.first_said
    if said.exception.endswith(_CANCELLED):  # what was raised for that says why, if anything
        said = failure.said
    part = part_of_words(said)
    if part is ErrorRole.STARTUP and _of_another_port(failure):
        return ErrorRole.OWN
    if part in _OF_OTHERS and _of_no_rank(failure):
        return ErrorRole.OWN
    if part is ErrorRole.OWN and _while_handed_over(failure):
        return ErrorRole.CLOSED
    return part


def _while_handed_over(failure: LogFailure) -> bool:
    """Return whether a spawned process did not get from its parent what it was to run.

    The parent failed while it wrote that, or is gone. What cannot be found there is its own error.
    """
    frames = failure.frames
    return (
        failure.first_said.exception in _OF_PIPES
        and any(frame.function == "spawn_main" for frame in frames)
        and _MULTIPROCESSING in frames[-1].file.replace("\\", "/")
    )


def _of_no_rank(failure: LogFailure) -> bool:
    """Return whether a client of a server raised it, or a DataLoader, of a worker of its own.

    Its frames show it, or its exceptions: what wraps those has neither frames of it nor its name.
    """
    raised = (said.exception for said in (failure.said, *failure.causes))
    return any(name.startswith(_OF_CLIENTS) for name in raised) or any(
        part in frame.file for frame in failure.frames for part in (*_CLIENTS, _LOADER)
    )


def of_own_pipe(failure: LogFailure) -> bool:
    """Return whether the program wrote to a file of its own whose reader is gone: no rank is one.

    To another rank it would send, by a socket or a library.
    """
    inner = failure.frames[-1] if failure.frames else None
    return (
        failure.first_said.exception == "BrokenPipeError"
        and inner is not None
        and is_own(inner.file)
        and any(call in (inner.code or "") for call in _WRITES)
    )


def _of_another_port(failure: LogFailure) -> bool:
    """Return whether a port was taken that is no store's, as the traceback shows: a server's."""
    said = failure.first_said
    return (
        said.match("error-port-in-use") is not None
        and said.match("store-eaddrinuse", "store-bind") is None
        and bool(failure.frames)
        and not any(part in frame.file for frame in failure.frames for part in _STORES)
    )


_WRITES = (".write(", ".writelines(", ".flush(")
_OF_OTHERS = (ErrorRole.STARTUP, ErrorRole.CLOSED, ErrorRole.WAITED)
_CANCELLED = "CancelledError"
_OF_CLIENTS = tuple(
    f"{name}."
    for name in (
        "urllib.error urllib2 urllib3 http.client requests httpx httpcore aiohttp "
        "redis pymongo psycopg psycopg2 asyncpg pymysql pika kafka botocore"
    ).split()
)
_CLIENTS = tuple(name.replace(".", "/") for name in (*_OF_CLIENTS, "urllib."))
_LOADER = "torch/utils/data/dataloader"
_MULTIPROCESSING = "/multiprocessing/"
_OF_PIPES = (
    "EOFError",
    "OSError",
    "PermissionError",
    "FileNotFoundError",
    "_pickle.UnpicklingError",
)
_STORES = ("torch/distributed/", "torch\\distributed\\", "jax/_src/distributed", "deepspeed/comm")
"""Where the store of a job is made."""


def part_of_words(said: ExceptionText) -> ErrorRole:
    """Return what part one exception's words give."""
    if said.exception == "Fatal Python error" or not said.matches:
        return ErrorRole.OWN
    return _part_of_ids(tuple(match.id for match in said.matches))


@lru_cache(maxsize=1024)
def _part_of_ids(ids: tuple[str, ...]) -> ErrorRole:
    """Of thousands of ranks that say the same it is asked many times."""
    known = briefs()
    parts = {known[name].part for name in ids}
    # of a server outside of the job, whatever became of the connection
    if ErrorRole.OWN.value in parts:
        return ErrorRole.OWN
    return next((part for part in ErrorRole if part.value in parts), ErrorRole.OWN)


def startup_fault(matches: Iterable[Match]) -> StartupFault | None:
    """Return which fault of the start messages tell of, the most telling one."""
    table = briefs()
    faults = {table[match.id].startup for match in matches}
    return next((fault for fault in _STARTUP if fault.value in faults), None)


_STARTUP = (
    StartupFault.PORT_IN_USE,
    StartupFault.INTERFACE,
    StartupFault.NAME,
    StartupFault.PEERS,
    StartupFault.MISSING,
    StartupFault.UNREACHABLE,
    StartupFault.RENDEZVOUS,
    StartupFault.NODE,
)


def about_numbers(failures: Iterable[LogFailure | None]) -> bool:
    """Return whether all of them are about NaN, infinities or the loss scale."""
    return all(one is not None and one.said.match("numbers-not-finite") for one in failures)
