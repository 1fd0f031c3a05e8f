"""What the rules over rank logs say alike: who, where, and which words of theirs."""

from collections.abc import Iterable, Mapping, Sequence

from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks.attribution import Attribution, Suspect
from postmortem.diagnose.ranks.causes import Raised
from postmortem.facts.last_lines import LastLine
from postmortem.facts.rank_logs import LogFailure, LogFrame
from postmortem.facts.rank_sets import rank_words
from postmortem.facts.signature import Match, Signature
from postmortem.facts.threads import is_ours, is_own, of_c_library
from postmortem.knowledge.messages import about, briefs
from postmortem.report.model import Confidence, Evidence
from postmortem.text import some

_MOST_LABELS = 3
_BY_FRAME: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "enospc-log": ("semlock-enospc", ("multiprocessing/synchronize.py:",)),
    "error-eagain": ("threads-limit", ("fork", "subprocess.py:", "multiprocessing/popen_")),
    "error-einval": ("ckpt-central-dir", ("torch/serialization.py:",)),
}
"""What words mean by the innermost frame: a semaphore lives in /dev/shm, and on no disk."""


def ranks_words(parties: Sequence[Suspect]) -> str:
    """Return ``rank 2 on node1``, ``ranks 0 to 3``, or labels where ranks are not known."""
    if len(parties) == 1:
        return parties[0].words
    ranks = sorted(p.rank for p in parties if p.rank is not None)
    if len(ranks) != len(parties):
        shown = len(parties) if len(parties) <= _MOST_LABELS else _MOST_LABELS - 1
        return some([p.label for p in parties], shown)
    return f"ranks {rank_words(ranks)}"


def cite(blame: Attribution, above: Iterable[LastLine] = ()) -> tuple[Evidence, ...]:
    """Return the evidence of the decision, with the lines `above` it; there is always some."""
    lines = ((line.where, clip(line.text, 300)) for line in above)
    rows = tuple(Evidence(_short(where), what) for where, what in (*blame.evidence, *lines))
    return rows or (Evidence("logs", "all lines together"),)


def _short(where: str) -> str:
    """Return a place with the last folders of its path: the whole paths are under inputs."""
    parts = where.rsplit("/", 4)
    if len(parts) > 3 and parts[-3].startswith("attempt_"):
        return "/".join(parts[-3:])
    if len(parts) > 1 and parts[-1].startswith(("stderr", "stdout")):  # the folder has the rank
        return "/".join(parts[-2:])
    return parts[-1]


def how_sure(blame: Attribution) -> Confidence:
    """Return certain where nothing speaks against it."""
    return Confidence.CERTAIN if blame.sure else Confidence.LIKELY


_GENERATED = "<string>"
"""What dataclasses and named tuples are made of, besides ``python -c``."""


def own_frame(failure: LogFailure | None) -> LogFrame | None:
    """Return the innermost frame of the user's own code, else the innermost of all."""
    if failure is None or not failure.frames:
        return None
    if failure.group is not None:
        inside = [f for f in failure.group.first.frames if is_own(f.file)]
        if inside:
            return inside[-1]
    own = [f for f in failure.frames if is_own(f.file)]
    own = [f for f in own if f.file != _GENERATED] or own
    rest = own or [f for f in failure.frames if not is_ours(f.file)] or failure.frames
    return rest[-1]


def possible_steps(blame: Attribution, steps: Iterable[str]) -> tuple[str, ...]:
    """Return the steps without those that look into a process, where all of `first` have ended."""
    over = bool(blame.first) and all(one.exit is not None for one in blame.first)
    return tuple(step for step in steps if step and not (over and "PID" in step))


def known_cause(failure: LogFailure | None) -> Signature | None:
    """Return what the knowledge base says of a failure of a rank's own, if it knows its words.

    What these name stands in its steps: the number in place of ``PID``.
    """
    match = known_match(failure)
    return about(match) if match is not None else None


def known_match(failure: LogFailure | None) -> Match | None:
    """Return the words that tell why, the error's own first; those of a root before all others."""
    if failure is None:
        return None
    table = briefs()
    told = [m for said in (failure.said, *failure.causes) for m in said.matches]
    inner = failure.frames[-1] if failure.frames else None
    place = f"{inner.file}: {inner.code}".replace("\\", "/") if inner is not None else ""
    for match in told:
        name, places = _BY_FRAME.get(match.id, ("", ()))
        if any(part in place for part in places):
            return Match(name, {})
    told = [m for m in told if "log" in table[m.id].where]
    for role in ("root", "contributing"):
        for match in told:
            if table[match.id].role == role:
                return match
    return None


def at_frame(failure: LogFailure | None) -> str:
    """Return `` (train.py:31 in step)`` or nothing."""
    frame = own_frame(failure) or _native_frame(failure)
    return f" ({_placed(frame)})" if frame is not None else ""


def in_call(failure: LogFailure) -> str:
    """Return a sentence on the call in which native code crashed, where that is a library's."""
    inner = failure.frames[-1] if failure.kind == "fatal" and failure.frames else None
    if inner is None or inner == own_frame(failure):
        return ""
    return f" The innermost Python call is {_placed(inner)}."


def _placed(frame: LogFrame) -> str:
    name = frame.file.replace("\\", "/").rsplit("/", 1)[-1]
    function = clip(frame.function, 40) if frame.function else ""
    within = f" in {function}" if function not in ("", "<module>") else ""
    return f"{clip(name, 40)}:{frame.line}{within}"


def _native_frame(failure: LogFailure | None) -> LogFrame | None:
    """Return the innermost native frame with a line of source that is not the C library's."""
    for frame in failure.native if failure is not None else ():
        if frame.file and frame.line and not of_c_library(frame.file):
            return LogFrame(frame.file, frame.line, frame.function)
    return None


def torchrun_words(blame: Attribution) -> str:
    """Return a sentence where torchrun named another rank as the root cause."""
    guilty = {p.rank for p in blame.first}
    wrong = [rank for rank in blame.blamed if rank not in guilty]
    if not wrong or not guilty - {None}:
        return ""
    said = "rank" if len(wrong) == 1 else "ranks"
    return (
        f" torchrun calls {said} {rank_words(wrong)} the root cause; it names the failure that its "
        "agent on each host saw first."
    )


def advice(failure: LogFailure | None) -> tuple[str, ...]:
    """Return what the message of an error advises itself, as a step; nothing without any."""
    for said in (failure.said, *failure.causes) if failure is not None else ():
        found = said.match("error-advises")
        if found is not None:
            text = f"{said.exception}: {said.message}"
            words = " ".join(text[text.find(found["what"]) :].split())  # with the lines below it
            return (f"what the message itself says: {clip(words, 300)}",)
    return ()


def shown_failure(blame: Attribution) -> LogFailure | None:
    """Return the failure to look at: of a thread that died above, where that one ended all."""
    child = blame.cause.child if isinstance(blame.cause, Raised) else None
    if child is not None and child.kind == "thread":
        return child
    return blame.first[0].failure if blame.first else None


def look_at(blame: Attribution) -> tuple[str, ...]:
    """Return the next step that shows the culprit's own lines; nothing where they are shown."""
    failure = shown_failure(blame)
    if failure is None:
        return (
            "read the culprit's last lines: postmortem logs --split DIR writes one file per rank",
        )
    whole = failure.kind != "exception" or failure.frames or failure.line > failure.begin_line
    if failure.shown or not whole:
        return ()
    where = "standard input" if failure.file == "-" else clip(failure.file, 160)
    return (f"read its traceback: {where} line {failure.begin_line or failure.line}",)
