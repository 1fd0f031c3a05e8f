"""One stop of one rank: its terminal, its debugger, and the word to the other ranks."""

import atexit
import signal
import threading
import time
from typing import Any

from postmortem.breakpoints import waiting
from postmortem.breakpoints.board import Board, BoardLost
from postmortem.breakpoints.console import Console, Gone, OwnTerminal, own_terminal
from postmortem.breakpoints.door import Door
from postmortem.breakpoints.place import Place, identity

_LONG_STEP_SECONDS = 10.0
_LOST_SECONDS = 2.0


class Session:
    """From the moment that a rank stops until its debugger has ended, however that comes."""

    def __init__(
        self, place: Place, board: Board | None, site: str, visit: int, others: tuple[int, ...]
    ) -> None:
        """`others` are the ranks that stop here too: at the end this one waits for them."""
        self.place = place
        self.ended: str | None = None
        self.released = board is None
        # The program may wait in the store itself while others have to be told.
        self._board = board.beside() if board is not None else None
        self._site, self._visit, self._others = site, visit, others
        self._console: Console | None = None
        self._door: Door | None = None
        self._closed = False
        self._prompt = False
        self._since = time.monotonic()
        self._thread = threading.get_ident()
        self._patience = waiting.patient()
        self._signals: Any = None
        self._post(waiting.STOPPED)
        atexit.register(self.close)
        threading.Thread(target=self._beat, name="postmortem-beat", daemon=True).start()

    def open(self, spot: str, listen: str | None, *, terminal: bool) -> bool:
        """Have a terminal at the far end, waiting for one if need be; False: nobody came."""
        number = own_terminal() if terminal and listen is None else None
        try:
            if number is not None:
                self._console = Console(OwnTerminal(number))
                typed = b""
            else:
                guest, typed = self._await_guest(spot, listen)
                self._console = Console(guest)
        except Gone:
            self.ended = "lost its terminal"
            self.close()
            return False
        except BaseException:
            self.close()
            raise
        self._console.tick = self._tick
        self._console.hung_up = self._hung_up
        self._own_interrupts()
        self._console.take(typed)
        print(self._banner(spot))  # noqa: T201  to the terminal of the debugger
        return True

    def _await_guest(self, spot: str, listen: str | None) -> tuple[Any, bytes]:
        door = Door(self.place, spot, listen)
        try:
            waiting.say(
                self.place,
                f"rank {self.place.rank} stopped at {spot}; to debug it, on {self.place.host}: "
                f"postmortem attach {door.address}",
            )
            door.came.wait()
            guest = door.guest
            assert guest is not None
            self._door = door  # stays open to tell others that somebody is here
            return guest, guest.introduce()
        except BaseException:
            door.close()
            raise

    def _banner(self, spot: str) -> str:
        rank = self.place.rank
        head = f"postmortem: rank {rank} of {self.place.world_size} on {self.place.host}, {spot}"
        if self._board is None:
            return head
        return (
            f"{head}\n{self.who_waits()}; they go on when you continue or quit.\n"
            "ranks: who waits · release: let them go on now · Ctrl-]: leave, all go on"
        )

    def _own_interrupts(self) -> None:
        """Have Ctrl-C raise KeyboardInterrupt here, also where the job was started without it."""
        if threading.current_thread() is threading.main_thread():
            before = signal.getsignal(signal.SIGINT)
            if before in (signal.SIG_IGN, signal.SIG_DFL):
                signal.signal(signal.SIGINT, signal.default_int_handler)
                self._signals = before

    def lost(self) -> bool:
        """Return whether the terminal has gone."""
        return self._console is not None and self._console.lost.is_set()

    def at_prompt(self, yes: bool) -> None:
        """Note whether the debugger waits for a command, or the program runs."""
        self._prompt, self._since = yes, time.monotonic()

    def release(self, why: str) -> None:
        """Let the other ranks go on, while this one is still being debugged."""
        if self.released:
            return
        self.released = True
        self._post(waiting.RELEASED)
        self._show(f"postmortem: the other ranks go on: {why}")

    def who_waits(self) -> str:
        """Return in words which ranks wait here, and what becomes of those that do not."""
        if self._board is None:
            return "no other rank waits"
        if self.released:
            return "the other ranks have been let go"
        try:
            here = waiting.who_waits(self._board, self._site, self._visit, self.place)
        except BoardLost as error:
            return f"the ranks' store is gone ({error})"
        away = [r for r in range(self.place.world_size) if r not in (*here, self.place.rank)]
        text = f"{len(here)} other {'rank waits' if len(here) == 1 else 'ranks wait'} here"
        if away:
            names = ", ".join(map(str, away[:8])) + (" …" if len(away) > 8 else "")
            text += (
                f", {len(away)} not yet (rank {names}): what they wait for elsewhere, "
                "collectives say, may time out"
            )
        return text

    def close(self) -> None:
        """Give the terminal back and tell the other ranks; safe to call twice, never raises."""
        if self._closed:
            return
        self._closed = True
        atexit.unregister(self.close)
        self._patience()
        self._post(waiting.OVER)
        words = f"postmortem: the debugger {self.ended or 'ended'}"
        if self._console is not None:
            self._console.give_back(f"{words}; the other ranks go on" if self._board else words)
        if self._door is not None:
            self._door.close()
        if self._signals is not None:
            signal.signal(signal.SIGINT, self._signals)
        if self._board is not None and self._others:
            waiting.wait_for(self._board, self._site, self._visit, self._others, self.place, 60.0)

    def _post(self, state: str) -> None:
        if self._board is not None:
            try:
                word = waiting.Word(self._visit, state, identity())
                self._board.post(f"{self._site}/{self.place.rank}", word.text())
            except BoardLost as error:
                waiting.say(
                    self.place, f"the ranks' store is gone ({error}); nobody waits for this rank"
                )
                self.released = True

    def _show(self, text: str) -> None:
        if self._console is not None:
            self._console.note(text)

    def _beat(self) -> None:
        """Tell ranks on other machines that this one lives."""
        beats = 0
        while self._board is not None and not self._closed:
            beats += 1
            try:
                self._board.post(f"{self._site}/{self.place.rank}/beat", str(beats))
            except BoardLost:
                return
            time.sleep(2)

    def _tick(self) -> None:
        """Look after the program once a second, in the thread of the console."""
        took = time.monotonic() - self._since
        if not self._prompt and not self.released and took > _LONG_STEP_SECONDS:
            self.release(f"the line runs for {took:.0f} s now, and may wait for them")

    def _hung_up(self) -> None:
        """Have the debugger leave its prompt: by the end of its input, or else by an exception."""
        end = time.monotonic() + _LOST_SECONDS
        kicked = False
        while self._prompt and time.monotonic() < end + _LOST_SECONDS:
            if not kicked and time.monotonic() > end:
                kicked = True
                _raise_in(self._thread, EOFError)
            time.sleep(0.02)


def _raise_in(thread: int, error: type[Exception]) -> None:
    import ctypes

    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(error))
