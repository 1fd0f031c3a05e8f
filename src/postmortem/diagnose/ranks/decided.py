"""Rules of one shape: what was decided says all; what they say of it is a table's."""

from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks import causes
from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.ranks.jammed import jam_finding
from postmortem.diagnose.ranks.phrases import (
    at_frame,
    cite,
    how_sure,
    look_at,
    possible_steps,
    ranks_words,
    torchrun_words,
)
from postmortem.diagnose.rule import Confidence, Finding, Findings
from postmortem.diagnose.rule_rows import Row, Rows, rules_of
from postmortem.knowledge.lookup import lines_of
from postmortem.text import shell_word


def _case(cause: causes.Cause) -> str:
    """Return which case of its type a cause is: the table has cases of these alone."""
    match cause:
        case causes.CouldNotStart() | causes.NeverJoined():
            return cause.fault
        case causes.Undecided():
            return cause.doubt
        case causes.NamedMissing():
            return cause.by
        case causes.WaitsElsewhere():
            return "one group" if cause.if_one_group else "any group"
        case causes.LeftEarly():
            return "told" if cause.told else "numbered" if cause.numbered else "unnumbered"
        case causes.SilentAlone():
            seen = "halted" if cause.waited_for else "alone"
            silent = "here" if cause.here else "silent"
            return seen if cause.halted else "stood" if cause.at else silent
        case causes.OtherText():
            return cause.kind
        case causes.HostFailed():
            return cause.by
    return ""


def _words(row: Row, told: Row, blame: Attribution) -> dict[str, str]:
    """Return what the texts of a rule may name."""
    words = {"who": ranks_words(blame.first) if blame.first else row.get("nobody", "")}
    words["torchrun"] = torchrun_words(blame)
    words["look_at"] = "".join(look_at(blame))
    one = len(blame.first) == 1
    words |= {"they": "it" if one else "they", "their": "its" if one else "their"}
    words["does"] = told.get("one" if one else "many", "")
    if blame.first:
        first = blame.first[0]
        words |= {"why": first.why, "why_long": clip(first.why, 300), "at": at_frame(first.failure)}
    match blame.cause:
        case causes.CouldNotStart() as cause:
            words["said"] = clip(cause.said, 300)
            words["host"] = cause.host or row.get("host", "")
            words["of_host"] = f": {clip(cause.host, 60)}" if cause.host else ""
            words["at_host"] = f" at {cause.host}" if cause.host else ""
            words["on_host"] = f" on {clip(cause.host, 40)}" if cause.host else ""
            words["why_so"] = f": {clip(cause.why, 60)}" if cause.why else ""
            words["port"] = cause.port or "PORT"
            words["of_port"] = f": {cause.port}" if cause.port else ""
            words["of_program"] = f": {clip(cause.program, 50)}" if cause.program else ""
            words["of_program"] += f" ({cause.why})" if cause.why else ""
            words["program"] = shell_word(cause.program or "FILE")
            words["interface"] = clip(cause.interface or "unknown", 40)
        case causes.CalledOther() | causes.WaitsElsewhere() as cause:
            words["most"] = cause.most
        case causes.SilentAlone() as cause:
            words["at"] = cause.at
        case causes.NeverANumber() as cause:
            words["quantity"], words["value"] = clip(cause.quantity, 40), cause.value
            line = f"{cause.step} (line {cause.line})" if cause.step else f"line {cause.line}"
            words["since"] = f"or before {line}" if cause.earlier else line
        case causes.HostFailed() as cause:
            words["by"] = cause.by
            words["failed_host"] = clip(cause.host, 60)
            words["host"] = shell_word(words["failed_host"])
            who = words["who"]
            words["there"] = f" {who[:1].upper()}{who[1:]} ran there." if who else ""
        case causes.OtherText() as cause:
            words["frame"] = cause.frame
            place = blame.evidence[0][0] if blame.evidence else ""
            words["file"] = shell_word(place.rpartition(":")[0] or "FILE")
        case causes.Undecided():
            some = blame.candidates
            words["candidates"] = ranks_words(some)
            words["whys"] = " and ".join(dict.fromkeys(clip(p.why, 60) for p in some[:2]))
            words["errors"] = "; ".join(f"{p.words}: {clip(p.why, 120)}" for p in some[:4])
    return words


def _confidence(asked: str, blame: Attribution) -> Confidence:
    if asked == "sure":
        return how_sure(blame)
    if asked == "one":
        return Confidence.LIKELY if len(blame.first) == 1 else Confidence.POSSIBLE
    return Confidence(asked)


def _finding(row: Row, means: Rows, blame: Attribution) -> Findings:
    if "culprits" in row:
        yield from jam_finding(blame, lines_of(row["culprits"]), lines_of(row["next_steps"]))
        return
    case, cases = _case(blame.cause), lines_of(row.get("cases", ""))
    if type(blame.cause).__name__ not in lines_of(row["causes"]) or (cases and case not in cases):
        return
    if row.get("first") and not blame.first:
        return
    told = means.get(case, {})
    words = _words(row, told, blame)
    words |= {key: str(text).format_map(words) for key, text in told.items()}
    steps = (step.format_map(words) for step in lines_of(row["next_steps"]))
    yield Finding(
        lead=words["who"] if row.get("lead") else "",
        title=row["title"].format_map(words),
        verdict=row["verdict_at_frame"].format_map(words) if words.get("frame") else None,
        cause=row["cause"].format_map(words),
        confidence=_confidence(told.get("confidence", row["confidence"]), blame),
        next_steps=possible_steps(blame, steps),
        evidence=cite(blame),
    )


RULES = rules_of("decided.toml", "case", _finding)
