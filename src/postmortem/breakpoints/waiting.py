"""The ranks that do not stop: they wait for those that do, outside of any collective."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from postmortem.breakpoints.board import Board, BoardLost
from postmortem.breakpoints.place import Place, distributed, is_gone
from postmortem.records import record

PASSING, STOPPED, RELEASED, OVER = "passing", "stopped", "released", "over"
"""What a rank posts: it does not stop; it is in a debugger; it still is, but others may go on; it
has left it."""

_SILENT_SECONDS = 60.0
"""A rank on another machine that gives no sign of life for so long is not waited for."""

_QUICKEST, _SLOWEST = 0.001, 0.25
_LONG_SECONDS = 7 * 86_400


@record
class Word:
    """The last thing that a rank posted at one breakpoint."""

    visit: int
    """Which of its visits to this line it is about."""
    state: str
    who: str = ""

    @classmethod
    def of(cls, text: str) -> Word | None:
        """Return what a text says; None for nonsense."""
        visit, _, rest = text.partition(" ")
        state, _, who = rest.partition(" ")
        return cls(int(visit), state, who) if visit.isdecimal() else None

    def text(self) -> str:
        """Return the text to post."""
        return f"{self.visit} {self.state} {self.who}"


def say(where: Place, text: str) -> None:
    """Write a line to standard error, whole."""
    from postmortem.breakpoints.printing import printflock

    printflock(f"postmortem: {text}", file=sys.stderr)


def wait_for(
    board: Board, site: str, visit: int, ranks: Iterable[int], where: Place, patience: float
) -> None:
    """Return when none of `ranks` keeps this one; only a rank that never comes is given up.

    A rank that is in a debugger is waited for however long that takes; one that has not come to
    this line is waited for `patience` seconds.
    """
    later = [_wait_for_one(board, site, visit, rank, where, patience) for rank in ranks]
    for word, rank in later:
        if word is not None and word.state == RELEASED:
            _stay_patient(board.beside(), site, visit, rank)
            return


def _wait_for_one(
    board: Board, site: str, visit: int, rank: int, where: Place, patience: float
) -> tuple[Word | None, int]:
    began = time.monotonic()
    pause, arrived = _QUICKEST, False
    watch = _Signs(board, site, rank)
    while True:
        try:
            word = Word.of(board.read(f"{site}/{rank}") or "")
            if word is not None and word.visit >= visit:
                if word.visit > visit or word.state != STOPPED:
                    return word, rank
                if (why := watch.ended(word)) is not None:
                    say(where, f"goes on: rank {rank}, which stood at a breakpoint, {why}")
                    return None, rank
            elif time.monotonic() - began > patience:
                what = f"has not come to this breakpoint for {patience:g} s; it is not waited for"
                say(where, f"goes on: rank {rank} {what}")
                return None, rank
            if not arrived and time.monotonic() - began > 0.05:
                arrived = True
                board.post(f"{site}/at/{where.rank}", str(visit))
        except BoardLost as error:
            say(where, f"goes on: the ranks' store is gone ({error})")
            return None, rank
        time.sleep(pause)
        pause = min(pause * 1.5, _SLOWEST)


class _Signs:
    """Whether a rank in a debugger still lives."""

    def __init__(self, board: Board, site: str, rank: int) -> None:
        self._board, self._name = board, f"{site}/{rank}/beat"
        self._last: str | None = None
        self._seen = self._next = time.monotonic()

    def ended(self, word: Word) -> str | None:
        """Return in words how it ended, None while it lives or cannot be told."""
        gone = is_gone(word.who)
        if gone is not None:
            return "has ended" if gone else None
        now = time.monotonic()
        if now < self._next:
            return None
        self._next = now + 5
        beat = self._board.read(self._name)
        if beat != self._last:
            self._last, self._seen = beat, now
        silent = now - self._seen
        return f"gave no sign of life for {silent:.0f} s" if silent > _SILENT_SECONDS else None


def who_waits(board: Board, site: str, visit: int, where: Place) -> list[int]:
    """Return the ranks that wait at this line."""
    found = []
    for rank in range(where.world_size):
        text = board.read(f"{site}/at/{rank}") if rank != where.rank else None
        if text == str(visit):
            found.append(rank)
    return found


def patient() -> Callable[[], None]:
    """Make the time-outs of all process groups long; return what makes them as they were."""
    group = distributed()
    if group is None:
        return lambda: None
    from datetime import timedelta

    core = group.distributed_c10d
    before: list[tuple[Any, timedelta]] = []
    for one in list(core._pg_map):
        try:
            known = _timeout(one, core)
            if known is not None and known < timedelta(seconds=_LONG_SECONDS):
                core._set_pg_timeout(timedelta(seconds=_LONG_SECONDS), one)
                before.append((one, known))
        except (AttributeError, RuntimeError):  # a backend without time-outs
            continue

    def restore() -> None:
        while before:
            one, known = before.pop()
            if one in core._pg_map:
                core._set_pg_timeout(known, one)

    return restore


def _timeout(group: Any, core: Any) -> Any:
    for device in group._device_types:
        backend = group._get_backend(device)
        if (options := getattr(backend, "options", None)) is not None:
            return options._timeout
    return None


def _stay_patient(board: Board, site: str, visit: int, rank: int) -> None:
    """Keep time-outs long while a rank that let this one go on is still being debugged."""
    restore = patient()

    def watch() -> None:
        signs = _Signs(board, site, rank)
        try:
            while True:
                word = Word.of(board.read(f"{site}/{rank}") or "")
                if word is None or word.visit != visit or word.state != RELEASED:
                    return
                if signs.ended(word) is not None:
                    return
                time.sleep(1)
        except BoardLost:
            return
        finally:
            restore()

    threading.Thread(target=watch, name="postmortem-patience", daemon=True).start()
