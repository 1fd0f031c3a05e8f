"""What launchers say of how processes ended: torchrun, srun, mpirun, a shell, the kernel."""

from __future__ import annotations

import calendar
from collections.abc import Iterable, Iterator
from itertools import islice

from postmortem.facts.rank_logs import LogExit
from postmortem.patterns import Pattern
from postmortem.readers.ranklogs.pod_states import PodStates
from postmortem.readers.ranklogs.statuses import ended, ended_in_shell, signal_name
from postmortem.readers.ranklogs.trainer_launchers import TrainerLaunchers
from postmortem.records import replace

_ENTRY = Pattern(r"^\s*\[(\d+)\]:\s*$")
_FIELD = Pattern(r"^\s+(time|host|rank|exitcode|error_file|traceback) *: ?(.*)$")
_RANK = Pattern(r"^(\d+) \(local_rank: (\d+)\)")
_EXITCODE = Pattern(r"^(-?\d+) \(pid: (\d+)\)")
_TIME = Pattern(r"(\d{4})-(\d\d)-(\d\d)_(\d\d):(\d\d):(\d\d)$")
_ROOT = "Root Cause (first observed failure)"
_FAILED = Pattern(r"failed \(exitcode: (-?\d+)\) local_rank: (\d+) \(pid: (\d+)\) of (?:binary|fn)")
_CLOSING = Pattern(r"Sending process (\d+) closing signal (SIG\w+)")
_FORCED = Pattern(r"Unable to shutdown process (\d+) via")
_SRUN = Pattern(
    r"(?:srun|slurmstepd(?:-[\w.-]+)?): error: (?P<host>[\w.-]+): tasks? (?P<tasks>[\d,-]+): "
    r"(?P<how>.+)$"
)
_ABORTING = Pattern(
    r"^srun: (?:forcing job termination|Job step aborted|Terminating|launch/slurm: _step_signal: "
    r"Terminating|interrupt)|\*\*\* (?:STEP|JOB) \S+ ON \S+ CANCELLED AT"
)
# PRRTE breaks the sentence where the line is full.
_MPIRUN = Pattern(
    r"noticed that process rank (\d+) with PID (\d+) on node (\S+)\s+exited\s+on\s+signal\s+(\d+)"
)
_MPIRUN_BEGINS = Pattern(r"noticed that process rank \d+ with PID \d+")
# Open MPI 4 and PRRTE: "Process name: [[507,1],0]", "Process name: [prterun-vm-41@1,0]", then the
# code on the next line
_MPI_NAME = Pattern(r"Process name: \[\S*?,(\d+)\]\s*$")
_MPI_CODE = Pattern(r"^\s*Exit code:\s+(\d+)")
# MPICH 4 leaves the rank out and calls the number of the signal (or 9) an exit code.
_HYDRA = Pattern(r"=\s+(?:RANK (\d+) )?PID (\d+) RUNNING AT (\S+)")
_HYDRA_STRING = Pattern(r"EXIT STRING: .*\(signal (\d+)\)")
_PDSH = Pattern(
    r"^(?P<who>pdsh@[\w.-]+|clush): (?P<nodes>[\w.,\[\]-]+)(?: \(\d+\))?: (?:\S+ )?"
    r"(?:exited with exit code (?P<code>\d+)|killed by signal (?P<signal>\d+))"
)
_HYDRA_CODE = Pattern(r"=\s+(?:EXIT CODE|KILLED BY SIGNAL): (\d+)")
_SHELL = Pattern(
    r"line \d+: +(\d+) (Killed|Segmentation fault|Aborted|Bus error|Terminated|Illegal instruction"
    r"|Floating point exception)\b"
)
_SPAWN = Pattern(
    r"rocess (\d+) terminated with (?:the following error|signal (SIG\w+)|exit code (\d+))"
)
_KILLING = Pattern(r"Killing subprocess (\d+)")
_KERNEL = Pattern(r"Killed process (\d+)[ ,]")
_LONGEST_NOTICE = 1000
_MOST_EXITS = 200_000
"""One line may tell of thousands: ``tasks 0-4095``."""
_WORDS = {
    "Killed": "SIGKILL",
    "Segmentation fault": "SIGSEGV",
    "Aborted": "SIGABRT",
    "Bus error": "SIGBUS",
    "Terminated": "SIGTERM",
    "Illegal instruction": "SIGILL",
    "Floating point exception": "SIGFPE",
    "Out Of Memory": "SIGKILL",
    "Interrupt": "SIGINT",
}
_EXIT_WORDS = Pattern(r"Exited with exit code (\d+)")


