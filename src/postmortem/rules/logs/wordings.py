"""What part an error's wording gives the rank that printed it."""

from __future__ import annotations

from enum import StrEnum

from postmortem.facts.blame import StartupFault
from postmortem.facts.rank_logs import LogFailure, Said
from postmortem.patterns import Pattern


class Part(StrEnum):
    """What an error says of the rank that has it."""

    OWN = "own"
    CLOSED = "closed"
    """A peer went away: its connection closed."""
    WAITED = "waited"
    """A peer did not come: a time-out."""
    MISMATCH = "mismatch"
    """Ranks disagree; the message says on what."""
    SENT_TOO_MUCH = "sent too much"
    """A peer sent more than was asked for: one of the two is wrong."""
    NAMED = "named"
    """It names other ranks."""
    STOPPED = "stopped"
    """Somebody ended it."""
    AFTERMATH = "aftermath"
    """A consequence of an earlier error of the same process."""
    STARTUP = "startup"


# The texts are those of torch 1.13 to 2.13, gloo, NCCL 2.10 to 2.28, glibc and CPython. Order
# matters: the first that fits is taken.
_PARTS: tuple[tuple[Part, Pattern], ...] = (
    (Part.MISMATCH, Pattern(r"Detected mismatch between collectives on ranks")),
    (
        Part.SENT_TOO_MUCH,
        Pattern(r"op\.preamble\.length <= op\.nbytes|Received data size doesn't match"),
    ),
    (Part.NAMED, Pattern(r"failed to pass monitoredBarrier|\bin monitoredBarrier\b")),
    (Part.AFTERMATH, Pattern(r"^std::terminate: without an active exception")),
    (
        Part.STOPPED,
        Pattern(
            r"^(?:KeyboardInterrupt|SystemExit|GeneratorExit)\b|got signal: \d+|SignalException"
            r"|killed by signal: (?:Terminated|Interrupt)|asyncio\.exceptions\.CancelledError"
        ),
    ),
    (
        Part.STARTUP,
        Pattern(
            r"EADDRINUSE|[Aa]ddress already in use|failed to listen on any local"
            r"|Unable to find (?:address|interface)|unable to find interface"
            r"|clients joined|client socket has (?:timed out|failed)|Rendezvous\w*Error"
            r"|gai error|Name or service not known|Temporary failure in name resolution"
            r"|nodename nor servname|No address associated with hostname|Timed out after "
            r"\S+ seconds waiting for clients"
            r"|wait timeout after \d+ms, keys: \S*(?:default_pg|cpu|cuda)//|Gloo "
            r"connectFullMesh failed"
            r"|No route to host|Bootstrap : no socket interface found"
        ),
    ),
    (
        Part.CLOSED,
        Pattern(
            r"[Cc]onnection (?:was )?(?:closed|reset) by (?:remote )?peer|Connection was "
            r"likely closed"
            r"|Socket closed|[Bb]roken pipe|failed to recv, got 0 bytes|ncclRemoteError"
            r"|remote process exited or there was a network error|ncclRemoteError"
            r"|received errors while waiting for send/recv|NCCL communicator was aborted"
            r"|communicator (?:was|has been) aborted|Application timeout caused pair closure"
            r"|recvBytes|sendBytes|peer closed|ConnectionResetError|Connection refused"
            r"|worker died unexpectedly|The actor died|remote worker crashing|Connection aborted"
        ),
    ),
    (
        Part.WAITED,
        Pattern(
            r"[Tt]imed out waiting \d+ ?ms for|Watchdog caught collective operation timeout"
            r"|collective operation timeout|wait timeout after \d+ ?ms|Socket Timeout"
            r"|operations have failed or timed out|[Hh]eartbeat (?:monitor )?timed out"
            r"|waiting for other ranks|Timeout at NCCL work|work timed out|Timed out "
            r"initializing process group"
        ),
    ),
)
_STARTUP: tuple[tuple[StartupFault, Pattern], ...] = (
    (
        StartupFault.PORT_IN_USE,
        Pattern(r"EADDRINUSE|[Aa]ddress already in use|failed to listen on any local"),
    ),
    (
        StartupFault.INTERFACE,
        Pattern(
            r"Unable to find (?:address|interface)|unable to find interface|no socket "
            r"interface found"
        ),
    ),
    (
        StartupFault.NAME,
        Pattern(
            r"gai error|Name or service not known|Temporary failure in name resolution"
            r"|nodename nor servname|No address associated with hostname"
        ),
    ),
    (
        StartupFault.MISSING,
        Pattern(r"clients joined|wait timeout after \d+ms, keys:|waiting for clients"),
    ),
    (
        StartupFault.UNREACHABLE,
        Pattern(r"client socket has|No route to host|connectFullMesh failed"),
    ),
    (StartupFault.RENDEZVOUS, Pattern(r"Rendezvous\w*Error")),
)


def part_of(failure: LogFailure) -> Part:
    """Return what part a failure gives its rank; what began a chain decides."""
    if failure.parts:  # of a group, each sub-exception
        parts = [part_of_words(said) for said in failure.parts]
        return next((part for part in parts if part is Part.OWN), parts[0])
    return part_of_words(failure.first_said)


def part_of_words(said: Said) -> Part:
    """Return what part one exception's words give."""
    words = f"{said.exception}: {said.message}"
    if said.exception == "Fatal Python error":
        return Part.OWN
    for part, pattern in _PARTS:
        if pattern.search(words):
            return part
    return Part.OWN


def startup_fault(words: str) -> StartupFault | None:
    """Return which fault of the start a text tells of."""
    return next((fault for fault, pattern in _STARTUP if pattern.search(words)), None)
