"""Faults in kernel logs that nothing joins with the job's failure.

What it means
    The kernel of a host reports a fault: of another process, of another host, of another day,
    or of a kind that explains nothing here. Without any log of ranks, it is all that there is.
How to be sure
    Compare pid, host and time with those of the rank. In a container a process has other pids
    than the host's kernel knows: no pid of the job can be found in the host's log then.
What to do
    Give the logs of all ranks together with the kernel logs of all hosts.
"""

from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.ranks.kernel.words import (
    MOST_CITED,
    cite_tie,
    meaning,
    program_ties,
    steps_of,
    storage_ties,
)
from postmortem.diagnose.ranks.kernel_matches import KernelMatch, MatchKey
from postmortem.diagnose.rule import Confidence, Finding, Findings, Role, rule
from postmortem.facts.kernel_log import Fault, KernelEvent, KernelKind
from postmortem.facts.rank_logs import RankLogs
from postmortem.knowledge.xids import xid
from postmortem.text import more

_ENDS = (KernelKind.OOM_KILL, KernelKind.CRASH, KernelKind.GPU, KernelKind.MACHINE)
_CARDS = (KernelKind.PCIE, KernelKind.FABRIC)
"""Whose failure ends the work of their host. A drive without a medium gives errors too."""
_LINK = "dmesg-link-down"
"""A link goes down at a boot, too."""
_FILE_SYSTEM = "dmesg-file-system"
"""One that is damaged ends who writes to it, where a disk's error alone may pass."""
_SWITCH = "dmesg-nvswitch"
_ORDER = (
    KernelKind.MACHINE,
    KernelKind.GPU,
    KernelKind.OOM_KILL,
    KernelKind.CRASH,
    KernelKind.PCIE,
    KernelKind.FABRIC,
    KernelKind.DISK,
    KernelKind.NETWORK_FS,
    KernelKind.BLOCKED,
    KernelKind.NOTE,
)
_FOLLOWS = {Fault.AFTERMATH: 1, Fault.NONE: 2}
"""What is told behind all else: it follows from a fault, or is none."""


@rule("https://man7.org/linux/man-pages/man1/dmesg.1.html", role=Role.CONTEXT)
def kernel_log_notes(blame: Attribution, logs: RankLogs) -> Findings:
    used = blame.tie.event if blame.tie is not None else None
    left = [tie for tie in blame.ties if tie.event != used and not _spoken_of(tie, blame)]
    if not left:
        return
    # Of equals the last line: what ended a job stands at the end.
    left.reverse()
    seen = {end.pid for end in logs.exits}
    fatal = (t.event for t in left if t.event.fault is Fault.HARDWARE)
    switches = {event.host for event in fatal if event.signature == _SWITCH}
    known = {_device(t.event) for t in left if t.event.fault in (Fault.HARDWARE, Fault.PROGRAM)}
    left.sort(
        key=lambda tie: (
            tie.event.pid is None or tie.event.pid not in seen,
            _FOLLOWS.get(tie.event.fault, 0),
            _mild(tie.event),
            tie.event.signature == "xid" and _of_link(tie.event) and tie.event.host in switches,
            tie.event.signature == _LINK,
            _ORDER.index(tie.event.kind),
            # A reset is for what the driver said of the same device.
            tie.event.fault is Fault.UNKNOWN and _device(tie.event) in known - {None},
        )
    )
    tie = left[0]
    event = tie.event
    alone = not logs.writers and not logs.exits and event.fault is not Fault.NONE
    # A process that a shell or another launcher saw end, and that has no rank.
    ended = event.pid is not None and event.pid in {e.pid for e in logs.exits if e.rank is None}
    ends = event.kind in _ENDS and event.fault is not Fault.AFTERMATH and not _mild(event)
    broken = event.kind in _CARDS and event.fault is Fault.HARDWARE and event.signature != _LINK
    broken = broken or event.signature == _FILE_SYSTEM
    root = (broken and alone) or (ends and (alone or (ended and not blame.first)))
    host = f"on {event.host}: " if event.host else ""
    others = more(len(left) - 1, " ({} more)")
    crash = event.kind is KernelKind.CRASH
    process = f"{event.process} " if crash and event.process else ""
    pid = f", pid {event.pid}" if event.pid is not None else ""
    whole = f"{host}{process}{event.words}"
    words = clip(whole, 86 - len(others) - len(pid))
    yield Finding(
        title=f"kernel log: {words}{pid}{others}",
        verdict=clip(f"{whole}{pid}{others}", 240) if root else None,
        role=Role.ROOT if root else None,
        confidence=_how_sure(root=root, ended=ended),
        cause=f"{meaning(tie)} {_why_not(tie, logs, alone=alone, ended=ended)}",
        next_steps=steps_of(tie) or ("give the logs of all ranks with it",),
        evidence=tuple(cite_tie(one) for one in left[:MOST_CITED]),
    )


def _device(event: KernelEvent) -> tuple[str | None, str] | None:
    return (event.host, event.device) if event.device is not None else None


def _of_link(event: KernelEvent) -> bool:
    """Return whether a GPU only tells that its link failed: the switch behind it may have."""
    return event.number is not None and xid(event.number).reach == "link"


def _mild(event: KernelEvent) -> bool:
    """Return whether the driver says of an error of a link that nothing ends of it."""
    link = event.kind is KernelKind.FABRIC or _of_link(event)
    return link and event.fault is Fault.UNKNOWN


def _spoken_of(tie: KernelMatch, blame: Attribution) -> bool:
    """Whether another rule speaks of it."""
    if tie in storage_ties(blame) or tie in program_ties(blame):
        return True
    cause = blame.tie
    if cause is None or tie.event.host != cause.event.host:
        return False
    # What follows from it on the same host: more Xids of the GPU, a panic after a machine check.
    same = tie.event.kind is cause.event.kind and tie.event.kind is not KernelKind.OOM_KILL
    return same or tie.event.fault is Fault.AFTERMATH


def _how_sure(*, root: bool, ended: bool) -> Confidence:
    if root:
        return Confidence.CERTAIN if ended else Confidence.LIKELY
    return Confidence.POSSIBLE


def _why_not(tie: KernelMatch, logs: RankLogs, *, alone: bool, ended: bool) -> str:
    if ended:
        return f"Process {tie.event.pid} is the one whose end its launcher reported."
    if alone:
        return "No rank's log was given with it, so no rank can be named."
    event = tie.event
    if event.pid is not None and tie.by not in (MatchKey.PID, MatchKey.CHILD) and logs.pids:
        return (
            "Its pid belongs to no rank that the logs name: another process, or a rank in a "
            "container, "
            "which counts its own pids."
        )
    if tie.by is MatchKey.NOTHING and event.host:
        return f"No rank that failed is known to have run on {event.host} at that time."
    return "Nothing in the ranks' logs matches it."
