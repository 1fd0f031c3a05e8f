"""What launchers say of how processes ended: torchrun, srun, mpirun, a shell, the kernel."""

import calendar
from collections.abc import Iterable, Iterator
from itertools import islice

from postmortem.facts.rank_logs import LogExit
from postmortem.facts.signature import Match
from postmortem.patterns import Pattern
from postmortem.readers.ranklogs.known_lines import Found, KnownLines
from postmortem.readers.ranklogs.pod_states import PodStates
from postmortem.readers.ranklogs.slurm_accounts import SlurmAccounts
from postmortem.readers.ranklogs.statuses import ended, ended_in_shell
from postmortem.readers.ranklogs.trainer_launchers import TrainerLaunchers
from postmortem.readers.siginfo import signal_name
from postmortem.records import replace

_ENTRY = Pattern(r"^\s*\[(\d+)\]:\s*$")
_FIELD = Pattern(r"^\s+(time|host|rank|exitcode|error_file|traceback) *: ?(.*)$")
_EXITCODE = Pattern(r"^(-?\d+) \(pid: (\d+)\)")
_TIME = Pattern(r"(\d{4})-(\d\d)-(\d\d)_(\d\d):(\d\d):(\d\d)$")
_LONGEST_NOTICE = 1000
_MOST_EXITS = 200_000
"""One line may tell of thousands: ``tasks 0-4095``."""
_STOPS = ("torchelastic-sigterm-send", "torchrun-forced", "launch-killing")
"""Messages that name a process which a launcher ended."""
_SHELLS = (
    "shell-ended",
    "shell-ended-alone",
    "shell-ended-abroad",
    "shell-ended-zsh",
    "shell-ended-fish",
    "shell-ended-behind",
)
_ABROAD = ("SIGKILL", "SIGSEGV", "SIGBUS", "SIGABRT")
"""Groups of its words in other languages."""
_SIGNALS = {
    "Killed": "SIGKILL",
    "Segmentation fault": "SIGSEGV",
    "Aborted": "SIGABRT",
    "Abort trap": "SIGABRT",
    "Trace/BPT trap": "SIGTRAP",
    "Trace/breakpoint trap": "SIGTRAP",
    "Bus error": "SIGBUS",
    "Terminated": "SIGTERM",
    "Illegal instruction": "SIGILL",
    "Floating point exception": "SIGFPE",
    "Interrupt": "SIGINT",
    # As zsh calls them.
    "killed": "SIGKILL",
    "segmentation fault": "SIGSEGV",
    "abort": "SIGABRT",
    "bus error": "SIGBUS",
    "trace trap": "SIGTRAP",
    "illegal hardware instruction": "SIGILL",
    "floating point exception": "SIGFPE",
}


_OF_HYDRA = ("SIGKILL", "SIGTERM")
"""With which it ends the others: that is no word on the process that it names before."""


_BEGINS = " FAILED"
"""How the head of torchelastic's summary ends: with the name of the script before it."""


