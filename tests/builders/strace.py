"""Writes logs as strace would, from a model of processes that knows the truth.

The model is that of the man pages and shares nothing with the reader: processes with descriptor
tables as dicts, files as objects. Every failing write is remembered with the path of its file.
"""

import random
from dataclasses import dataclass, field

NO_SPACE = "-1 ENOSPC (No space left on device)"


@dataclass(eq=False)
class OpenFile:
    """An open file description."""

    path: str


@dataclass(eq=False)
class Process:
    """A process, or a thread that shares its table."""

    pid: int
    table: dict[int, OpenFile]
    cloexec: set[int]
    cwd: list[str]

    def lowest(self, start: int = 3) -> int:
        """Return the lowest free number, as the kernel takes it."""
        number = start
        while number in self.table:
            number += 1
        return number


@dataclass(frozen=True)
class Format:
    """How the lines look."""

    pids: str = "bare"
    """``"bare"`` or ``"bracket"``."""
    times: str = ""
    """````, ``"tt"`` or ``"ttt"``."""
    durations: bool = False
    annotations: bool = False
    names: bool = False
    """Argument names, as -N writes them."""
    instruction: bool = False
    """An instruction pointer, as -i writes it."""


@dataclass
class Failure:
    """A write that failed."""

    pid: int
    line: int
    path: str


@dataclass
class Log:
    """A log in the making."""

    format: Format
    random: random.Random
    lines: list[str] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    clock: float = 1_700_000_000.0
    waiting: dict[int, tuple[str, str, str]] = field(default_factory=dict)
    """Calls that are split: pid to (name, rest of the arguments, result)."""

    def leader(self, pid: int) -> str:
        """Return what stands before a call."""
        self.clock += self.random.random() / 1000
        text = f"{pid:<5} " if self.format.pids == "bare" else f"[pid {pid:5}] "
        if self.format.times == "tt":
            seconds = self.clock % 86400
            hours, rest = divmod(seconds, 3600)
            text += f"{int(hours):02}:{int(rest // 60):02}:{rest % 60:09.6f} "
        elif self.format.times == "ttt":
            text += f"{self.clock:.6f} "
        if self.format.instruction:
            text += f"[{self.random.getrandbits(47):016x}] "
        return text

    def ending(self) -> str:
        """Return the duration, if there is one."""
        return f" <{self.random.random():.6f}>" if self.format.durations else ""

    def call(self, pid: int, name: str, arguments: str, result: str, split: str = "") -> int:
        """Write a call and return the number of the line with its result."""
        column = " " * max(1, 40 - len(name) - len(arguments))
        if split and self.random.random() < 0.4:
            self.lines.append(f"{self.leader(pid)}{name}({arguments} <unfinished ...>")
            if self.random.random() < 0.5:
                self.lines.append(f"{self.leader(split_pid(split))}getuid()   = 0{self.ending()}")
            self.lines.append(
                f"{self.leader(pid)}<... {name} resumed>){column}= {result}{self.ending()}"
            )
        else:
            self.lines.append(
                f"{self.leader(pid)}{name}({arguments}){column}= {result}{self.ending()}"
            )
        return len(self.lines)


def split_pid(text: str) -> int:
    """Return the pid of a task that may run between the halves of a call."""
    return int(text)


def escaped(path: str) -> str:
    """Return a path as strace writes it in an argument."""
    out = []
    for byte in path.encode():
        character = chr(byte)
        if character in '"\\':
            out.append("\\" + character)
        elif character == "\n":
            out.append("\\n")
        elif character == "\t":
            out.append("\\t")
        elif 32 <= byte < 127:
            out.append(character)
        else:
            out.append(f"\\{byte:03o}")
    return "".join(out)


def annotated(path: str) -> str:
    """Return a path as -y writes it behind a descriptor."""
    return "".join(
        f"\\{byte:o}" if byte < 32 or byte > 126 or chr(byte) in "<>\\" else chr(byte)
        for byte in path.encode()
    )


