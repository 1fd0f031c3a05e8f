"""Asking gdb once for everything it knows about the stacks of a core, under one deadline."""

import json
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from postmortem import underway
from postmortem.errors import DebuggerError
from postmortem.facts.source import Problem
from postmortem.readers.gdb import answers
from postmortem.readers.gdb.answers import GdbStacks, GdbThread, SourceLine
from postmortem.readers.gdb.find import Gdb
from postmortem.readers.gdb.launch import arguments, environment
from postmortem.readers.gdb.mi import Conversation, GdbDied, GdbRefused
from postmortem.readers.gdb.session import Request, complaint, open_core
from postmortem.readers.opening import terminations_unwind
from postmortem.records import replace
from postmortem.text import counted

__all__ = ["GdbStacks", "GdbThread", "SourceLine", "read_live", "read_stacks"]

_MAX_ANSWER = 64 << 20
_QUESTION: dict[str, Any] = {
    "pcs": {},
    "tid": None,
    "with_locals": False,
    "max_bytes": _MAX_ANSWER,
    "value_limit": 160,
}
"""What `inside` reads; `max_frames` and the seconds that are left come to it."""
_QUIET_SECONDS = 2.0
_WITH_PYTHON = (
    "use a gdb with a Python that works: --gdb PATH, or pip install 'torch-postmortem[gdb]'"
)
_START_SECONDS = 20.0  # a cold NFS home took 6 s to start the wheel's gdb; a hang takes for ever
_MAX_WARNINGS = 5
# Said about cores that are in order, or by settings of ours.
_HARMLESS = re.compile(
    r"reg-xstate|libthread_db|in core file too small|debuginfod|Missing auto-load|"
    r"Unexpected size of section|No symbol table is loaded|Undefined (set )?command|"
    r"Error while mapping shared library sections|is not at the expected address|"
    r"Source file is more recent|auto-load safe-path|index cache directory|"
    # Said of every mapped file that is gone (semaphores and tensors in /dev/shm are, as a rule);
    # of those that matter, the modules, our own reader says it.
    r"during file-backed mapping note processing|Could not load shared library symbols|"
    # Our own reader says exactly what is cut off.
    r"segment extending past end of file|is truncated|failed to parse execution context|"
    # Files that we hid, see open_core.
    r"Could not load shared library symbols|during file-backed mapping note processing"
)
_WARNING = re.compile(r"warning: \S|BFD: \S|Error reading shared library")


def read_stacks(
    core: str,
    *,
    gdb: Gdb,
    executable: str | None,
    load: Mapping[str, int] | None,
    sysroot: str | None,
    pcs: Mapping[int, Sequence[int]],
    tid: int | None,
    with_locals: bool,
    deadline_seconds: float,
    cpu_seconds: float | None = None,
    debuginfod: bool = False,
    progress: Callable[[str], None] | None = None,
    max_frames: int = 512,
) -> GdbStacks:
    """Return what gdb tells about the threads of a core; never raises for what gdb does.

    `load` names the files to read symbols from, with what is to be added to their addresses; gdb
    then reads no other but the executable. None: gdb reads what it finds, whatever build that
    is. `pcs` are the program counters per thread, innermost first, to which source lines are
    wanted even where gdb itself cannot unwind. `tid` limits the walk to one thread.
    A gdb that hangs is killed after `deadline_seconds`, one that works for longer than
    `cpu_seconds` of processor time then; what it had written by then is in the result.
    """
    request = Request(
        executable=None if executable is None else str(Path(executable).absolute()),
        load=None if load is None else {str(Path(p).absolute()): at for p, at in load.items()},
        sysroot=None if sysroot is None else str(Path(sysroot).absolute()),
    )
    asked = {str(thread): list(addresses) for thread, addresses in pcs.items()}
    question = _QUESTION | {"pcs": asked, "tid": tid, "with_locals": with_locals}
    question["max_frames"] = max_frames
    many = "" if load is None else f" with {len(load)} libraries"
    reading = _Reading(gdb, request, question, deadline_seconds, f"opening the core{many}")
    reading.cpu_seconds, reading.progress = cpu_seconds, progress
    return reading.of(
        str(Path(core).absolute()),
        lambda talk: open_core(talk, "core", request),
        debuginfod=debuginfod,
    )


