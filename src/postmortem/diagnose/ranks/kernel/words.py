"""What the rules over kernel logs say alike."""

from collections.abc import Sequence

from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks.attribution import Attribution, Suspect
from postmortem.diagnose.ranks.kernel_matches import KernelMatch
from postmortem.diagnose.ranks.phrases import cite, how_sure, ranks_words, torchrun_words
from postmortem.diagnose.rule import Evidence, Finding
from postmortem.facts.kernel_log import MOST_COUNTED, Fault, KernelKind
from postmortem.facts.signature import Signature
from postmortem.knowledge.messages import briefs, explained
from postmortem.knowledge.xids import Xid, xid

MOST_CITED = 6


def decided_by(blame: Attribution, *kinds: KernelKind) -> KernelMatch | None:
    """Return the line that decides, if it is of one of these kinds."""
    if blame.tie is None or not blame.first:
        return None
    return blame.tie if blame.tie.event.kind in kinds else None


def _known(tie: KernelMatch) -> Signature | Xid | None:
    """Return what the knowledge base says of the line."""
    event = tie.event
    if event.number is not None and event.signature == "xid":
        return xid(event.number)
    return explained(event.signature) if event.signature in briefs() else None


def meaning(tie: KernelMatch) -> str:
    """Return what the line means."""
    known = _known(tie)
    return known.cause if known else ""


def steps_of(tie: KernelMatch) -> tuple[str, ...]:
    """Return what to do about the line."""
    known, pid = _known(tie), tie.event.pid
    steps = known.next_steps if known else ()
    return steps if pid is None else tuple(s.replace("PID", f"{pid}") for s in steps)


def joined(tie: KernelMatch) -> str:
    """Return how the line is known to be of the rank, as a sentence."""
    if not tie.why:
        return ""
    doubt = "" if tie.sure else "; no line says which host that was"
    return f" What links the two: {tie.why}{doubt}."


def storage_ties(blame: Attribution) -> list[KernelMatch]:
    """Return the lines on disks and file servers of the host of a rank that failed at a file."""
    first = {party.rank for party in blame.first}
    if not any(_at_file(party) for party in blame.first):
        return []
    kinds = (KernelKind.DISK, KernelKind.NETWORK_FS)
    return [tie for tie in blame.ties if tie.event.kind in kinds and first & set(tie.ranks)]


def _at_file(party: Suspect) -> bool:
    bus_error = party.failure is None and party.exit is not None and party.exit.signal == "SIGBUS"
    return bus_error or _says(party, "error-of-files")


def _says(party: Suspect, name: str) -> bool:
    """Whether the error of a party has the words of a message."""
    return party.failure is not None and party.failure.said.match(name) is not None


def program_ties(blame: Attribution) -> list[KernelMatch]:
    """Return the errors of GPUs that go with a CUDA error of who failed first."""
    if blame.tie is not None or not any(_says(party, "error-of-cuda") for party in blame.first):
        return []
    first = {party.rank for party in blame.first}
    return [
        tie
        for tie in blame.ties
        if tie.event.kind is KernelKind.GPU
        and tie.event.fault is Fault.PROGRAM
        and first & set(tie.ranks)
    ]


def cite_tie(tie: KernelMatch) -> Evidence:
    """Return a line of the kernel's log as evidence."""
    event = tie.event
    least = "at least " if event.count >= MOST_COUNTED else ""
    times = f" ({least}{event.count:,} times)" if event.count > 1 else ""
    host = f"{event.host}: " if event.host else ""
    where = f"{event.file.rpartition('/')[2]}:{event.line}"
    return Evidence(where, clip(f"{host}{event.text}{times}", 300))


def cite_all(blame: Attribution) -> tuple[Evidence, ...]:
    """Return the evidence of a decision by the kernel's log, its own line first."""
    rest = cite(blame)[1:]
    return (cite_tie(blame.tie), *rest) if blame.tie is not None else rest


def decided(
    blame: Attribution, tie: KernelMatch, title: str, cause: str, steps: Sequence[str] = ()
) -> Finding:
    """Return what is told of ranks of which a line of the kernel's log decides."""
    return Finding(
        lead=ranks_words(blame.first),
        title=title,
        cause=f"{cause}{joined(tie)}{torchrun_words(blame)}",
        confidence=how_sure(blame),
        next_steps=tuple(steps or steps_of(tie)),
        evidence=cite_all(blame),
    )
