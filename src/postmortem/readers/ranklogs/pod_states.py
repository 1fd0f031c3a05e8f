"""How containers ended, as kubectl, operators of training jobs, docker and podman tell it."""

from collections.abc import Iterator

from postmortem.facts.exits import LogExit
from postmortem.facts.signature import Match
from postmortem.readers.ranklogs.known_lines import Found
from postmortem.readers.ranklogs.statuses import ended_in_shell, exit_of
from postmortem.records import replace


class PodStates:
    """Takes the lines of one writer, in order."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._pod: str | None = None
        self._reason: Match | None = None
        self._evicted: Match | None = None
        self._told: set[str] = set()
        self._reclaims: Match | None = None
        """What the kubelet says that its node is short of."""
        self._without_node: dict[str, str] = {}
        """What was said of the nodes of pods that do not answer."""
        self.placed: set[str] = set()
        """Pods for which a node was found: what is told of a search for one is over."""
        self.jobs: set[str] = set()
        """Jobs that are over, well or not: names of their pods begin so."""
        self._launcher = "kubernetes"

    def ends(self, number: int, found: Found) -> Iterator[LogExit]:
        """Yield how a pod's container ended: its present state, else the one before a restart."""
        event = found.get("pod-event-code")
        if event:
            yield from self._event(number, event)
        table = found.get("pod-row")
        if table and table["memory"] and table["pod"] not in self._told:
            self._told.add(table["pod"])
            yield replace(exit_of(self._file, number, "kubernetes", table), host=table["pod"])
        row = found.get("container-row")
        if row:
            yield from self._end(number, row["name"], row, None)
            return
        name = found.get("pod-name") or found.get("container-id")
        if name:
            self._pod, self._reason, self._evicted = name["name"], None, None
            self._launcher = "kubernetes" if name.id == "pod-name" else "docker"
            return
        self._evicted = self._evicted or found.get("pod-evicted")
        self._reclaims = found.get("kubelet-reclaims") or self._reclaims
        message = found.get("pod-message") if self._evicted else None
        if lost := found.get("pod-event-node"):
            self._without_node[lost["pod"]] = lost["why"].strip()
        evicted = found.get("pod-event-evicted") or message
        pod = evicted["pod"] or evicted["name"].rpartition("/")[2] or self._pod if evicted else None
        if evicted and (pod or "") not in self._told:
            self._told.add(pod or "")
            why = self._without_node.get(pod or "") or evicted["why"].strip()
            if not why:
                why = f"its node was short of {self._reclaims['why'] if self._reclaims else 'room'}"
            end = LogExit(self._file, number, host=pod, launcher="kubernetes")
            by = self._evicted if evicted is message else evicted
            if by is not None and by["refused"]:
                yield replace(end, unplaced=why, refused=True)
            else:
                yield replace(end, evicted=why)
        if job := found.get("job-event-over"):
            self.jobs.add(job["job"])
        if placed := found.get("pod-event-placed"):
            self.placed.add(placed["pod"])
        unplaced = found.get("pod-event-unplaced")
        pod = unplaced["pod"] or self._pod if unplaced else None
        if unplaced and pod and pod not in self.placed | self._told:
            self._told.add(pod)
            why = unplaced["why"].rstrip()
            yield LogExit(self._file, number, host=pod, launcher="kubernetes", unplaced=why)
        self._reason = found.get("pod-reason") or self._reason
        code = found.get("pod-code") if self._reason else None
        if code:
            yield from self._end(number, self._pod, code, self._reason)

    def _end(
        self, number: int, pod: str | None, code: Match, reason: Match | None
    ) -> Iterator[LogExit]:
        # None where the name stands above what was copied.
        if (pod or "") in self._told:
            return
        self._told.add(pod or "")
        if int(code["code"]) == 0:  # what was before it is no end
            return
        launcher = "docker" if code.id == "container-row" else self._launcher
        end = exit_of(self._file, number, launcher, code, ended_in_shell)
        yield replace(end, host=pod, memory=reason is not None and bool(reason["memory"]))

    def _event(self, number: int, said: Match) -> Iterator[LogExit]:
        """Yield it once: an operator tells it of the container and of the pod."""
        pod = (said["pod"] or said["name"]).rpartition(".")[2]
        if pod not in self._told:
            self._told.add(pod)
            end = exit_of(self._file, number, "kubernetes", said, ended_in_shell)
            yield replace(end, host=pod)