def read_live(pid: int, *, gdb: Gdb, deadline_seconds: float, max_frames: int) -> GdbStacks:
    """Return what gdb tells about the threads of a process, which stands still meanwhile."""
    question = _QUESTION | {"max_frames": max_frames}
    reading = _Reading(gdb, Request(None, None), question, deadline_seconds, "attaching")

    def attach(talk: Conversation) -> list[Problem]:
        talk.ask(f"-target-attach {pid}")
        return []

    return reading.of(f"/proc/{pid}/exe", attach, last="-target-detach")


@contextmanager
def _in_memory(path: Path) -> Iterator[None]:
    """Let a file be a link into our memory: what is written there is on no disk, ever.

    gdb's answer holds arguments and locals as they are, which may be secrets.
    """
    try:
        memory = os.memfd_create(path.name, os.MFD_CLOEXEC)
    except (AttributeError, OSError):  # a C library or kernel without it
        yield
        return
    try:
        path.symlink_to(f"/proc/{os.getpid()}/fd/{memory}")
        yield
    finally:
        os.close(memory)


def _version_line(said: Sequence[str]) -> str:
    """Return ``GNU gdb (GDB) 18.1`` out of the answer to -gdb-version."""
    lines = (line.removesuffix("\\n").strip() for line in said)
    return next((line for line in lines if "gdb" in line.lower()), "")