class Launchers:
    """Takes the lines of one writer and keeps what launchers say in them."""

    def __init__(self, file: str, writer: int) -> None:
        self._file = file
        self._writer = writer
        self.exits: list[LogExit] = []
        self.stopped: set[int] = set()
        self.killed_by_kernel: set[int] = set()
        self.summary_lines: set[int] = set()
        """Numbers of the lines of torchelastic's summary: its tracebacks are other processes'."""
        self.quoted: list[tuple[int, int, list[str]]] = []
        """(rank, first line, lines) of tracebacks in the summary."""
        self.aborting: int | None = None
        """First line that tells that Slurm ends all tasks of the step."""
        self._root = False
        self._fields: dict[str, str] = {}
        self._quote: list[str] | None = None
        self._in_summary = False
        self._hydra: tuple[int | None, int, str] | None = None
        self._mpi: int | None = None
        self._noticed: str | None = None
        self._trainers = TrainerLaunchers(file)
        self._pods = PodStates(file)

    def take(self, rows: Iterable[tuple[int, int, str]]) -> None:
        """Take (line, ordinal, text) of one region."""
        for number, _, text in rows:
            if self._in_summary or "FAILED" in text or text.startswith(("Failures:", _ROOT)):
                self._summary(number, text)
            else:
                self._line(number, text)
        self._in_summary = False

    def _summary(self, number: int, text: str) -> None:
        self._in_summary = True
        self.summary_lines.add(number)
        field = _FIELD.match(text)
        if text.startswith(_ROOT):
            self._root = True
        elif _ENTRY.match(text):
            self._fields, self._quote = {}, None
        elif field:
            name, value = field[1], field[2]
            self._fields[name] = value
            self._quote = None
            if name == "exitcode":
                self._entry(number)
            elif name == "traceback" and value.startswith("Traceback"):
                rank = _RANK.match(self._fields.get("rank", ""))
                self._quote = [value]
                if rank:
                    self.quoted.append((int(rank[1]), number, self._quote))
        elif text.startswith("====") and self._fields:
            self._in_summary, self._root, self._fields, self._quote = False, False, {}, None
        elif self._quote is not None and text.startswith("    "):
            self._quote.append(text[4:])
        elif self._quote is not None and text.startswith("  "):
            self._quote.append(text[2:])

    def _entry(self, number: int) -> None:
        rank = _RANK.match(self._fields.get("rank", ""))
        exitcode = _EXITCODE.match(self._fields["exitcode"])
        if not rank or not exitcode:
            return
        code, name = ended(int(exitcode[1]))
        host = self._fields.get("host", "").strip()
        self.exits.append(
            LogExit(
                self._file,
                number,
                rank=int(rank[1]),
                local_rank=int(rank[2]),
                pid=int(exitcode[2]),
                code=code,
                signal=name,
                blamed=self._root,
                host=None if host in ("", "localhost") else host,
                writer=self._writer,
                time=_wall_clock(self._fields.get("time", "")),
            )
        )

    def _line(self, number: int, text: str) -> None:
        failed = _FAILED.search(text) if "exitcode: " in text else None
        if failed:
            code, name = ended(int(failed[1]))
            self.exits.append(
                LogExit(
                    self._file,
                    number,
                    local_rank=int(failed[2]),
                    pid=int(failed[3]),
                    code=code,
                    signal=name,
                    blamed=True,
                    writer=self._writer,
                )
            )
        for pattern, pids in (
            (_CLOSING, self.stopped),
            (_FORCED, self.stopped),
            (_KILLING, self.stopped),
        ):
            found = pattern.search(text)
            if found:
                pids.add(int(found[1]))
        if len(self.exits) < _MOST_EXITS:
            self.exits += islice(self._others(number, text), _MOST_EXITS)
        kernel = _KERNEL.search(text) if "Killed process" in text else None
        if kernel:
            self.killed_by_kernel.add(int(kernel[1]))

    def _others(self, number: int, text: str) -> Iterator[LogExit]:
        if self.aborting is None and _ABORTING.search(text):
            self.aborting = number
        srun = _SRUN.search(text) if "error: " in text else None
        if srun:
            yield from self._tasks(number, srun["host"], srun["tasks"], srun["how"])
        if self._noticed is not None:
            self._noticed = text = f"{self._noticed} {text}"
        mpi = _MPIRUN.search(text) if "noticed" in text else None
        begins = mpi is None and "noticed" in text and _MPIRUN_BEGINS.search(text)
        self._noticed = text if begins and len(text) < _LONGEST_NOTICE else None
        if mpi:
            yield LogExit(
                self._file,
                number,
                rank=int(mpi[1]),
                pid=int(mpi[2]) or None,
                host=mpi[3],
                signal=signal_name(int(mpi[4])),
                launcher="mpirun",
            )
        hydra = _HYDRA.search(text)
        if hydra:
            self._hydra = int(hydra[1]) if hydra[1] else None, int(hydra[2]), hydra[3]
        code = _HYDRA_CODE.search(text)
        if code and self._hydra is not None:
            rank, pid, host = self._hydra
            value = int(code[1])
            exit_code, name = ended_in_shell(value)
            if "SIGNAL" in text or value in (6, 7, 9, 11):  # hydra prints the raw status
                exit_code, name = None, signal_name(value)
            self._hydra = None
            yield LogExit(
                self._file,
                number,
                rank=rank,
                pid=pid,
                host=host,
                code=exit_code,
                signal=name,
                launcher="mpiexec",
            )
        yield from self._nodes(number, text)
        yield from self._trainers.ends(number, text)
        yield from self._pods.ends(number, text)
        yield from self._mpi_code(number, text)
        spawn = _SPAWN.search(text) if "terminated with" in text else None
        if spawn:
            code_of = int(spawn[3][:9]) if spawn[3] else None
            yield LogExit(
                self._file,
                number,
                rank=int(spawn[1][:9]),
                code=1 if spawn[2] is None and code_of is None else code_of,
                signal=spawn[2],
                launcher="spawn",
            )
        alone = _WORDS.get(text.removesuffix(" (core dumped)"))
        if alone and text not in ("Terminated", "Interrupt", "Out Of Memory"):
            yield LogExit(self._file, number, signal=alone, launcher="shell")
        shell = _SHELL.search(text) if "line " in text else None
        if shell:
            yield LogExit(
                self._file, number, pid=int(shell[1]), signal=_WORDS[shell[2]], launcher="shell"
            )

    def _nodes(self, number: int, text: str) -> Iterator[LogExit]:
        """What pdsh and clush say of the command that they ran on each host."""
        found = _PDSH.match(text) if text.startswith(("pdsh@", "clush: ")) else None
        if not found:
            return
        if found["code"]:  # a shell between
            code, name = ended_in_shell(int(found["code"][:9]))
        else:
            code, name = None, signal_name(int(found["signal"][:9]))
        for host in expanded(found["nodes"]):
            yield LogExit(
                self._file,
                number,
                host=host,
                code=code,
                signal=name,
                launcher=found["who"].partition("@")[0],
            )

    def _mpi_code(self, number: int, text: str) -> Iterator[LogExit]:
        name = _MPI_NAME.search(text) if "Process name: [" in text else None
        code = _MPI_CODE.match(text) if self._mpi is not None else None
        if name:
            self._mpi = int(name[1][:9])
        elif code:
            value = int(code[1][:9])
            status, how = ended_in_shell(value)
            yield LogExit(
                self._file, number, rank=self._mpi, code=status, signal=how, launcher="mpirun"
            )
            self._mpi = None
        string = _HYDRA_STRING.search(text) if "EXIT STRING" in text else None
        last = self.exits[-1] if self.exits and self.exits[-1].launcher == "mpiexec" else None
        if string and last is not None:
            self.exits[-1] = replace(last, code=None, signal=signal_name(int(string[1][:9])))

    def _tasks(self, number: int, host: str, tasks: str, how: str) -> Iterator[LogExit]:
        code = _EXIT_WORDS.search(how)
        name = next((value for word, value in _WORDS.items() if how.startswith(word)), None)
        if code is None and name is None:
            return
        status = int(code[1]) if code else None
        if status is not None:  # a shell between, or Slurm's own sum
            status, name = ended_in_shell(status)
        for task in _numbers(tasks):
            yield LogExit(
                self._file,
                number,
                rank=task,
                host=host,
                code=status,
                signal=name,
                launcher="srun",
                memory=how.startswith("Out Of Memory"),
            )


