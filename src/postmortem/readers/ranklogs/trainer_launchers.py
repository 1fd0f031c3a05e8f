"""What the launchers of training libraries say of how their processes ended."""

from __future__ import annotations

from collections.abc import Iterator

from postmortem.facts.rank_logs import LogExit
from postmortem.patterns import Pattern
from postmortem.readers.ranklogs.statuses import ended, ended_in_shell

# deepspeed/launcher/launch.py; the command before it is that of the last process, whoever failed
_DEEPSPEED = Pattern(r"\] exits with return code = (-?\d{1,5})\b")
# torch/distributed/launch.py before 1.9, accelerate/commands/launch.py; the command as above
_COMMAND = Pattern(
    r"^subprocess\.CalledProcessError: Command .* (?:died with <Signals\.(?P<signal>SIG\w+): \d+>"
    r"|returned non-zero exit status (?P<code>\d+))\.$"
)
_OF_COMMANDS = ("torch/distributed/launch.py", "accelerate/commands/launch.py")
# lightning/fabric/strategies/launchers/subprocess_script.py
_LIGHTNING = Pattern(
    r"\[rank: (\d{1,6})\] Child process with PID (\d{1,9}) terminated with code (-?\d{1,5})\b"
)
# ray/src/ray: the raylet's word on a worker; how it ended it does not know
_RAYLET = Pattern(
    r"A worker died .*Worker IP address: (?P<ip>\S+) .*Worker PID: (?P<pid>\d{1,9}) "
    r"Worker exit type: (?!INTENDED)"
)
# composer/cli/launcher.py: who crashed first, as its poll saw it, then each process
_COMPOSER = Pattern(r"\bRank (\d{1,6}) crashed with exit code (-?\d{1,5})\b")
_COMPOSER_EACH = Pattern(
    r"\bGlobal rank (\d{1,6}) \(PID (\d{1,9})\) exited with code (-?\d{1,5})\b"
)
# horovod/runner/gloo_run.py, horovod/runner/util/threads.py
_HOROVOD = Pattern(r"^Process (\d{1,6}) exit with status code (\d{1,5})\b")
_HOROVOD_ENDS = "Terminating remaining workers after failure of Process "


class TrainerLaunchers:
    """Takes the lines of one writer; knows whether a launcher has begun to end the others."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._ending = False
        self._launches = False

    def ends(self, number: int, text: str) -> Iterator[LogExit]:
        """Yield what a line says of one process."""
        said = _DEEPSPEED.search(text) if "exits with return code" in text else None
        if said:
            code, name = ended(int(said[1]))
            yield LogExit(self._file, number, code=code, signal=name, launcher="deepspeed")
        child = _LIGHTNING.search(text) if "terminated with code" in text else None
        if child:
            code, name = ended(int(child[3]))
            yield LogExit(
                self._file,
                number,
                rank=int(child[1]),
                pid=int(child[2]),
                code=code,
                signal=name,
                launcher="lightning",
            )
        worker = _RAYLET.search(text) if "Worker PID: " in text else None
        if worker:
            pid = int(worker["pid"])
            yield LogExit(self._file, number, pid=pid, host=worker["ip"], launcher="ray")
        yield from self._command(number, text)
        yield from self._composer(number, text)
        yield from self._horovod(number, text)

    def _command(self, number: int, text: str) -> Iterator[LogExit]:
        self._launches = self._launches or any(file in text for file in _OF_COMMANDS)
        said = _COMMAND.match(text) if self._launches and "CalledProcessError" in text else None
        if said:
            code = int(said["code"][:9]) if said["code"] else None
            yield LogExit(
                self._file, number, code=code, signal=said["signal"], launcher="the launcher"
            )

    def _composer(self, number: int, text: str) -> Iterator[LogExit]:
        first = _COMPOSER.search(text) if "crashed with exit code" in text else None
        each = _COMPOSER_EACH.search(text) if "Global rank " in text else None
        if first:
            self._ending = True
            code, name = ended(int(first[2]))
            rank = int(first[1])
            yield LogExit(
                self._file, number, rank=rank, code=code, signal=name, launcher="composer"
            )
        elif each and int(each[3]) != 0:
            code, name = ended(int(each[3]))
            yield LogExit(
                self._file,
                number,
                rank=int(each[1]),
                pid=int(each[2]),
                code=code,
                signal=name,
                launcher="composer",
                stopped=self._ending and name in ("SIGTERM", "SIGKILL"),
            )

    def _horovod(self, number: int, text: str) -> Iterator[LogExit]:
        process = _HOROVOD.match(text) if "exit with status code" in text else None
        if process and int(process[2]) != 0:
            code, name = ended_in_shell(int(process[2]))
            yield LogExit(
                self._file,
                number,
                rank=int(process[1]),
                code=code,
                signal=name,
                launcher="horovodrun",
                stopped=self._ending and name in ("SIGTERM", "SIGKILL"),
            )
        self._ending = self._ending or text.startswith(_HOROVOD_ENDS)