class _Reading:
    """One conversation and what has come out of it so far."""

    def __init__(
        self,
        gdb: Gdb,
        request: Request,
        question: dict[str, Any],
        deadline_seconds: float,
        stage: str,
    ) -> None:
        self.cpu_seconds: float | None = None
        self.progress: Callable[[str], None] | None = None
        self._gdb = gdb
        self._request = request
        self._question = question
        self._seconds = deadline_seconds
        self._core = ""
        self._folder = Path()
        self._stage = stage
        self._next_word = time.monotonic() + _QUIET_SECONDS
        self._began = time.monotonic()
        self._complete = False
        self._problems: list[Problem] = []
        self._promised = 0
        self._threads: list[GdbThread] = []
        self._lines: dict[int, tuple[SourceLine, ...]] = {}
        self._instruction: str | None = None
        self._version = gdb.version_text

    def of(
        self,
        core: str,
        opened: Callable[[Conversation], list[Problem]],
        *,
        debuginfod: bool = False,
        last: str | None = None,
    ) -> GdbStacks:
        """Return all that gdb tells, once what is read is `opened`; `last` is said to it then."""
        try:
            with (
                terminations_unwind(),
                tempfile.TemporaryDirectory(prefix="postmortem-gdb-") as folder,
                _in_memory(Path(folder, "answer.jsonl")),
            ):
                underway.leave(folder)
                self._core, self._folder = core, Path(folder)
                (self._folder / "core").symlink_to(core)
                with self._conversation(debuginfod) as talk:
                    try:
                        self._problems += opened(talk)
                        self._walk(talk)
                        if last is not None:
                            with suppress(DebuggerError):
                                talk.ask(last)
                    finally:
                        self._collect()
                        self._note_warnings(talk.log)
        except DebuggerError as error:
            self.give_up(complaint(error, self._seconds))
        except OSError as error:
            what = f"no room to exchange files with gdb: {error.strerror or error}"
            remedy = "set TMPDIR to a folder with space"
            self.give_up(Problem("gdb", what, remedy))
        return self.result()

    def give_up(self, problem: Problem) -> None:
        self._complete = False
        self._problems.append(problem)
        if self._threads and self._promised > len(self._threads):
            what = f"{len(self._threads)} of {self._promised} threads were walked until then"
            self._problems.append(Problem("gdb", what))

    def result(self) -> GdbStacks:
        return GdbStacks(
            threads=tuple(self._threads),
            lines=self._lines,
            instruction_text=self._instruction,
            version=self._version,
            complete=self._complete,
            problems=tuple(replace(p, what=self._without_folder(p.what)) for p in self._problems),
        )

    @contextmanager
    def _conversation(self, debuginfod: bool) -> Iterator[Conversation]:
        deadline = self._began + self._seconds
        talk = Conversation(
            (*self._gdb.start, *arguments(debuginfod=debuginfod)),
            cwd=str(self._folder),
            env=environment(debuginfod=debuginfod),
            deadline=min(deadline, time.monotonic() + _START_SECONDS),
            on_wait=self._tick,
            cpu_seconds=self.cpu_seconds,
        )
        with talk:
            talk.ask("-gdb-version")
            self._version = self._version or _version_line(talk.said)
            if not self._version:
                raise GdbDied(f"{self._gdb.path} does not identify itself as gdb")
            talk.wait_until(deadline)
            yield talk

    def _walk(self, talk: Conversation) -> None:
        """Let our script in gdb's Python answer."""
        self._stage = "walking the stacks"
        left = talk.seconds_left
        question = self._question | {"seconds": max(0.0, left - min(1.0, left / 10))}
        (self._folder / "request.json").write_text(json.dumps(question), encoding="ascii")
        script = Path(__file__).with_name("inside.py").read_bytes()
        (self._folder / "inside.py").write_bytes(script)
        try:
            talk.console("source inside.py")
        except GdbRefused as error:
            words = [line for line in talk.log if line.startswith("Python Exception")]
            what = f"the script inside gdb failed: {words[-1] if words else error.what}"
            self._problems.append(Problem("gdb", what[:400], _WITH_PYTHON))

    def _records(self) -> Iterator[dict[str, Any]]:
        try:
            file = (self._folder / "answer.jsonl").open("rb")
        except OSError:
            return
        with file:
            # The last line may be half a line: gdb was killed while it wrote.
            for line in file.read(_MAX_ANSWER + (1 << 20)).splitlines():
                try:
                    record = json.loads(line)
                except ValueError:
                    continue
                if isinstance(record, dict):
                    yield record

    def _collect(self) -> None:
        broken = 0
        for record in self._records():
            try:
                self._take(record)
            except (KeyError, TypeError, ValueError):
                broken += 1
        if broken:
            self._problems.append(Problem("gdb", f"{broken} of its answers are not understood"))

    def _take(self, record: dict[str, Any]) -> None:
        match record.get("kind"):
            case "thread":
                self._threads.append(answers.thread_of(record))
            case "lines":
                self._lines |= answers.lines_of(record)
            case "instruction":
                if self._request.trusts(record.get("module")):
                    self._instruction = str(record["text"])
            case "start":
                self._promised = int(record["threads"])
            case "stopped":
                self.give_up(Problem("gdb", f"gdb was stopped half-way: {record['why']}"))
            case "end":
                self._complete = True

    def _note_warnings(self, log: Sequence[str]) -> None:
        told = (line for line in log if _WARNING.search(line) and not _HARMLESS.search(line))
        words = (re.sub(r"^(BFD: |warning: )+", "", line.strip())[:400] for line in told)
        seen = list(dict.fromkeys(words))
        self._problems += [Problem("gdb", line) for line in seen[:_MAX_WARNINGS]]

    def _without_folder(self, text: str) -> str:
        # Its name is random: it would make every report different.
        return text.replace(f"{self._folder}/core", self._core).replace(f"{self._folder}/", "")

    def _tick(self) -> None:
        now = time.monotonic()
        if self.progress is None or now < self._next_word:
            return
        self._next_word = now + 1.0
        try:
            done = (self._folder / "answer.jsonl").read_bytes().count(b'"kind": "thread"')
        except OSError:
            done = 0
        walked = f", {counted(done, 'thread')} so far" if done else ""
        self.progress(f"gdb is {self._stage}{walked} ({now - self._began:.0f} s)")
