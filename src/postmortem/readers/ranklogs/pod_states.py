"""How containers ended, as ``kubectl describe pod`` tells it."""

from __future__ import annotations

from collections.abc import Iterator

from postmortem.facts.rank_logs import LogExit
from postmortem.patterns import Pattern
from postmortem.readers.ranklogs.statuses import ended_in_shell

# k8s.io/kubectl/pkg/describe/describe.go: describePod, describeStatus
_NAME = Pattern(r"^Name:\s{2,}(?P<name>[a-z0-9][\w.-]{0,252})$")
_REASON = Pattern(r"^\s+Reason:\s+(?P<reason>OOMKilled|Error|ContainerCannotRun)$")
_CODE = Pattern(r"^\s+Exit Code:\s+(?P<code>\d{1,5})$")


class PodStates:
    """Takes the lines of one writer, in order."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._pod: str | None = None
        self._reason: str | None = None
        self._told: set[str] = set()

    def ends(self, number: int, text: str) -> Iterator[LogExit]:
        """Yield how a pod's container ended: its present state, else the one before a restart."""
        name = _NAME.match(text) if text.startswith("Name:") else None
        if name:
            self._pod, self._reason = name["name"], None
            return
        reason = _REASON.match(text) if "Reason: " in text else None
        self._reason = reason["reason"] if reason else self._reason
        code = _CODE.match(text) if self._reason and "Exit Code: " in text else None
        if not code or self._pod is None or self._pod in self._told or int(code["code"]) == 0:
            return
        self._told.add(self._pod)
        status, signal = ended_in_shell(int(code["code"]))
        yield LogExit(
            self._file,
            number,
            host=self._pod,
            code=status,
            signal=signal,
            launcher="kubernetes",
            memory=self._reason == "OOMKilled",
        )