def _wall_clock(text: str) -> float | None:
    """Return the seconds of torchelastic's ``2026-11-21_02:03:32``."""
    found = _TIME.match(text.strip())
    if not found or not 1970 <= int(found[1]) < 3000:
        return None
    return float(calendar.timegm((*(int(found[i]) for i in range(1, 7)), 0, 0, 0)))


def _numbers(text: str) -> Iterator[int]:
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdecimal() and len(first) < 8:
            end = int(last) if last.isdecimal() and len(last) < 8 else int(first)
            yield from range(int(first), min(end, int(first) + 100_000) + 1)


_MOST_HOSTS = 4096
_SET = Pattern(r"^(?P<head>[^\[\]]*)\[(?P<numbers>[\d,-]+)\](?P<tail>[^\[\]]*)$")


def expanded(nodes: str) -> list[str]:
    """Return the hosts of a set as pdsh and clush write it: ``gpu-a[01-03,7],login1``."""
    hosts: list[str] = []
    for part in _apart(nodes):
        found = _SET.match(part)
        if not found:
            hosts.append(part)
            continue
        for piece in found["numbers"].split(","):
            first, _, last = piece.partition("-")
            if not first.isdecimal() or len(first) > 8:
                continue
            end = int(last) if last.isdecimal() and len(last) < 9 else int(first)
            width, until = len(first), min(end, int(first) + _MOST_HOSTS)
            hosts += [
                f"{found['head']}{number:0{width}d}{found['tail']}"
                for number in range(int(first), until + 1)
            ]
            if len(hosts) >= _MOST_HOSTS:
                return hosts[:_MOST_HOSTS]
    return hosts[:_MOST_HOSTS]


def _apart(nodes: str) -> list[str]:
    """Return the parts between commas that stand in no brackets."""
    parts, depth = [""], 0
    for c in nodes:
        depth += (c == "[") - (c == "]")
        if c == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += c
    return [part for part in parts if part]
