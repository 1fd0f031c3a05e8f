"""What an incident is called: the verdict, the chain from cause to end, what to do next."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from postmortem.diagnose.incident.events import Event, EventType
from postmortem.diagnose.incident.graph import Incident
from postmortem.diagnose.incident.runs import Runs
from postmortem.diagnose.names import clip
from postmortem.report.model import Confidence

Document = Mapping[str, Any]

_LONGEST = 160
VERBS = {
    EventType.RAISED: "raised",
    EventType.THREAD_DIED: "lost a thread:",
    EventType.CRASHED: "crashed:",
    EventType.KILLED_FOR_MEMORY: "was killed for memory:",
    EventType.KILLED: "was killed:",
    EventType.EXITED: "ended:",
    EventType.WATCHDOG: "was ended by a watchdog:",
    EventType.LOST_PEER: "lost a peer:",
    EventType.NOT_IN_COLLECTIVE: "did not come to the collective:",
    EventType.CALLED_OTHER: "called another collective:",
    EventType.STUCK: "is stuck:",
    EventType.SLOW: "is slow:",
    EventType.NEVER_JOINED: "never joined:",
    EventType.COULD_NOT_START: "could not start:",
    EventType.STORAGE: "could not use storage:",
    EventType.FULL: "is full:",
    EventType.DAMAGED: "is damaged:",
    EventType.REFUSED: "was refused a call:",
    EventType.NETWORK: "lost the network:",
    EventType.DEVICE_LOST: "lost its GPU:",
    EventType.GPU_MEMORY: "ran out of GPU memory:",
    EventType.KERNEL_FAILED: "failed on its GPU:",
    EventType.HOST_FAILED: "failed:",
    EventType.NODE_DOWN: "is down:",
    EventType.HARDWARE: "has failing hardware:",
    EventType.NON_FINITE: "has bad numbers:",
    EventType.STOPPED: "was stopped:",
    EventType.FAILED: "failed:",
}
_OF_SEVERAL = {"has": "have", "is": "are", "was": "were"}
_WHOLE = frozenset({"core", "gpu_core", "gpu_memory", "strace", "scan"})
"""Reports whose clause is a sentence of its own: it names whom it is about where it can."""


def step_words(event: Event) -> str:
    """Return one step of the chain: ``rank 2 on node1 raised RuntimeError: …``."""
    what = clip(event.what, _LONGEST)
    if event.type in (EventType.FULL, EventType.NODE_DOWN):
        return what
    if event.source in _WHOLE and not event.child:
        known = not event.ranks or f"rank {event.ranks[0]}" in what
        return what if known else f"{event.actor}: {what}"
    if event.means:
        return f"{event.actor}: {event.means}: {what}"
    return f"{event.actor} {verb(event)} {what}"


def verb(event: Event) -> str:
    """Return what an actor did or suffered, as one or as several."""
    first, space, rest = VERBS[event.type].partition(" ")
    several = len(event.ranks) > 1 and not event.role
    return f"{_OF_SEVERAL.get(first, first) if several else first}{space}{rest}"


def chain(incident: Incident[Event], root: int) -> tuple[int, ...]:
    """Return the events from a root to the end, causes before what they brought about."""
    inside = {root, *incident.explained_by(root)}
    found: list[int] = []
    waiting = [root]
    while waiting:
        at = waiting.pop(0)
        if at in found:
            continue
        found.append(at)
        waiting += [
            link.effect
            for link in incident.links
            if link.cause == at
            and link.effect in inside
            and link.confidence is not Confidence.POSSIBLE
        ]
    return tuple(found)


def beside_calm_logs(incident: Incident[Event], documents: Sequence[Document]) -> str:
    """Return what ends the verdict where logs tell of no failure, and nothing is of their job."""
    apart = all(incident.events[root].belongs is None for root in incident.roots)
    calm = [one for one in documents if one["kind"] == "logs" and one.get("outcome") != "failed"]
    if not (apart and calm):
        return ""
    said = "tell of no failure" if any(one.get("done", True) for one in calm) else "only stop"
    return f"; the logs {said}, and nothing links the two"


_AGAIN = frozenset(
    {
        EventType.RAISED,
        EventType.THREAD_DIED,
        EventType.CRASHED,
        EventType.KERNEL_FAILED,
        EventType.GPU_MEMORY,
        EventType.CALLED_OTHER,
        EventType.NOT_IN_COLLECTIVE,
        EventType.COULD_NOT_START,
        EventType.STORAGE,
        EventType.FULL,
        EventType.DAMAGED,
        EventType.REFUSED,
        EventType.NON_FINITE,
        EventType.KILLED_FOR_MEMORY,
        EventType.STUCK,
        EventType.SLOW,
    }
)

_BROKEN = frozenset(
    {EventType.DEVICE_LOST, EventType.HOST_FAILED, EventType.NODE_DOWN, EventType.HARDWARE}
)


def restart(
    incident: Incident[Event], documents: Sequence[Document], runs: Runs
) -> tuple[str, str] | None:
    """Return whether to start the job again, and why; None where nothing failed."""
    if not incident.roots or beside_calm_logs(incident, documents):
        return None
    roots = [incident.events[root] for root in incident.roots]
    alike = max(
        (a.get("alike", 1) for d in documents for a in [d.get("attempts") or {}] if _is_map(a)),
        default=1,
    )
    alike = max(alike, runs.alike) if isinstance(alike, int) else runs.alike
    if runs.done is not None:
        return "stop", f"{Path(runs.done.run.name).name}, another run of it, ended well"
    if alike > 1:
        return "stop", f"{alike} attempts ended the same way: another one will too"
    lost = (one for one in roots if one.type in _BROKEN)
    if broken := next(lost, None):
        return "stop", f"{broken.host or 'the host'} has to be looked at first, or left out"
    if any(one.type in _AGAIN for one in roots):
        return "stop", "the cause is still there"
    if any(one.type in (EventType.EXITED, EventType.FAILED) for one in roots):
        return "restart", "nothing says that its cause stays; if it ends like this again, stop"
    return "restart", "the cause came from outside and may be gone"


def _is_map(value: object) -> bool:
    return isinstance(value, Mapping)


def next_steps(incident: Incident[Event]) -> Iterator[str]:
    """Yield what to do, the root's own steps first, nothing twice."""
    seen: set[str] = set()
    for root in incident.roots:
        for step in incident.events[root].next_steps:
            if step not in seen:
                seen.add(step)
                yield step


def would_decide(documents: Sequence[Document]) -> tuple[str, ...]:
    """Return what would settle what the evidence leaves open."""
    kinds = {one["kind"] for one in documents}
    found = []
    if "logs" not in kinds:
        found.append("the logs of all ranks (torchrun --log-dir, srun -o %t.log)")
    if "core" not in kinds:
        found.append("a core of the process that died (ulimit -c unlimited; postmortem doctor)")
    if "hang" not in kinds:
        found.append("stacks of the ranks while it hangs (postmortem hang PID --json)")
    found.append("flight-recorder dumps of all ranks (TORCH_FR_BUFFER_SIZE=2000)")
    return tuple(found)
