"""``py-spy dump``: text and ``--json`` (src/dump.rs of py-spy 0.3 to 0.4)."""

from postmortem.errors import EvidenceError
from postmortem.facts.stackdumps import StackDump
from postmortem.facts.threads import Frame, Thread
from postmortem.patterns import Pattern
from postmortem.readers.json_values import parsed, whole, words
from postmortem.readers.stackdumps.frames import (
    MOST_FRAMES,
    MOST_THREADS,
    Interned,
    is_python_file,
    is_source_file,
)

PROCESS = Pattern(r"^Process (?P<pid>\d{1,18}): (?P<command>.*)$")
_PARENT = Pattern(r"^Parent Process (?P<pid>\d{1,18}): ")
THREAD = Pattern(
    r"^\s{0,4}Thread (?P<id>\d{1,18}|0x[0-9A-Fa-f]+)(?:/(?P<tid>\d{1,18}))? \((?P<state>[a-z+]+)\)"
    r"(?:: \"(?P<name>.*)\")?\s*$"
)
_FRAME = Pattern(r"^ {4}(?P<function>\S.*) \((?P<file>.+?)(?::(?P<line>\d{1,18}))?\)$")


def read_text(lines: list[str], frames: Interned) -> list[StackDump]:
    """Return a dump for each process in the text."""
    dumps: list[_Process] = []
    for line in lines:
        if line.startswith("Process ") and (found := PROCESS.match(line)):
            dumps.append(_Process(int(found["pid"]), found["command"]))
            continue
        if dumps and line.startswith("Parent ") and (found := _PARENT.match(line)):
            dumps[-1].parent = int(found["pid"])
            continue
        thread = THREAD.match(line) if "Thread " in line else None
        if thread is not None:
            if not dumps:
                dumps.append(_Process(None, None))
            dumps[-1].begin(thread["id"], thread["tid"], thread["state"], thread["name"])
        elif dumps and line.startswith("    ") and (call := _FRAME.match(line)):
            dumps[-1].add(_frame(call["function"], call["file"], call["line"], frames))
    return [dump.made() for dump in dumps if dump.has_threads]


def read_json(text: str, path: str, frames: Interned) -> list[StackDump]:
    """Return a dump for each process in the JSON; raises EvidenceError if it is not py-spy's."""
    document = parsed(text, path, "not py-spy's JSON")
    if not isinstance(document, list):
        raise EvidenceError(path, "not py-spy's JSON: no list of threads")
    dumps: dict[object, _Process] = {}
    for row in document[:MOST_THREADS]:
        if not isinstance(row, dict) or not isinstance(row.get("frames"), list):
            raise EvidenceError(path, "not py-spy's JSON: a thread without frames")
        pid = whole(row.get("pid"))
        about = row.get("process_info")
        command = about.get("command_line") if isinstance(about, dict) else None
        process = dumps.setdefault(pid, _Process(pid, words(command)))
        above = about.get("parent") if isinstance(about, dict) else None
        if isinstance(above, dict):
            process.parent = whole(above.get("pid"))
        states = [word for word, key in (("active", "active"), ("gil", "owns_gil")) if row.get(key)]
        tid = whole(row.get("os_thread_id"))
        process.begin(
            str(whole(row.get("thread_id")) or 0),
            str(tid) if tid else None,
            "+".join(states) or "idle",
            words(row.get("thread_name")),
        )
        for frame in row["frames"][:MOST_FRAMES]:
            if isinstance(frame, dict):
                name, file = words(frame.get("name")), words(frame.get("filename"))
                number = whole(frame.get("line"))
                if not file or file == "?":
                    file = words(frame.get("module")) or "?"
                process.add(_frame(name or "??", file, str(number) if number else None, frames))
    return [dump.made() for dump in dumps.values() if dump.has_threads]


class _Process:
    """One process while it is read."""

    def __init__(self, pid: int | None, command: str | None) -> None:
        self._pid, self._command = pid, command
        self.parent: int | None = None
        self._threads: list[tuple[int, str | None, bool]] = []
        self._stacks: list[list[Frame]] = []
        self._running: list[int] = []
        self._main: int | None = None

    @property
    def has_threads(self) -> bool:
        return bool(self._threads)

    def begin(self, number: str, tid: str | None, state: str, name: str | None) -> None:
        if len(self._threads) >= MOST_THREADS:
            return
        # The first number is the OS's on Linux, pthread_self() where that could not be had.
        identity = int(tid) if tid else int(number, 0)
        if "active" in state:
            self._running.append(identity)
        if name == "MainThread" or (identity == self._pid and self._main is None):
            self._main = len(self._threads)
        self._threads.append((identity, name, "gil" in state))
        self._stacks.append([])

    def add(self, frame: Frame) -> None:
        if self._stacks and len(self._stacks[-1]) < MOST_FRAMES:
            self._stacks[-1].append(frame)

    def made(self) -> StackDump:
        threads = tuple(
            Thread(tid=tid, python_name=name, holds_gil=gil, frames=tuple(stack))
            for (tid, name, gil), stack in zip(self._threads, self._stacks, strict=True)
        )
        return StackDump(
            tool="py-spy",
            threads=threads,
            running=tuple(self._running),
            tells_running=True,
            main=self._main,
            pid=self._pid,
            parent=self.parent,
            command=self._command,
        )


def _frame(function: str, file: str, line: str | None, frames: Interned) -> Frame:
    number = int(line) if line and len(line) < 10 else None
    if is_python_file(file):
        return frames.frame(function, kind="python", file=file, line=number)
    if is_source_file(file):
        return frames.frame(function, kind="native", file=file, line=number)
    name = "??" if function.startswith("0x") else function
    return frames.frame(name, kind="native", module=file)
