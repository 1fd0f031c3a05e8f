"""What launchers say of how processes ended: of ranks, of programs, of jobs."""

import calendar
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice

from postmortem.facts.exits import RECORD, RUN, TRACKER, LogExit, Stop
from postmortem.facts.host_names import NoHosts, expand
from postmortem.facts.signature import Match
from postmortem.patterns import Pattern
from postmortem.readers.ranklogs.known_lines import Found, KnownLines
from postmortem.readers.ranklogs.last_words import FALLBACK, MEANT
from postmortem.readers.ranklogs.pod_states import PodStates
from postmortem.readers.ranklogs.statuses import (
    Status,
    ended,
    ended_in_pbs,
    ended_in_shell,
    exit_of,
)
from postmortem.readers.siginfo import signal_name
from postmortem.records import replace

_ENTRY = Pattern(r"^\s*\[(\d+)\]:\s*$")
_FIELD = Pattern(r"^\s+(time|host|rank|exitcode|error_file|traceback) *: ?(.*)$")
_EXITCODE = Pattern(r"^(-?\d+)(?: \(pid: (\d+)\)| *$)")
_TIME = Pattern(r"(\d{4})-(\d\d)-(\d\d)_(\d\d):(\d\d):(\d\d)$")
_LONGEST_NOTICE = 1000
_MOST_EXITS = 200_000
"""One line may tell of thousands: ``tasks 0-4095``."""
_STOPS = ("torchelastic-sigterm-send", "torchrun-forced", "launch-killing")
"""Messages that name a process which a launcher ended."""
_BESIDE = "last-none-beside"
_OF_HYDRA = ("SIGKILL", "SIGTERM")
"""With which it ends the others: that is no word on the process that it names before."""
_TOLD: Mapping[str, tuple[str, Status]] = {
    "torchrun-failed": ("torchrun", ended),
    "run-ended": (RUN, ended),
    "spawn-ended": ("spawn", ended),
    "deepspeed-ended": ("deepspeed", ended),
    "paddle-ended": ("paddle", ended),
    "lightning-child-ended": ("lightning", ended),
    "composer-crashed": ("composer", ended),
    "composer-process-ended": ("composer", ended),
    "horovod-ended": ("horovodrun", ended_in_shell),
    "launch-command-failed": ("the launcher", ended),
    "pals-ended": ("mpiexec", ended_in_shell),
    "script-ended": ("the launcher", ended_in_shell),
    "flux-ended": ("flux", ended),
    "mpt-ended": ("mpiexec", ended),
    "mpirun-left": ("mpirun", ended),
    "raylet-worker-died": ("ray", ended),
    "raylet-memory-kills": ("raylet", ended),
    "vllm-process-died": ("vLLM", ended),
    "tgi-process-ended": ("TGI", ended),
    "supervisord-exited": ("supervisord", ended),
    "systemd-exited": ("systemd", ended),
    "wandb-exited": (TRACKER, ended),
    "wandb-parent-gone": (TRACKER, ended),
    "sagemaker-signal": ("SageMaker", ended),
    "airflow-task-ended": ("Airflow", ended),
    "time-ended": ("time", ended),
    "container-died": ("docker", ended_in_shell),
    "databricks-ended": ("Databricks", ended_in_shell),
    "pbs-signal": ("PBS", ended_in_pbs),
    "make-ended": ("make", ended_in_shell),
    "dvc-ended": ("DVC", ended_in_shell),
    "go-parent-signal": ("its parent", ended),
    "sge-ended": ("Grid Engine", ended_in_shell),
    "jupyter-kernel-died": ("Jupyter", ended),
    "seff-state": ("Slurm", ended_in_shell),
    "service-ended": ("the service", ended_in_shell),
    "slurm-account": ("Slurm", ended_in_shell),
    "hydra-code": ("mpiexec", ended_in_shell),
    "mpirun-code": ("mpirun", ended_in_shell),
    "slurm-job-code": ("Slurm", ended_in_shell),
    "lsf-job-code": ("LSF", ended_in_shell),
    "record-ended": (RECORD, ended_in_shell),
    "shell-ended": ("shell", ended),
    "shell-ended-alone": ("shell", ended),
    "shell-ended-abroad": ("shell", ended),
    "shell-ended-zsh": ("shell", ended),
    "shell-ended-fish": ("shell", ended),
    "shell-ended-behind": ("shell", ended),
}
"""Messages that tell how a process ended: who says it, and how a code is meant (`exit_of`)."""
_OF_JOB = {
    "stopped-by-scheduler": "Slurm",
    "stopped-due-to": "Slurm",
    "slurm-state": "Slurm",
    "torchrun-signal": "torchrun",
    "torchelastic-signal": "torchrun",
    "lsf-ended": "LSF",
    "pbs-ended": "PBS",
    "pbs-status": "PBS",
    "record-stopped": RECORD,
    "kueue-evicted": "Kueue",
    "cloud-preempts": "the cloud",
    "ci-time-limit": "CI",
    "stopped-by-keyboard": "a person",
    "stopped-mpirun": "a person",
}
"""Messages that somebody ended the whole job: who says it."""
_OF_HOSTS = {"slurm-node-failed": "Slurm", "ray-node-died": "Ray", "pals-node-silent": "PALS"}
"""Messages that a host of the job failed: who says it."""
_WHY = {**{why.value: why for why in Stop}, "wall": Stop.TIME}
"""Groups of theirs that say what for."""
_ROWS = ("slurm-state", "slurm-account")
_STOP_SIGNALS = ("", "1", "2", "15")
_MEMORY = ("oom-said", "oom-slurm")
_BEGUN = {
    "hydra-code": "hydra-process",
    "mpirun-code": "mpirun-process",
    "slurm-job-code": "slurm-job-state",
    "lsf-job-code": "lsf-job",
}
"""Those that end what a line above has begun, which says of whom."""
_ENDING = {"horovod-ends-others", "composer-crashed", "sglang-ends-others"}
"""Messages behind which a launcher ends the others."""
_KILLS = ("SIGTERM", "SIGKILL")
_OF_COMMANDS = (
    "distributed/launch.py",
    "accelerate/commands/launch.py",
    "'--local_rank=",
    "'--local-rank=",
)
"""Only a launcher has such frames, or gives a command such an argument."""
_NEAR, _MOST_AGAIN = 3, 3
"""Lines from an end to the word that it was meant; how often one may run again."""
_MOST_NAMED = 256
"""Processes and jobs without ranks that are told of: no job has more."""
_BEGINS = " FAILED"
"""How the head of torchelastic's summary ends: with the name of the script before it."""


