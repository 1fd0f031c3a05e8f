"""A jam in words, for verdicts and rules."""

from collections.abc import Sequence
from typing import assert_never

from postmortem.diagnose.jam.jam import (
    CalledOther,
    CameLate,
    Culprit,
    Differs,
    Disagrees,
    InRing,
    Inside,
    Jam,
    NeverCame,
    NoDump,
    NotBegun,
    NotFinished,
    Operation,
    OutOfOrder,
    StoppedNoting,
)
from postmortem.diagnose.names import clip
from postmortem.facts.flight_recorder import Collective
from postmortem.facts.rank_sets import rank_words
from postmortem.facts.threads import Frame
from postmortem.text import counted, more

_LONGEST_CALL = 120
_KINDS_NAMED = 3
_NOTES = {Differs.OPERATION: "", Differs.DTYPE: " (another type)", Differs.SIZES: " (another size)"}


def call_words(call: Collective) -> str:
    """Return ``all_reduce(7 Float) at train.py:31 in step``."""
    sizes = ", ".join("x".join(map(str, size)) or "1" for size in call.input_sizes[:2])
    types = f" {call.dtypes[0]}" if call.dtypes else ""
    site = f" at {place_words(call.site)}" if call.site is not None else ""
    return clip(f"{call.operation}({sizes}{types}){site}", _LONGEST_CALL)


def place_words(frame: Frame) -> str:
    """Return ``train.py:31 in step``."""
    name = (frame.file or "?").rpartition("/")[2]
    return f"{name}:{frame.line} in {frame.function}" if frame.line else f"{frame.function}"


def group_words(operation: Operation) -> str:
    """Return ``group 37 (TENSOR_MODEL_PARALLEL_GROUP)``."""
    words = operation.group_words
    told = f" ({clip(words, 60)})" if words and words not in ("undefined", operation.group) else ""
    return f"group {clip(operation.group, 60)}{told}"


def operation_words(operation: Operation) -> str:
    """Return ``all_reduce(7 Float), number 3 of group 0``."""
    call = "a call" if operation.call is None else call_words(operation.call)
    return f"{call}, number {operation.number} of {group_words(operation)}"


def culprit_words(one: Culprit) -> str:
    """Return what a culprit did or did not, as it stands behind its name."""
    return short_words(one, with_group=True)


def short_words(one: Culprit, *, with_group: bool = False) -> str:
    """Return the same, mostly without the group: culprits of sister groups did the same."""
    cause, operation = one.cause, one.operation
    call = "a call" if operation is None or operation.call is None else call_words(operation.call)
    number = "" if operation is None else f", number {operation.number}"
    if with_group and operation is not None:
        number += f" of {group_words(operation)}"
    match cause:
        case StoppedNoting():
            return f"stopped recording at {call}{number}, which its peers have finished"
        case CalledOther(differs=differs, call=own, others=others):
            note = _NOTES[differs]
            theirs = call_words(others)
            return f"called {call_words(own)}{note}, where others called {theirs}{number}"
        case NeverCame():
            return f"never came to {call}{number}"
        case OutOfOrder(number=own_number, call=own):
            return (
                f"calls in another order: waits in {call_words(own)}, number {own_number}, and "
                f"never came to {call}{number}"
            )
        case CameLate(seconds=seconds):
            return f"came {seconds:,.0f} s after the others to {call}{number}"
        case NotBegun():
            return f"called {call}{number}, which its device has not begun, as others' have"
        case NotFinished(finished=count):
            return f"has not finished {call}{number}, as {count:,} others have"
        case NoDump(together=ranks):
            alike = f", like all of ranks {rank_words(ranks)}" if len(ranks) > 1 else ""
            return f"left no dump{alike}, and is the only one missing in {call}{number}"
        case InRing():
            return "waits for ranks that wait for it"
        case Disagrees(call=own):
            return f"called {call_words(own)}{number}"
        case Inside():
            return f"is in {call}{number}, which all have called and which does not end"
        case _:
            assert_never(cause)


def detail_words(one: Culprit) -> str:
    """Return what else is known of a culprit's cause; may be empty."""
    cause = one.cause
    match cause:
        case NeverCame(last=last, mate=mate):
            known = "" if last is None else f"its last was {call_words(last[1])}, number {last[0]}"
            held = (
                f"rank {mate} had called as much and went on, so what it waits in does not hold it"
                if mate is not None
                else ""
            )
            return "; ".join(words for words in (known, held) if words)
        case StoppedNoting(calls=calls, finished_by=rank):
            return f"{calls} calls from there on are open here and finished at rank {rank}"
        case OutOfOrder(mate=mate):
            return f"rank {mate} had not called that before"
        case NoDump(may_wait_for=rank) if rank is not None:
            return f"it may itself wait for rank {rank}"
        case _:
            return ""


def share_words(jam: Jam) -> str:
    """Return ``1,022 of 1,022 waiting ranks wait for these 2``."""
    count = len(jam.culprits) or len(jam.candidates)
    verb = "waits" if jam.explained == 1 else "wait"
    whom = "these" if count > 1 else "this one"
    return (
        f"{jam.explained:,} of {jam.waiting:,} waiting ranks {verb} for {whom}"
        f"{f' {count:,}' if count > 1 else ''}"
    )


def holding_up(jam: Jam, who: str) -> str:
    """Return the verdict: ``ranks 9 and 14 hold up the other 14: never came to …``."""
    one = len(jam.culprits) == 1
    guilty = {culprit.rank for culprit in jam.culprits}
    others = jam.seen + jam.unseen - len(guilty)
    held = f"the other {others:,}" if jam.held_up == others else counted(jam.held_up, "other")
    if jam.held_up == 0:
        return f"{who} left the common order: {_what(jam.culprits)}"
    return f"{who} {'holds' if one else 'hold'} up {held}: {_what(jam.culprits)}"


def ranks_and(ranks: Sequence[int]) -> str:
    """Return ``rank 3``, ``ranks 9 and 14``, or intervals of more."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if len(ranks) == 2:
        return f"ranks {ranks[0]} and {ranks[1]}"
    return f"ranks {rank_words(ranks)}"


def _what(culprits: Sequence[Culprit]) -> str:
    by_words: dict[str, list[Culprit]] = {}
    for one in culprits:
        by_words.setdefault(short_words(one), []).append(one)
    if len(by_words) == 1:
        words, alike = next(iter(by_words.items()))
        same = len({one.operation.group for one in alike if one.operation is not None}) == 1
        return short_words(alike[0], with_group=True) if same else words
    told = [
        f"{ranks_and([one.rank for one in alike])} {words}"
        for words, alike in list(by_words.items())[:_KINDS_NAMED]
    ]
    return "; ".join(told) + more(len(by_words) - len(told), "; and {} more")
