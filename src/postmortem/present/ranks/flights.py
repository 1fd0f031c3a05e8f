"""What the flight files of a job show: the calls that led to bad numbers, or that were the last."""

from collections.abc import Iterator, Sequence

from postmortem.diagnose.numerics.flight_verdict import what_failed
from postmortem.facts.frames import Flight, Frame
from postmortem.facts.rank_logs import RankLogs
from postmortem.facts.rank_sets import rank_words
from postmortem.report.blocks import Block, Excerpt
from postmortem.report.frame_text import HEADER, frame_text

_CALLS_SHOWN, _CALLS_SHOWN_VERBOSE = 5, 21


def flight_blocks(logs: RankLogs, *, verbose: bool) -> Iterator[Block]:
    """Yield the last calls of modules of the rank whose numbers went bad first, or of any.

    Where none did, those of the rank that was left first without an end.
    """
    found = [(bad, one) for one in logs.flights if (bad := what_failed(one)) is not None]
    if found:
        bad, flight = min(found, key=lambda row: (row[0].batch, row[0].frame))
        kinds = {frame.phase for frame in flight.frames if frame.number == bad.frame}
        frames = [f for f in flight.frames if f.number <= bad.frame and f.phase in kinds]
        yield _calls(flight, frames, bad.batch, verbose=verbose)
        return
    left = _unended(logs)
    if left and left[0].frames:
        flight = left[0]
        yield _calls(flight, flight.frames, flight.frames[-1].batch, verbose=verbose)


def unended_words(logs: RankLogs) -> str | None:
    """Return words on flight files that tell of no end, as those of killed processes do."""
    left = _unended(logs)
    if not left:
        return None
    first = left[0]
    at = first.recorder.batch
    batch = "before the first batch" if at is None else f"in batch {at}"
    why = "killed, crashed, or still running"
    if len(left) == 1:
        return f"the flight file of {_who(first)} stops {batch} and records no end: {why}"
    ranks = rank_words([one.recorder.rank for one in left])
    return (
        f"the flight files of ranks {ranks} record no end; that of {_who(first)} stops first, "
        f"{batch}: {why}"
    )


def _unended(logs: RankLogs) -> list[Flight]:
    """The flight files whose processes neither finished nor stopped, the first to fall silent."""
    left = [one for one in logs.flights if one.recorder.ended is None]
    return sorted(left, key=lambda one: (one.recorder.last_written or 0.0, one.recorder.rank))


def _calls(flight: Flight, frames: Sequence[Frame], batch: int, *, verbose: bool) -> Excerpt:
    shown = frames[-(_CALLS_SHOWN_VERBOSE if verbose else _CALLS_SHOWN) :]
    texts = [frame_text(frame) for frame in shown]
    lines = [HEADER, *(line for text in texts for line in text.split("\n") if line.strip())]
    title = f"last calls of modules of {_who(flight)}, batch {batch}"
    return Excerpt(title, tuple((None, line) for line in lines))


def _who(flight: Flight) -> str:
    return f"rank {flight.recorder.rank}" if flight.recorder.world_size > 1 else "the process"