class Launchers:
    """Takes the lines of one writer and keeps what launchers say in them."""

    def __init__(self, file: str, known: KnownLines) -> None:
        self._file = file
        self._known = known
        self.exits: list[LogExit] = []
        self.stopped: set[int] = set()
        self.words: list[LogExit] = []
        """What is said of the job, of a host, or of a process by its number alone."""
        self.summary_lines: set[int] = set()
        """Numbers of the lines of torchelastic's summary: its tracebacks are other processes'."""
        self.quoted: list[tuple[int, int, list[str]]] = []
        """(rank, first line, lines) of tracebacks in the summary."""
        self._tables: set[int] = set()
        """Lines of rows on jobs, by their numbers: of any jobs."""
        self._killed: set[str] = set()
        """Processes that a script ends, as its shell shows."""
        self.aborting: int | None = None
        """First line that tells that Slurm ends all tasks of the step."""
        self._root = False
        self._rank: Match | None = None
        self._fields: dict[str, str] = {}
        self._quote: list[str] | None = None
        self._in_summary = False
        self._begun: dict[str, Match] = {}
        self._noticed: str | None = None
        self._pods = PodStates(file)
        self._named: set[str] = set()
        self._again: Counter[str] = Counter()
        self._ending = self._launches = False

    def take(self, rows: Iterable[tuple[int, int, str]]) -> None:
        """Take (line, ordinal, text) of one region."""
        rows = [*rows]
        for at, (number, _, text) in enumerate(rows):
            found = self._known.of(text)
            root = "torchelastic-rootcause" in found
            begins = text.rstrip().endswith(_BEGINS) and "::" not in text  # else pytest's
            own = "ci-error" not in found and (root or begins or text.startswith("Failures:"))
            if own or (self._in_summary and "ci-error" not in found):
                self._root = self._root or root
                self._summary(number, text)
            else:
                self._line(number, text)
                if self._told_by_shell(number) and any(
                    self._minded(row[2]) for row in rows[at : at + _NEAR]
                ):
                    self.exits.pop()
        if self._in_summary and self._root and "exitcode" not in self._fields:
            self._entry(number)  # the log ends within it: who failed first stands there
        self._in_summary = False

    def leave_out_others(
        self,
        works_below: Callable[[int], bool],
        tried_again: Callable[[int], bool],
        calm_below: Callable[[int], bool],
    ) -> None:
        """Forget rows on jobs below which the file's writers are at work: they tell of others.

        So do events of pods, where a job is over that they do not belong to; what a shell tells of
        a command that its runner has tried again, and a server of a process that it has replaced.
        """
        got_over = {"shell": tried_again, "its parent": calm_below}
        self.exits = [
            end
            for end in self.exits
            if end.launcher not in got_over or not got_over[end.launcher](end.line)
        ]
        if jobs := tuple(self._pods.jobs):
            self.exits = [
                end
                for end in self.exits
                if not (end.unplaced or end.evicted) or (end.host or "").startswith(jobs)
            ]
        if others := {line for line in self._tables if works_below(line)}:
            self.words = [word for word in self.words if word.line not in others]
            self.exits = [end for end in self.exits if end.line not in others]

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
                pid=int(exitcode[2]) if exitcode and exitcode[2] else None,
                code=code,
                signal=name,
                died=exitcode is None,
                blamed=self._root,
                host=None if host in ("", "localhost") else host,
                time=_wall_clock(self._fields.get("time", "")),
            )
        )

    def _line(self, number: int, text: str) -> None:
        found = self._known.of(text)
        if kill := found.get("shell-kills"):
            self._killed.add(kill["pid"])
        self.stopped |= {int(found[name]["pid"]) for name in _STOPS if name in found}
        if len(self.exits) < _MOST_EXITS:
            self.exits += islice(self._others(number, text, found), _MOST_EXITS)
        pod = found.get("pod-row")
        if pod and not pod["memory"]:  # it was started again
            self.exits = [one for one in self.exits if one.host != pod["pod"]]
        if "pod-event-placed" in found:
            placed = self._pods.placed
            self.exits = [
                e for e in self.exits if e.refused or not (e.unplaced and e.host in placed)
            ]
        if "raylet-task-retried" in found and self.exits and self.exits[-1].launcher == "ray":
            self.exits.pop()
        if runs := found.get("supervisord-running"):
            self._runs_again(runs["process"])
        self.words += self._words(number, text, found)
        if text.lstrip()[:1].isdigit() and not found.keys().isdisjoint(_ROWS):
            self._tables.add(number)

    def _minded(self, text: str) -> bool:
        """Return whether a line says that a bad end right above was meant, or is got over."""
        return not self._known.of(text).keys().isdisjoint((FALLBACK, MEANT))

    def _told_by_shell(self, number: int) -> bool:
        last = self.exits[-1] if self.exits else None
        return last is not None and last.line == number and last.launcher == "shell"

    def _runs_again(self, process: str) -> None:
        """Take back how a process ended that runs again; not where that comes again and again."""
        self._named.discard(process)
        self._again[process] += 1
        if self._again[process] <= _MOST_AGAIN:
            self.exits = [end for end in self.exits if end.process != process]

    def _words(self, number: int, text: str, found: Found) -> Iterator[LogExit]:
        word = LogExit(self._file, number, text=text)
        stops = [found[name] for name in _OF_JOB if name in found]
        if stops and stops[0]["number"] in _STOP_SIGNALS:
            why = next((_WHY[name] for one in stops for name in one.captures if name in _WHY), None)
            batch = any(one["batch"] for one in stops)
            yield replace(
                word, launcher=_OF_JOB[stops[0].id], of_job=True, why=why, of_launcher=batch
            )
        for name, who in _OF_HOSTS.items():
            if node := found.get(name):
                yield replace(word, launcher=who, host=node["host"] or node["unreached"])
        if kernel := found.get("kernel-killed"):
            yield replace(word, launcher="kernel", pid=int(kernel["pid"]), memory=True)
        if not found.keys().isdisjoint(_MEMORY):
            yield replace(word, launcher="kernel", memory=True)

    def _others(self, number: int, text: str, found: Found) -> Iterator[LogExit]:
        if self.aborting is None and "slurm-ending" in found:
            self.aborting = number
        srun, nodes = found.get("srun-task-ended"), found.get("pdsh-ended")
        if srun:  # a code is a shell's between, or Slurm's own sum
            end = exit_of(self._file, number, "srun", srun, ended_in_shell)
            for task in tasks_of(srun["tasks"] or srun["died"]):
                yield replace(end, rank=task)
        if nodes:  # a shell between
            launcher = nodes["who"].partition("@")[0]
            end = exit_of(self._file, number, launcher, nodes, ended_in_shell)
            for host in hosts_of(nodes["nodes"]):
                yield replace(end, host=host)
        yield from self._mpirun(number, text)
        yield from self._told(number, text, found)
        yield from self._pods.ends(number, found)
        self._hydra_string(found)

    def _told(self, number: int, text: str, found: Found) -> Iterator[LogExit]:
        if _BESIDE in found:
            return
        self._launches = self._launches or any(
            file in text.replace("\\", "/") for file in _OF_COMMANDS
        )
        for name, said in found.items():
            launcher, status = _TOLD.get(name, ("", ended))
            begun = _BEGUN.get(name)
            if begun is not None and (head := self._begun.pop(begun, None)) is not None:
                said = Match(name, {**head.captures, **said.captures})
            elif not launcher or begun is not None or not self._counts(said):
                continue
            end = exit_of(self._file, number, launcher, said, status)
            if launcher == "shell" and str(end.pid) in self._killed:
                continue
            yield replace(
                end,
                blamed=name == "torchrun-failed",
                died=end.died or launcher == "ray",
                stopped=end.stopped or (self._ending and end.signal in _KILLS),
                of_launcher="shell-ended-launcher" in found,
            )
        self._begun |= {name: found[name] for name in _BEGUN.values() if name in found}
        self._ending = self._ending or not _ENDING.isdisjoint(found)

    def _counts(self, said: Match) -> bool:
        """Return whether an end is told of: of a job's steps, or a name's, the first."""
        name = said["job"] or said["process"]
        if name and (name in self._named or len(self._named) == _MOST_NAMED):
            return False
        self._named |= {name} if name else set()
        return self._launches or said.id != "launch-command-failed"

    def _mpirun(self, number: int, text: str) -> Iterator[LogExit]:
        """What mpirun says of a rank, in a sentence that may go on in the next lines, or be cut."""
        before, goes_on = self.exits[-1:], self._noticed is not None
        if goes_on:
            text = f"{self._noticed} {text}"
        said = self._known.of(text).get("mpirun-noticed")
        self._noticed = None
        if said is None:
            return
        if goes_on and before:
            self.exits.pop()
        if not said["signal"] and len(text) < _LONGEST_NOTICE:
            self._noticed = text
        yield exit_of(self._file, number, "mpirun", said)

    def _hydra_string(self, found: Found) -> None:
        """Take the signal of which hydra tells below the process that it names."""
        string = found.get("hydra-string")
        last = self.exits[-1] if self.exits and self.exits[-1].launcher == "mpiexec" else None
        if string and last is not None:
            signal = signal_name(int(string["signal"][:9]))
            if signal not in _OF_HYDRA or not (last.code or last.signal):
                self.exits[-1] = replace(last, code=None, signal=signal)


def _wall_clock(text: str) -> float | None:
    """Return the seconds of torchelastic's ``2026-11-21_02:03:32``."""
    found = _TIME.match(text.strip())
    if not found or not 1970 <= int(found[1]) < 3000:
        return None
    return float(calendar.timegm((*(int(found[i]) for i in range(1, 7)), 0, 0, 0)))


def tasks_of(text: str) -> Iterator[int]:
    """Yield the tasks that ``0,2-4`` stands for."""
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdecimal() and len(first) < 8:
            end = int(last) if last.isdecimal() and len(last) < 8 else int(first)
            yield from range(int(first), min(end, int(first) + 100_000) + 1)


def hosts_of(nodes: str) -> list[str]:
    """Return the hosts of a set as pdsh and clush write it; of what is none, itself."""
    try:
        return expand(nodes)
    except NoHosts:
        return [nodes]
