"""Jobs of a batch system whose log of events is among the logs: what became of each."""

from __future__ import annotations

from enum import StrEnum

from postmortem.records import record


class JobState(StrEnum):
    """What the last event of a job says of it."""

    WAITING = "waiting"
    """Submitted, released, or to be started again."""
    RUNNING = "running"
    ENDED = "ended"
    """By itself, or by a signal."""
    HELD = "held"
    REMOVED = "removed"


@record
class BatchJob:
    """One job of HTCondor, as the events of its user log tell."""

    id: str
    """``"37989276.0"``: cluster and process."""
    run: int
    """Which run of the log it is of, from 0: one begins where all jobs before have ended."""
    state: JobState
    file: str
    line: int
    """Where the event begins that says so."""
    code: int | None = None
    """Of exit(), where it ended by itself, and the log says so."""
    signal: str | None = None
    """What ended it, where it did not."""
    reason: str = ""
    """Why it is held or was removed, as HTCondor says."""
    held: str = ""
    """Of a job that was removed while it was held: why it was."""
    hold_line: int | None = None
    """Where that stands."""
    memory: bool = False
    """It was held, stopped or removed for the memory that it used."""
    holds: int = 0
    """How often it was held."""

    @property
    def open(self) -> bool:
        """Whether it may still end."""
        return self.state in (JobState.WAITING, JobState.RUNNING, JobState.HELD)

    @property
    def failed(self) -> bool:
        """Whether it did not come to a good end: held, removed, ended by a code or a signal."""
        if self.state is JobState.ENDED:
            return self.signal is not None or self.code not in (0, None)
        return self.state in (JobState.HELD, JobState.REMOVED)

    @property
    def how(self) -> str:
        """``held``, ``ended with 1``, ``held and removed``; all that may still end are alike."""
        if self.state is JobState.ENDED:
            return _code(self.code) if self.signal is None else f"killed by {self.signal}"
        if self.open and self.state is not JobState.HELD:
            return "open"
        if self.held:
            return "held and removed"
        return self.state.value

    @property
    def why(self) -> str:
        """What says why it is held or was removed; of what was removed while held, the hold's."""
        return self.held or self.reason

    @property
    def said(self) -> str:
        """``held: Policy violation``."""
        return f"{self.how}: {self.why}" if self.why else self.how


def _code(code: int | None) -> str:
    return "ended" if code is None else f"ended with {code}"
