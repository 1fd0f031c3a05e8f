"""How jobs ended, as ``sacct`` and ``scontrol show job`` tell it."""

from collections.abc import Iterator

from postmortem.facts.rank_logs import LogExit
from postmortem.facts.signature import Match
from postmortem.readers.ranklogs.known_lines import Found
from postmortem.readers.ranklogs.statuses import ended, ended_in_shell

_OWN_SIGNALS = 65
"""From here on numbers in the place of a signal are Slurm's own: 125 is out of memory."""


class SlurmAccounts:
    """Takes the lines of one writer, in order; of each job the first step that failed is told.

    The steps of a job follow from each other: the batch script from the step that it started.
    """

    def __init__(self, file: str) -> None:
        self._file = file
        self._told: set[str] = set()
        self._state: Match | None = None

    def ends(self, number: int, found: Found) -> Iterator[LogExit]:
        """Yield how a job ended."""
        account = found.get("slurm-account")
        if account:
            if account["job"] not in self._told:
                self._told.add(account["job"])
                yield self._exit(number, account, memory=bool(account["memory"]))
            return
        self._state = found.get("slurm-job-state") or self._state
        code = found.get("slurm-job-code")
        if code and self._state is not None:
            memory, self._state = bool(self._state["memory"]), None
            yield self._exit(number, code, memory=memory)

    def _exit(self, number: int, said: Match, *, memory: bool) -> LogExit:
        code, signal = int(said["code"]), int(said["signal"])
        status: tuple[int | None, str | None] = ended_in_shell(code)
        if memory:
            status = None, "SIGKILL"
        elif 0 < signal < _OWN_SIGNALS:
            status = ended(-signal)
        return LogExit(
            self._file, number, code=status[0], signal=status[1], launcher="Slurm", memory=memory
        )