class Launchers:
    """Takes the lines of one writer and keeps what launchers say in them."""

    def __init__(self, file: str, writer: int, known: KnownLines) -> None:
        self._file = file
        self._writer = writer
        self._known = known
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
        self._rank: Match | None = None
        self._fields: dict[str, str] = {}
        self._quote: list[str] | None = None
        self._in_summary = False
        self._hydra: tuple[int | None, int, str] | None = None
        self._mpi: int | None = None
        self._noticed: str | None = None
        self._trainers = TrainerLaunchers(file)
        self._pods = PodStates(file)
        self._accounts = SlurmAccounts(file)

    def take(self, rows: Iterable[tuple[int, int, str]]) -> None:
        """Take (line, ordinal, text) of one region."""
        for number, _, text in rows:
            found = self._known.of(text)
            root = "torchelastic-rootcause" in found
            begins = text.rstrip().endswith(_BEGINS) and "::" not in text  # else pytest's
            own = "ci-error" not in found and (root or begins or text.startswith("Failures:"))
            if own or (self._in_summary and "ci-error" not in found):
                self._root = self._root or root
                self._summary(number, text)
            else:
                self._line(number, text)
        if self._in_summary and self._root and "exitcode" not in self._fields:
            self._entry(number)  # the log ends within it: who failed first stands there
        self._in_summary = False

    def _summary(self, number: int, text: str) -> None:
        self._in_summary = True
        self.summary_lines.add(number)
        field = _FIELD.match(text)
        if _ENTRY.match(text):
            self._fields, self._quote, self._rank = {}, None, None
        elif field:
            name, value = field[1], field[2]
            self._fields[name] = value
            self._quote = None
            if name == "rank":
                self._rank = self._known.of(text).get("torchrun-rank")
            elif name == "exitcode":
                self._entry(number)
            elif name == "traceback" and value.startswith("Traceback"):
                self._quote = [value]
                if self._rank:
                    self.quoted.append((int(self._rank["rank"]), number, self._quote))
        elif text.startswith("====") and self._fields:
            self._in_summary, self._root, self._fields = False, False, {}
            self._quote = self._rank = None
        elif self._quote is not None and text.startswith("    "):
            self._quote.append(text[4:])
        elif self._quote is not None and text.startswith("  "):
            self._quote.append(text[2:])

    def _entry(self, number: int) -> None:
        rank = self._rank
        exitcode = _EXITCODE.match(self._fields.get("exitcode", ""))
        if not rank or (not exitcode and "exitcode" in self._fields):
            return
        code, name = ended(int(exitcode[1])) if exitcode else (None, None)
        host = self._fields.get("host", "").strip()
        self.exits.append(
            LogExit(
                self._file,
                number,
                rank=int(rank["rank"]),
                local_rank=int(rank["local"]),
                pid=int(exitcode[2]) if exitcode else None,
                code=code,
                signal=name,
                died=exitcode is None,
                blamed=self._root,
                host=None if host in ("", "localhost") else host,
                writer=self._writer,
                time=_wall_clock(self._fields.get("time", "")),
            )
        )

    def _line(self, number: int, text: str) -> None:
        found = self._known.of(text)
        failed = found.get("torchrun-failed")
        if failed:
            code, name = ended(int(failed["code"]))
            self.exits.append(
                LogExit(
                    self._file,
                    number,
                    local_rank=int(failed["local"]),
                    pid=int(failed["pid"]) if failed["pid"] else None,
                    code=code,
                    signal=name,
                    blamed=True,
                    writer=self._writer,
                )
            )
        self.stopped |= {int(found[name]["pid"]) for name in _STOPS if name in found}
        if len(self.exits) < _MOST_EXITS:
            self.exits += islice(self._others(number, text, found), _MOST_EXITS)
        kernel = found.get("kernel-killed")
        if kernel:
            self.killed_by_kernel.add(int(kernel["pid"]))

    def _others(self, number: int, text: str, found: Found) -> Iterator[LogExit]:
        if self.aborting is None and "slurm-ending" in found:
            self.aborting = number
        srun = found.get("srun-task-ended")
        if srun:
            yield from self._tasks(number, srun)
        yield from self._mpirun(number, text)
        yield from self._hydra_ends(number, found)
        yield from self._pals(number, found)
        yield from self._nodes(number, found)
        yield from self._trainers.ends(number, text, found)
        yield from self._pods.ends(number, found)
        yield from self._accounts.ends(number, found)
        yield from self._mpi_code(number, found)
        spawn = found.get("spawn-ended")
        if spawn:
            code = int(spawn["code"][:9]) if spawn["code"] else None
            yield LogExit(
                self._file,
                number,
                rank=int(spawn["rank"][:9]),
                code=1 if not spawn["signal"] and code is None else code,
                signal=spawn["signal"] or None,
                launcher="spawn",
            )
        shell = next((found[name] for name in _SHELLS if name in found), None)
        if shell:
            yield LogExit(
                self._file,
                number,
                pid=int(shell["pid"]) if shell["pid"] else None,
                signal=_SIGNALS.get(shell["signal"], shell["signal"])
                or next(name for name in _ABROAD if shell[name]),
                launcher="shell",
                of_launcher="shell-ended-launcher" in found,
            )

    def _mpirun(self, number: int, text: str) -> Iterator[LogExit]:
        """What mpirun says of a rank, in a sentence that may go on in the next lines."""
        if self._noticed is not None:
            text = f"{self._noticed} {text}"
        said = self._known.of(text).get("mpirun-noticed")
        begins = said is not None and not said["signal"]
        self._noticed = text if begins and len(text) < _LONGEST_NOTICE else None
        if said is not None and not begins:
            yield LogExit(
                self._file,
                number,
                rank=int(said["rank"]),
                pid=int(said["pid"]) or None,
                host=said["host"],
                signal=signal_name(int(said["signal"])),
                launcher="mpirun",
            )

    def _hydra_ends(self, number: int, found: Found) -> Iterator[LogExit]:
        process, code = found.get("hydra-process"), found.get("hydra-code")
        if process:
            rank = int(process["rank"]) if process["rank"] else None
            self._hydra = rank, int(process["pid"]), process["host"]
        if code and self._hydra is not None:
            rank, pid, host = self._hydra
            value = int(code["code"])
            exit_code, name = ended_in_shell(value)
            if code["signal"] or value in (6, 7, 9, 11):  # hydra prints the raw status
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

    def _pals(self, number: int, found: Found) -> Iterator[LogExit]:
        said = found.get("pals-ended")
        if said and (said["signal"] or int(said["code"])):
            code, name = ended_in_shell(int(said["code"])) if said["code"] else (None, None)
            name = signal_name(int(said["signal"])) if said["signal"] else name
            rank, host = int(said["rank"]), said["host"]
            yield LogExit(
                self._file, number, rank=rank, host=host, code=code, signal=name, launcher="mpiexec"
            )

    def _nodes(self, number: int, found: Found) -> Iterator[LogExit]:
        """What pdsh and clush say of the command that they ran on each host."""
        said = found.get("pdsh-ended")
        if not said:
            return
        if said["code"]:  # a shell between
            code, name = ended_in_shell(int(said["code"][:9]))
        else:
            code, name = None, signal_name(int(said["signal"][:9]))
        for host in expanded(said["nodes"]):
            yield LogExit(
                self._file,
                number,
                host=host,
                code=code,
                signal=name,
                launcher=said["who"].partition("@")[0],
            )

    def _mpi_code(self, number: int, found: Found) -> Iterator[LogExit]:
        name = found.get("mpirun-process")
        code = found.get("mpirun-code") if self._mpi is not None else None
        if name:
            self._mpi = int(name["rank"][:9])
        elif code:
            value = int(code["code"][:9])
            status, how = ended_in_shell(value)
            yield LogExit(
                self._file, number, rank=self._mpi, code=status, signal=how, launcher="mpirun"
            )
            self._mpi = None
        string = found.get("hydra-string")
        last = self.exits[-1] if self.exits and self.exits[-1].launcher == "mpiexec" else None
        if string and last is not None:
            signal = signal_name(int(string["signal"][:9]))
            if signal not in _OF_HYDRA or not (last.code or last.signal):
                self.exits[-1] = replace(last, code=None, signal=signal)

    def _tasks(self, number: int, said: Match) -> Iterator[LogExit]:
        status, name = None, "SIGKILL" if said["memory"] else _SIGNALS.get(said["signal"])
        if said["code"]:  # a shell between, or Slurm's own sum
            status, name = ended_in_shell(int(said["code"]))
        for task in _numbers(said["tasks"] or said["died"]):
            yield LogExit(
                self._file,
                number,
                rank=task,
                host=said["host"],
                code=status,
                signal=name,
                died=bool(said["died"]),
                launcher="srun",
                memory=bool(said["memory"]),
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
