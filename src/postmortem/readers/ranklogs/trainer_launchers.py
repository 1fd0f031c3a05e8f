"""What the launchers of training libraries say of how their processes ended."""

from collections.abc import Iterator

from postmortem.facts.rank_logs import RUN, LogExit
from postmortem.readers.ranklogs.known_lines import Found
from postmortem.readers.ranklogs.statuses import ended, ended_in_shell
from postmortem.readers.siginfo import signal_name

_OF_COMMANDS = (
    "distributed/launch.py",
    "accelerate/commands/launch.py",
    "'--local_rank=",
    "'--local-rank=",
)
"""Only a launcher has such frames, or gives a command such an argument."""
_MOST_NAMED = 256
"""Processes without ranks that are told of: one job has no more."""
_INTENDED = "INTENDED"
"""How Ray says that it ended a worker itself."""


class TrainerLaunchers:
    """Takes the lines of one writer; knows whether a launcher has begun to end the others."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._ending = False
        self._launches = False
        self._named = 0

    def ends(self, number: int, text: str, found: Found) -> Iterator[LogExit]:
        """Yield what a line says of one process."""
        ours = found.get("run-ended")
        if ours:
            yield LogExit(
                self._file,
                number,
                rank=int(ours["rank"]) if ours["rank"] else None,
                pid=int(ours["pid"]),
                code=int(ours["code"]) if ours["code"] else None,
                signal=ours["signal"] or None,
                launcher=RUN,
                stopped=bool(ours["stopped"]),
                memory=bool(ours["memory"]),
            )
        said = found.get("deepspeed-ended")
        if said:
            code, name = ended(int(said["code"]))
            yield LogExit(self._file, number, code=code, signal=name, launcher="deepspeed")
        paddle = found.get("paddle-ended")
        if paddle:
            code, name = ended(int(paddle["code"]))
            rank = int(paddle["rank"])
            yield LogExit(
                self._file,
                number,
                rank=rank,
                code=code,
                signal=name,
                launcher="paddle",
                output=paddle["log"] or None,
            )
        child = found.get("lightning-child-ended")
        if child:
            code, name = ended(int(child["code"]))
            yield LogExit(
                self._file,
                number,
                rank=int(child["rank"]),
                pid=int(child["pid"]),
                code=code,
                signal=name,
                launcher="lightning",
            )
        worker = found.get("raylet-worker-died")
        if worker and not worker["type"].startswith(_INTENDED):
            pid = int(worker["pid"])
            yield LogExit(self._file, number, pid=pid, died=True, host=worker["ip"], launcher="ray")
        served = found.get("vllm-process-died")
        if served and self._named < _MOST_NAMED:
            name = served["process"]
            self._named += 1
            yield LogExit(self._file, number, died=True, launcher="vLLM", process=name)
        shard = found.get("tgi-process-ended")
        if shard:
            yield LogExit(
                self._file,
                number,
                rank=int(shard["rank"]) if shard["rank"] else None,
                signal=signal_name(int(shard["signal"])),
                launcher="TGI",
            )
        kills = found.get("raylet-memory-kills")
        if kills:
            host = kills["ip"] or None
            yield LogExit(
                self._file,
                number,
                host=host,
                signal="SIGKILL",
                launcher="raylet",
                memory=True,
                times=int(kills["count"]),
            )
        yield from self._command(number, text, found)
        yield from self._composer(number, found)
        yield from self._horovod(number, found)

    def _command(self, number: int, text: str, found: Found) -> Iterator[LogExit]:
        self._launches = self._launches or any(
            file in text.replace("\\", "/") for file in _OF_COMMANDS
        )
        said = found.get("launch-command-failed") if self._launches else None
        if said:
            code = int(said["code"][:10]) if said["code"] else None
            signal = said["signal"] or None
            yield LogExit(self._file, number, code=code, signal=signal, launcher="the launcher")

    def _composer(self, number: int, found: Found) -> Iterator[LogExit]:
        first = found.get("composer-crashed")
        each = found.get("composer-process-ended")
        if first:
            self._ending = True
            code, name = ended(int(first["code"]))
            rank = int(first["rank"])
            yield LogExit(
                self._file, number, rank=rank, code=code, signal=name, launcher="composer"
            )
        elif each and int(each["code"]) != 0:
            code, name = ended(int(each["code"]))
            yield LogExit(
                self._file,
                number,
                rank=int(each["rank"]),
                pid=int(each["pid"]),
                code=code,
                signal=name,
                launcher="composer",
                stopped=self._ending and name in ("SIGTERM", "SIGKILL"),
            )

    def _horovod(self, number: int, found: Found) -> Iterator[LogExit]:
        process = found.get("horovod-ended")
        if process and int(process["code"]) != 0:
            code, name = ended_in_shell(int(process["code"]))
            yield LogExit(
                self._file,
                number,
                rank=int(process["rank"]),
                code=code,
                signal=name,
                launcher="horovodrun",
                stopped=self._ending and name in ("SIGTERM", "SIGKILL"),
            )
        self._ending = self._ending or "horovod-ends-others" in found
