"""pdb, ipdb or PuDB, made to tell when it ends: the other ranks wait for that."""

from __future__ import annotations

import bdb
import os
import sys
from importlib import import_module
from importlib.util import find_spec
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from postmortem.breakpoints.session import Session

KINDS = ("pdb", "ipdb", "pudb")
_HOMES = {
    "pdb": ("pdb", "Pdb"),
    "ipdb": ("IPython.terminal.debugger", "TerminalPdb"),
    "pudb": ("pudb.debugger", "Debugger"),
}
VARIABLE = "POSTMORTEM_DEBUGGER"

_CALLS_OTHERS = frozenset(
    "all_gather all_gather_coalesced all_gather_into_tensor all_gather_object all_reduce "
    "all_reduce_coalesced all_to_all all_to_all_single barrier batch_isend_irecv broadcast "
    "broadcast_object_list destroy_process_group gather gather_object init_process_group irecv "
    "isend monitored_barrier new_group new_subgroups recv recv_object_list reduce reduce_scatter "
    "reduce_scatter_tensor scatter scatter_object_list send send_object_list split_group".split()
)
"""Functions of torch.distributed in which a rank needs the others."""


def kind_of(asked: str | None) -> str:
    """Return which debugger is wanted: by the call, our variable, or Python's own.

    Raises ValueError and ImportError: on every rank, before any of them waits.
    """
    named = asked or os.environ.get(VARIABLE)
    if named is None:
        python = os.environ.get("PYTHONBREAKPOINT", "").partition(".")[0]
        named = python if python in KINDS else "pdb"
    if named not in KINDS:
        raise ValueError(f"there is no debugger {named!r}; there are {', '.join(KINDS)}")
    if find_spec(_HOMES[named][0].partition(".")[0]) is None:
        raise ImportError(f"{named} is not installed; pdb always is", name=named)
    return named


def make_debugger(kind: str, session: Session) -> Any:
    """Return a debugger over sys.stdin and sys.stdout; raises ImportError."""
    module, name = _HOMES[kind]
    base = getattr(import_module(module), name)
    if kind == "pudb":
        base._current_debugger.clear()  # one at a time; that of a breakpoint before is over
        return _class(base, session)(stdin=sys.stdin, stdout=sys.stdout)
    made = _class(base, session, _Commands)()
    made.prompt = f"(rank {session.place.rank}) "
    return made


class _Commands:
    """Commands of pdb and ipdb about the other ranks."""

    session: Session

    def do_ranks(self, _: str) -> None:
        """ranks.

        Tell which ranks wait at this breakpoint.
        """
        made: Any = self
        made.message(self.session.who_waits())

    def do_release(self, _: str) -> None:
        """release.

        Let the other ranks go on while this one stays in the debugger.
        """
        self.session.release("you said so")

    def do_EOF(self, _: str) -> bool:
        """EOF.

        End the debugger; this rank and the others go on.
        """
        made: Any = self
        made.clear_all_breaks()
        made.set_continue()
        return True


def _class(base: Any, its: Session, *mixed: type) -> Any:
    class OnRank(*mixed, base):  # type: ignore[misc]
        session = its

        def set_continue(self) -> None:
            super().set_continue()
            if self.breaks:
                its.release("it runs on to its next breakpoint")
            else:
                its.ended = "went on"

        def set_quit(self) -> None:
            super().set_quit()
            its.ended = "was told to quit"

        def dispatch_call(self, frame: FrameType, arg: Any) -> Any:
            if not its.released and _needs_others(frame):
                its.release(f"the program calls {frame.f_code.co_name}, which needs them")
            return super().dispatch_call(frame, arg)

        def interaction(self, *args: Any, **kwargs: Any) -> None:
            if its.lost():
                self._leave()
                return
            its.at_prompt(True)
            try:
                super().interaction(*args, **kwargs)
            except bdb.BdbQuit:
                its.ended = "was told to quit"
                raise
            except Exception:
                if not its.lost():
                    raise
            finally:
                its.at_prompt(False)
                if its.lost():
                    self._leave()
                elif its.ended:
                    its.close()

        def _leave(self) -> None:
            """Let the program go on: nobody is there to type."""
            self.quitting = False
            self.clear_all_breaks()
            self.set_continue()
            its.ended = "lost its terminal"
            its.close()

    return OnRank


def _needs_others(frame: FrameType) -> bool:
    code = frame.f_code
    return code.co_name in _CALLS_OTHERS and code.co_filename.endswith("distributed_c10d.py")


def post_mortem(kind: str, session: Session, error: BaseException) -> None:
    """Debug where an exception was raised; returns when the debugger ends."""
    debugger = make_debugger(kind, session)
    debugger.reset()
    tb: TracebackType | None = error.__traceback__
    if kind == "pudb":
        debugger.post_mortem = True
        debugger.interaction(None, (type(error), error, tb))
    else:
        debugger.interaction(None, tb)
