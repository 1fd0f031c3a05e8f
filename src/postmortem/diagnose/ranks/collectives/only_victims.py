"""All errors are about a peer, and nothing tells which peer began.

What it means
    Time-outs and closed connections are consequences. The cause is with a rank whose lines
    are not here, or that ended without a word.
How to be sure
    No line of these logs is an error of the rank that wrote it.
What to do
    Give the logs of all hosts and ranks, and the number of ranks (--world-size).
"""

from typing import assert_never

from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.ranks.cause_kinds import Doubt
from postmortem.diagnose.ranks.causes import Undecided
from postmortem.diagnose.ranks.phrases import at_frame, cite, known_cause, ranks_words
from postmortem.diagnose.rule import Confidence, Finding, Findings, Role, rule

_STEPS = (
    "give the logs of all hosts and ranks, also standard output, and --world-size N",
    "TORCH_FR_BUFFER_SIZE=2000 and TORCH_DISTRIBUTED_DEBUG=DETAIL next time decide it",
)
_UNSEEN = (
    "give the stack and the log of that rank; of one that is gone, how it ended (dmesg -T, sacct)",
    "py-spy dump --native --pid PID  of it, where it still runs: what keeps it from the call?",
)
_OF_NAMED = (
    "give the log of that rank: what did it wait for, and since when?",
    "give the flight records that all ranks wrote then: they tell whom it waited for",
)
_OF_CUT = (
    "give the log as far as it goes: the last line of that traceback says what failed",
    "where the log itself ends so, its process was ended at once: dmesg -T, sacct -j JOB",
)
_OF_LATE = (
    "what does that rank alone do: a checkpoint, an evaluation, a slow disk? Look at its host then",
    "a longer timeout= of init_process_group lets it come; py-spy dump of it meanwhile tells more",
)
_WITHOUT_RANKS = (
    "give the whole log: the cause may stand above what was copied",
    "give the log of the process or container that the line speaks of",
)


@rule(
    "https://pytorch.org/docs/stable/elastic/errors.html",
    role=Role.CASCADE,
    yields_to=("one_bad_peer", "interface_of_one_host"),
)
def only_victims(blame: Attribution) -> Findings:
    if not isinstance(blame.cause, Undecided):
        return
    who, more = ranks_words(blame.candidates), blame.cause.more
    who = f"{who} and {more} more" if more else who
    told = _told(blame.cause.doubt, who, len(blame.candidates))
    if told is None:
        return
    title, cause = told
    steps: tuple[str, ...] = _STEPS
    verdict = None
    if blame.cause.doubt is Doubt.PEERS and blame.evidence and not _ranks(blame):
        failure = blame.candidates[0].failure if blame.candidates else None
        own = failure.said if failure is not None and failure.said.exception else None
        said = own.words if own is not None else blame.evidence[0][1]
        known = known_cause(failure)
        title = f"what ended it stands elsewhere: {said}"
        verdict = clip(f"undecided: {title}", 240)
        cause = "The line that comes nearest only says that another process is gone"
        cause = f"{cause}. {known.cause}" if known is not None else f"{cause}, and not why."
        steps = (*(known.next_steps if known is not None else ()), *_WITHOUT_RANKS)
    if blame.cause.doubt is Doubt.UNSEEN:
        steps = _UNSEEN
    if blame.cause.doubt is Doubt.LATE:
        steps = _OF_LATE
    if blame.cause.doubt is Doubt.CUT:
        steps = _OF_CUT
        title = clip(f"{title}{at_frame(blame.candidates[0].failure)}", 100)
    if blame.cause.doubt in (Doubt.NAMED, Doubt.AWAITED):
        steps = _OF_NAMED
    silent = blame.cause.doubt in (Doubt.SILENT, Doubt.UNSEEN)
    yield Finding(
        title=title,
        verdict=clip(title, 100) if silent else verdict,
        cause=cause,
        confidence=Confidence.POSSIBLE,
        next_steps=steps,
        evidence=cite(blame),
    )


def _ranks(blame: Attribution) -> bool:
    """Return whether any candidate is more than a file, or one process that no rank is known of."""
    return len(blame.candidates) > 1 or any(one.rank is not None for one in blame.candidates)


def _told(doubt: Doubt, who: str, count: int) -> tuple[str, str] | None:
    """Return a title and a cause; None where another rule speaks of the doubt."""
    match doubt:
        case Doubt.SILENT if count == 1:
            return (
                f"undecided: {who} is silent, and others may be missing",
                f"{who} has no error while others wait for a peer; more ranks may be missing.",
            )
        case Doubt.SILENT:
            return (
                f"undecided among {who}, which are silent",
                f"{who} have no error while others wait for a peer: one of them began.",
            )
        case Doubt.UNSEEN:
            return (
                f"undecided: of {who} there is no stack, and all others wait in one collective",
                f"The others likely wait for {who}. A job that runs looks so for a moment: the "
                "same stacks some seconds later are a hang.",
            )
        case Doubt.CUT:
            return (
                f"the log is cut off in a traceback of {who}",
                f"the traceback of {who} is cut off before its last line, which says what failed.",
            )
        case Doubt.ENDS:
            return (
                f"{who} ended badly, and no log says why",
                f"launchers say that {who} ended badly, and no log says why.",
            )
        case Doubt.NAMED:
            return (
                f"a collective of {who} timed out first, and no error here is of that rank",
                "The others were told of it and only wrote their records. That rank waited "
                "for a peer too: which one, and why, no line here says.",
            )
        case Doubt.AWAITED:
            return (
                f"others waited for {who}, and no error here is of that rank",
                "The errors name the rank that did not come in time. Why it did not, no line here "
                "says.",
            )
        case Doubt.HOST:
            return (
                f"others lost {who}, and no line here is of that host",
                "The errors name the host whose connections closed. Why they did, no line here "
                "says.",
            )
        case Doubt.LATE:
            return (
                f"{who} may have come when the others had given up",
                f"all others waited until their time was up, and {who} found them gone: it likely "
                "came late. What kept it, no line here says.",
            )
        case Doubt.PEERS:
            verb = "reports" if count == 1 else "report"
            return (
                f"only victims: {who} lost a peer",
                f"{who} only {verb} that a peer was lost or late; no line here says why.",
            )
        case (
            Doubt.ERRORS | Doubt.COLLECTIVES | Doubt.SIZES | Doubt.SITES | Doubt.STACKS | Doubt.JAM
        ):
            return None
        case never:
            assert_never(never)
