"""A conversation with gdb in its machine interface (GDB manual, chapter "The GDB/MI Interface").

pygdbmi is used for its parser alone. Its controller (0.11) returns when the output pauses for
0.2 s instead of at the result, so answers drift to the next question, and it spins on a dead gdb.
Here every command has a token, is answered by the result record with that token, and one deadline
holds for the whole conversation.
"""

import re
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from postmortem.errors import DebuggerError
from postmortem.readers.gdb.child import Child

Payload = dict[str, Any]

MAX_LINE = 16 << 20
MAX_TOTAL = 1 << 30
_FOREIGN_LINES = 10_000
_SAID_LINES = 8
_LOG_LINES = 200
_LAST_WORDS = 3
_GRACE_SECONDS = 1.0
_MAX_NESTING = 60
_RESULT = re.compile(rb"(\d+)\^(\w+)")
_STRUCTURE = re.compile(r'"(?:[^"\\]|\\.)*"|["{}\[\]]', re.DOTALL)
_PAIRS = {"}": "{", "]": "["}


class GdbRefused(DebuggerError):
    """gdb answered a command with an error."""


class GdbDied(DebuggerError):
    """gdb ended, or closed its output, before it had answered."""


class GdbTooSlow(DebuggerError):
    """The deadline of the conversation passed."""


class GdbTooBusy(DebuggerError):
    """gdb used up the processor time that it was given."""


class Lines:
    """Lines out of chunks of bytes; of a line that is too long only the beginning is kept."""

    def __init__(self, max_line: int = MAX_LINE) -> None:
        self._max = max_line
        self._buffer = bytearray()
        self._dropping = False
        self.dropped: list[bytes] = []
        """Beginnings (64 bytes) of the lines that were dropped."""

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that are complete now, without their ends."""
        complete = []
        *ends, rest = data.split(b"\n")
        for part in ends:
            if not self._dropping:
                self._take(part)
            if not self._dropping:
                complete.append(bytes(self._buffer).rstrip(b"\r"))
            self._buffer.clear()
            self._dropping = False
        if not self._dropping:
            self._take(rest)
        return complete

    def _take(self, part: bytes) -> None:
        if len(self._buffer) + len(part) > self._max:
            self.dropped.append(bytes(self._buffer[:64]) or part[:64])
            self._buffer.clear()
            self._dropping = True
        else:
            self._buffer += part


class Conversation:
    """gdb, started and asked; leaving the block kills it and everything it started."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: str | None,
        env: Mapping[str, str],
        deadline: float,
        on_wait: Callable[[], None] | None = None,
        max_line: int = MAX_LINE,
        cpu_seconds: float | None = None,
    ) -> None:
        """`deadline` is a `time.monotonic` value; `on_wait` is called while gdb is waited for.

        `cpu_seconds` limits gdb's own processor time, all its threads together.
        """
        self._child = Child(command, cwd=cwd, env=env)
        self._deadline = deadline
        self._on_wait = on_wait
        self._cpu_seconds = cpu_seconds
        self._lines = Lines(max_line)
        self._errors = Lines(1 << 16)
        self._heard_bytes = 0
        self._foreign_lines = 0
        self._token = 0
        self._result: bytes | None = None
        self._log: deque[str] = deque(maxlen=_LOG_LINES)
        self._half_log = ""
        self._said: list[str] = []
        self._doing = "starting"

    def __enter__(self) -> Self:
        try:
            self._child.__enter__()
        except OSError as error:
            raise GdbDied(f"gdb cannot be started: {error.strerror or error}") from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._child.__exit__(kind, error, trace)

    @property
    def pid(self) -> int:
        """Process ID of gdb."""
        return self._child.pid

    @property
    def group(self) -> int:
        """ID of the process group that gdb and what it starts are in."""
        return self._child.group

    @property
    def log(self) -> tuple[str, ...]:
        """The last messages and complaints of gdb, line by line."""
        return (*self._log, self._half_log) if self._half_log else tuple(self._log)

    @property
    def said(self) -> tuple[str, ...]:
        """The first lines that gdb wrote to its console."""
        return tuple(self._said)

    def wait_until(self, deadline: float) -> None:
        """Set another deadline, a `time.monotonic` value."""
        self._deadline = deadline

    @property
    def seconds_left(self) -> float:
        """Seconds until the deadline, not below 0."""
        return max(0.0, self._deadline - time.monotonic())

    def ask(self, command: str) -> Payload:
        """Return gdb's answer to one MI command; raises `GdbRefused` with gdb's own message."""
        if "\n" in command or "\r" in command:
            raise ValueError("an MI command is one line")
        self._token += 1
        self._result = None
        self._doing = command.partition(" ")[0]
        self._child.send(f"{self._token}{command}\n".encode("utf-8", "surrogateescape"))
        while self._result is None:
            self._listen()
        return _answer(self._result, self._doing)

    def console(self, command: str) -> Payload:
        """Run a command of gdb's command line."""
        return self.ask(f"-interpreter-exec console {quoted(command)}")

    def _listen(self) -> None:
        if self.seconds_left <= 0:
            raise GdbTooSlow(f"gdb did not answer {self._doing} in time")
        if self._cpu_seconds is not None and self._child.cpu_seconds() > self._cpu_seconds:
            raise GdbTooBusy(f"gdb had used {self._cpu_seconds:g} s of processor time")
        ending = self._child.ending()
        said, complained = self._child.pump(self.seconds_left)
        self._heard_bytes += len(said) + len(complained)
        if self._heard_bytes > MAX_TOTAL:
            raise GdbDied(f"gdb wrote more than {MAX_TOTAL >> 20} MiB and was stopped")
        for line in self._lines.feed(said):
            self._take(line)
        self._log.extend(
            line.decode("utf-8", "replace") for line in self._errors.feed(complained) if line
        )
        if self._on_wait is not None:
            self._on_wait()
        if self._result is not None:
            return
        for start in self._lines.dropped:
            match = _RESULT.match(start)
            if match and int(match[1]) == self._token:
                raise GdbDied(f"gdb's answer to {self._doing} was over the limit for one line")
        if not said and (ending is not None or self._child.silent):
            raise GdbDied(self._death(ending))

    def _take(self, line: bytes) -> None:
        match = _RESULT.match(line)
        if match and int(match[1][:18]) <= self._token:
            if int(match[1]) == self._token:  # else late: nobody asks for it any more
                self._result = line
        elif line.startswith(b"&"):
            self._take_log(line)
        elif line.startswith(b'~"') and len(self._said) < _SAID_LINES:
            self._said.append(line[2:400].decode("utf-8", "replace").removesuffix('"'))
        elif line and not line.startswith((b"=", b"*", b"+", b"~", b"@", b"(gdb)")):
            self._log.append(line[:400].decode("utf-8", "replace"))
            self._foreign_lines += 1
            if self._foreign_lines > _FOREIGN_LINES:
                raise GdbDied("gdb wrote thousands of lines that are not answers and was stopped")

    def _take_log(self, line: bytes) -> None:
        # A message comes in pieces: &"warning: " then &"core file may not match …\n".
        from pygdbmi.gdbmiparser import parse_response

        try:
            piece = parse_response(line[:4000].decode("utf-8", "replace"))["payload"]
        except Exception:  # the parser raises whatever it stumbles over
            return
        if not isinstance(piece, str):
            return
        *whole, self._half_log = (self._half_log + piece).split("\n")
        self._half_log = self._half_log[:4000]
        self._log.extend(part for part in whole if part.strip())

    def _death(self, ending: str | None) -> str:
        # Its pipes are closed a moment before it counts as ended.
        grace = time.monotonic() + min(_GRACE_SECONDS, self.seconds_left)
        while ending is None and time.monotonic() < grace:
            time.sleep(0.005)
            ending = self._child.ending()
        how = ending or "closed its output"
        words = [line.strip() for line in list(self.log)[-_LAST_WORDS:]]
        tail = f"; last words: {' | '.join(words)[:400]}" if words else ""
        return f"gdb ended during {self._doing} ({how}){tail}"