def write_log(seed: int, form: Format, steps: int = 60) -> Log:
    """Return a log of random processes; `failures` has what must be found."""
    dice = random.Random(seed)
    log = Log(form, dice)
    first = Process(100, {}, set(), ["/data"])
    processes = [first]
    next_pid = 101
    log.call(100, "execve", '"/bin/train", ["train", "--x"], 0x7ffe /* 3 vars */', "0")
    log.call(100, "getcwd", '"/data", 4096', "6")
    names = ["ckpt.pt", 'we"ird', "a b", "x) = -1 ENOSPC (No space left on device)", "é,[{", "<n>"]
    for step in range(steps):
        process = dice.choice(processes)
        action = dice.choice(
            ["open", "open", "dup", "dup2", "close", "fork", "thread", "chdir", "write", "fail",
             "fail", "cloexec", "exec", "rename", "exit"]
        )  # fmt: skip
        other = dice.choice(processes).pid
        split = "" if other == process.pid else str(other)
        held = sorted(process.table)
        fd = dice.choice(held) if held else -1

        def shown(number: int, of: Process = process) -> str:
            file = of.table.get(number)
            note = f"<{annotated(file.path)}>" if form.annotations and file else ""
            return f"{'fd=' if form.names else ''}{number}{note}"

        if action == "open":
            name = f"{dice.choice(names)}.{step}"
            relative = dice.random() < 0.5
            path = f"{process.cwd[0]}/{name}" if relative else f"/mnt/{name}"
            number = process.lowest()
            flags = dice.choice(["O_WRONLY|O_CREAT", "O_RDWR|O_CREAT|O_CLOEXEC"])
            here = f"AT_FDCWD<{annotated(process.cwd[0])}>" if form.annotations else "AT_FDCWD"
            if form.names:
                here = "dirfd=" + here
            argument = escaped(name if relative else path)
            result = f"{number}<{annotated(path)}>" if form.annotations else str(number)
            log.call(process.pid, "openat", f'{here}, "{argument}", {flags}, 0666', result, split)
            process.table[number] = OpenFile(path)
            process.cloexec.discard(number)
            if "CLOEXEC" in flags:
                process.cloexec.add(number)
        elif action == "dup" and held:
            number = process.lowest()
            log.call(process.pid, "dup", shown(fd), str(number), split)
            process.table[number] = process.table[fd]
            process.cloexec.discard(number)
        elif action == "dup2" and held:
            number = dice.randrange(3, 40)
            log.call(process.pid, "dup2", f"{shown(fd)}, {number}", str(number), split)
            if number != fd:
                process.table[number] = process.table[fd]
                process.cloexec.discard(number)
        elif action == "close" and held:
            log.call(process.pid, "close", shown(fd), "0", split)
            del process.table[fd]
            process.cloexec.discard(fd)
        elif action == "cloexec" and held:
            log.call(process.pid, "fcntl", f"{shown(fd)}, F_SETFD, FD_CLOEXEC", "0", split)
            process.cloexec.add(fd)
        elif action == "fork" and len(processes) < 6:
            child = Process(next_pid, dict(process.table), set(process.cloexec), list(process.cwd))
            _forked(log, process, child, "SIGCHLD")
            processes.append(child)
            next_pid += 1
        elif action == "thread" and len(processes) < 6:
            child = Process(next_pid, process.table, process.cloexec, process.cwd)
            _forked(log, process, child, "CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_SIGHAND|CLONE_THREAD")
            processes.append(child)
            next_pid += 1
        elif action == "chdir":
            folder = f"/data/d{step}"
            log.call(process.pid, "chdir", f'"{folder}"', "0", split)
            process.cwd[0] = folder
        elif action == "write" and held:
            log.call(process.pid, "write", f'{shown(fd)}, "x\\n = 1"..., 100', "100", split)
        elif action == "fail" and held:
            path = process.table[fd].path
            line = log.call(process.pid, "write", f'{shown(fd)}, "\\"), (", 100', NO_SPACE, split)
            log.failures.append(Failure(process.pid, line, path))
        elif action == "exec" and all(
            other.table is not process.table for other in processes if other is not process
        ):
            log.call(process.pid, "execve", '"/bin/next", ["next"], 0x7ffe /* 3 vars */', "0")
            for number in [n for n in process.table if n in process.cloexec]:
                del process.table[number]
            process.cloexec.clear()
        elif action == "rename" and held:
            old = process.table[fd].path
            new = f"/mnt/renamed.{step}"
            log.call(process.pid, "rename", f'"{escaped(old)}", "{new}"', "0", split)
            for file in {id(f): f for p in processes for f in p.table.values()}.values():
                if file.path == old:
                    file.path = new
        elif action == "exit" and len(processes) > 1 and process is not first:
            log.lines.append(f"{log.leader(process.pid)}+++ exited with 0 +++")
            processes.remove(process)
    return log


def _forked(log: Log, parent: Process, child: Process, flags: str) -> None:
    arguments = f"child_stack=NULL, flags={flags}"
    if log.random.random() < 0.5:
        log.call(parent.pid, "clone", arguments, str(child.pid))
        return
    # The child runs before its parent's call returns.
    log.lines.append(f"{log.leader(parent.pid)}clone({arguments} <unfinished ...>")
    log.lines.append(f"{log.leader(child.pid)}getuid() = 0{log.ending()}")
    log.lines.append(f"{log.leader(parent.pid)}<... clone resumed>) = {child.pid}{log.ending()}")
