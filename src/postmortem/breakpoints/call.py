"""``breakpoint_on_rank``: one rank stops in the debugger, all others wait for it at that line."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection
from types import FrameType, TracebackType
from typing import Any

from postmortem.breakpoints.board import Board, BoardLost, find_board
from postmortem.breakpoints.debugger import kind_of, make_debugger, post_mortem
from postmortem.breakpoints.place import Place, place
from postmortem.breakpoints.session import Session
from postmortem.breakpoints.waiting import PASSING, Word, patient, say, wait_for
from postmortem.records import record

_visits: dict[str, int] = {}


def breakpoint_on_rank(
    rank: int | Collection[int],
    *,
    when: Callable[[], object] | bool | None = None,
    on_exception: bool = False,
    debugger: str | None = None,
    listen: str | None = None,
    patience: float = 1800.0,
) -> Armed | None:
    """Stop in the caller's frame on one rank (or several); all others wait here until it goes on.

    All ranks have to come to the call. They wait outside of collectives, so that no time-out of a
    process group runs, and go on however the debugger ends: continue, quit (which raises BdbQuit on
    its rank, as pdb does), a connection that breaks, a process that dies.

    Where the rank has a terminal, the debugger is there; elsewhere it listens for
    ``postmortem attach`` and prints the address.

    :param when: stop only if this is true: a value, or a function that is called, and only on
        `rank`. The other ranks ask it each time, which costs them a round trip to the store.
    :param on_exception: do not stop now but where an exception ends the ``with`` block, or where
        there is none the program. While that is awaited, time-outs of process groups are long.
    :param debugger: ``"pdb"``, ``"ipdb"`` or ``"pudb"``; else POSTMORTEM_DEBUGGER,
        PYTHONBREAKPOINT, or pdb.
    :param listen: an address of this host to listen at, ``"0.0.0.0"`` for all; else
        POSTMORTEM_LISTEN, or loopback.
    :param patience: seconds to wait for a rank that does not come to this call at all.
    :raises ValueError: a rank that is not in the job, or an unknown debugger.
    """
    where = place()
    ranks = _ranks(rank, where)
    kind = kind_of(debugger)
    frame = sys._getframe(1)
    spot = _spot(frame)
    call = _Call(ranks, where, spot, kind, listen, patience)
    if on_exception:
        return Armed(call, when)
    stop = call.meet(lambda: bool(when() if callable(when) else when is None or when))
    if stop is None:
        return None
    try:
        made = make_debugger(kind, stop)
    except BaseException:
        stop.close()
        raise
    made.set_trace(frame)  # the last thing: from here on each call would be stepped into
    return None


def _ranks(rank: int | Collection[int], where: Place) -> tuple[int, ...]:
    ranks = (rank,) if isinstance(rank, int) else tuple(sorted(set(rank)))
    for one in ranks:
        if not 0 <= one < where.world_size:
            words = f"ranks 0 to {where.world_size - 1}" if where.world_size > 1 else "rank 0 only"
            raise ValueError(f"there is no rank {one}: this job has {words}")
    return ranks


def _spot(frame: FrameType) -> str:
    code = frame.f_code
    return f"{os.path.basename(code.co_filename)}:{frame.f_lineno} in {code.co_name}"  # noqa: PTH119


@record
class _Call:
    """One call of `breakpoint_on_rank`, the same on all ranks."""

    ranks: tuple[int, ...]
    place: Place
    spot: str
    kind: str
    listen: str | None
    patience: float

    def meet(self, stops: Callable[[], bool]) -> Session | None:
        """Wait where others stop; return the session, with its terminal, if this rank does."""
        board, site, visit = self._board()
        mine = self.place.rank
        if mine not in self.ranks:
            if board is not None:
                wait_for(board, site, visit, self.ranks, self.place, self.patience)
            return None
        others = tuple(one for one in self.ranks if one != mine)
        try:
            stop = stops()
        except BaseException:
            self._pass(board, site, visit)
            raise
        if not stop:
            self._pass(board, site, visit)
            if board is not None:
                wait_for(board, site, visit, others, self.place, self.patience)
            return None
        session = Session(self.place, board, site, visit, others)
        opened = session.open(self.spot, self.listen, terminal=not others)
        return session if opened else None

    def _board(self) -> tuple[Board | None, str, int]:
        board, why = find_board(self.place)
        site = f"breakpoint {self.spot} {','.join(map(str, self.ranks))}".replace("/", "~")
        visit = _visits[site] = _visits.get(site, 0) + 1
        if why is not None and visit == 1:
            say(self.place, f"the ranks cannot wait for each other at {self.spot}: {why}")
        return board, site, visit

    def _pass(self, board: Board | None, site: str, visit: int) -> None:
        if board is not None:
            try:
                board.post(f"{site}/{self.place.rank}", Word(visit, PASSING).text())
            except BoardLost as error:
                say(self.place, f"the ranks' store is gone ({error})")


class Armed:
    """A breakpoint that waits for an exception, which ends a ``with`` block or the program."""

    def __init__(self, call: _Call, when: Callable[[], object] | bool | None) -> None:
        self._call, self._when = call, when
        self._restore = patient()
        self._hook: Any = sys.excepthook
        sys.excepthook = self._program_ends

    def disarm(self) -> None:
        """Stop at nothing; time-outs are as they were before."""
        if sys.excepthook == self._program_ends:
            sys.excepthook = self._hook
        self._restore()

    def __enter__(self) -> Armed:
        if sys.excepthook == self._program_ends:
            sys.excepthook = self._hook
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop_at(error)
        self.disarm()

    def _program_ends(self, kind: Any, error: BaseException, traceback: Any) -> None:
        self._hook(kind, error, traceback)
        self._stop_at(error, alone=True)

    def _stop_at(self, error: BaseException | None, *, alone: bool = False) -> None:
        def stops() -> bool:
            if not isinstance(error, Exception):
                return False
            return bool(self._when() if callable(self._when) else self._when is not False)

        call = self._call
        if alone and call.place.rank not in call.ranks:
            return  # nobody comes here together with it
        session = call.meet(stops)
        if session is not None and error is not None:
            try:
                post_mortem(call.kind, session, error)
            finally:
                session.close()