def quoted(text: str) -> str:
    """Return text as a C string of MI, on one line."""
    for char, escape in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r")):
        text = text.replace(char, escape)
    return f'"{text}"'


def _answer(line: bytes, what: str) -> Payload:
    parsed = parse_record(line.decode("utf-8", "surrogateescape"))
    if parsed is None:
        raise GdbRefused(f"gdb's answer to {what} is not understood")
    payload = parsed["payload"] or {}
    if parsed["message"] == "error":
        message = " ".join(str(payload.get("msg", "no reason given")).split())
        raise GdbRefused(f"{what}: {message[:400]}")
    return payload if isinstance(payload, dict) else {}


def parse_record(line: str) -> Payload | None:
    """Return one MI record parsed by pygdbmi, None if it is broken.

    The brackets are counted first: pygdbmi 0.11 loops for ever on an array that does not end
    (`_parse_array` never looks for the end of text) and recurses on every bracket.
    """
    if not _is_whole(line):
        return None
    from pygdbmi.gdbmiparser import parse_response

    try:
        parsed = parse_response(line)
    except Exception:  # IndexError, AssertionError, TypeError …: whatever it stumbles over
        return None
    return parsed if isinstance(parsed, dict) and parsed.get("type") == "result" else None


def _is_whole(line: str) -> bool:
    stack: list[str] = []
    for match in _STRUCTURE.finditer(line):
        mark = match[0]
        if mark == '"':
            return False
        if mark in "{[":
            stack.append(mark)
            if len(stack) > _MAX_NESTING:
                return False
        elif mark in _PAIRS and (not stack or stack.pop() != _PAIRS[mark]):
            return False
    return not stack
