"""What is left where no form that is known tells of a failure: the last lines."""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import takewhile

from postmortem import thresholds
from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks.attribution import Attribution, Suspect
from postmortem.diagnose.ranks.batch_jobs import last_run
from postmortem.diagnose.ranks.cause_kinds import Doubt
from postmortem.diagnose.ranks.causes import NeverANumber, OtherText, SaidLast, Undecided
from postmortem.diagnose.ranks.deciding.case import MOST_CANDIDATES, Case, cited, cited_line
from postmortem.diagnose.ranks.deciding.ends import quotes
from postmortem.diagnose.ranks.deciding.network import network_before
from postmortem.diagnose.ranks.deciding.startup import said_bare
from postmortem.diagnose.ranks.deciding.stops import outlived_stops
from postmortem.diagnose.ranks.deciding.watchdogs import named_by_peers, watched
from postmortem.diagnose.stacks.activity import where
from postmortem.facts.exits import RUN
from postmortem.facts.last_lines import LastLine, LastLines, Watched
from postmortem.facts.rank_logs import LogFailure, RankLogs
from postmortem.knowledge.messages import briefs
from postmortem.records import replace

_MOST = 4
_MOST_BETWEEN = 3
"""Lines from an error to a traceback that is told because of it."""
_MOST_CLOSING = 8
"""Lines of all ranks, from an error to the last line of who wrote it."""


def said_last(case: Case) -> Attribution | None:
    """Return whose last lines read like an error, or are of numbers that are none."""
    told = {end.file for end in case.logs.exits if end.launcher == RUN}
    over, went_on = outlived_stops(case), _others_went_on(case.logs)
    over_by_logs = any(one.ended or one.done for one in case.logs.last_lines)
    ends = [
        one
        for one in case.logs.last_lines
        if one.last.file not in told and one.last.where not in over
        if not went_on(one) and not (one.kind == "events" and over_by_logs)
    ]
    if _all_ended_with_0(case.logs):
        return None
    wrong = sorted(
        (one for one in ends if one.errors), key=lambda one: (one.about_peer, not one.plain)
    )
    if wrong:
        lost, memory = _lost_workers(case.logs), case.logs.said_memory
        said = next((line for line in wrong[0].errors if line.where in lost), wrong[0].errors[0])
        parties = tuple(_party(case, one) for one in wrong[:_MOST])
        evidence = tuple(cited_line(line) for one in wrong[:_MOST] for line in one.errors[:3])
        if all(one.about_peer for one in wrong):
            peers = Attribution(Undecided(Doubt.PEERS), candidates=parties, evidence=evidence)
            return named_by_peers(case) or warned_itself(case, said.text) or peers
        if wrong[0].form == "nccl" and (own := warned_itself(case, said.text, "nccl")):
            return own
        broke = network_before(case, said)
        if broke is not None:
            return broke
        silent = _silent_before(case, ends, said)
        if silent is not None:
            return silent
        above = wrong[0].above
        if above is not None:
            evidence = (*evidence, cited_line(above))
        cut = "(most recent call last):" in said.text and wrong[0].last != said
        framed = wrong[0].nearest_by == "frame"
        if (cut or framed) and (whole := wrong[0].nearest) is not None:
            cause = SaidLast(whole.text, plain=False, behind=True, known=wrong[0].known)
            return Attribution(cause, candidates=parties, evidence=(cited_line(whole), *evidence))
        if framed:
            return Attribution(Undecided(Doubt.CUT), candidates=parties, evidence=evidence)
        words = f"a traceback that is cut: {wrong[0].last.text.strip()}" if cut else said.text
        cause = SaidLast(
            words,
            wrong[0].plain,
            form=wrong[0].form,
            above=above.text.strip() if above is not None else "",
            first=all(one.first for one in wrong),
            known=wrong[0].known,
            memory=memory.text if memory is not None and said.where in lost else "",
        )
        return Attribution(cause, candidates=parties, evidence=evidence)
    bad = [one for one in ends if one.not_a_number is not None]
    if bad:
        first = bad[0].not_a_number
        assert first is not None
        one = bad[0]
        never = NeverANumber(one.quantity, one.value, first.text, first.line, one.earlier, one.step)
        return Attribution(never, evidence=tuple(_numbers(bad[:_MOST])))
    other = [one for one in ends if one.kind not in (None, "events")]
    if other and len(other) == len(ends):
        kind = other[0].kind
        assert kind is not None
        at = other[0].stopped_in
        frame = clip(at.text, 200) if at is not None else ""
        crashed = any(failure.match("gdb-crash") for failure in case.logs.failures)
        blame = left_open(case) if crashed else None
        return blame or Attribution(
            OtherText(kind, frame), evidence=(cited_line(at or other[0].last),)
        )
    near = [one.nearest for one in ends if one.nearest is not None and one.nearest_counts]
    if near:
        evidence = tuple(cited_line(line) for line in near[:_MOST])
        if all(one.about_peer for one in ends if one.nearest_counts):
            peers = Attribution(Undecided(Doubt.PEERS), evidence=evidence)
            return named_by_peers(case) or warned_itself(case, near[0].text) or peers
        parties = tuple(_party(case, one) for one in ends if one.nearest is near[0])
        if any(one.nearest_by == "frame" for one in ends if one.nearest is near[0]):
            return Attribution(Undecided(Doubt.CUT), candidates=parties, evidence=evidence)
        told_by = next(one for one in ends if one.nearest is near[0])
        if told_by.form == "nccl" and (own := warned_itself(case, near[0].text, "nccl")):
            return own
        known = told_by.known
        cause = SaidLast(near[0].text, plain=False, behind=True, known=known)
        return Attribution(cause, evidence=evidence)
    return None


def _silent_before(case: Case, ends: Sequence[LastLines], later: LastLine) -> Attribution | None:
    """Return the rank that fell silent soon behind an error, before another one's last words."""
    for one in ends:
        near = one.nearest
        if near is None or one.errors or one.about_peer:
            continue
        closing = one.last.line - near.line <= _MOST_CLOSING and one.last.line < later.line
        party = _party(case, one)
        if closing and one.last.file == later.file and party.rank is not None:
            cause = SaidLast(near.text, plain=False, behind=True, known=one.known)
            return Attribution(cause, (party,), evidence=(cited_line(near), cited_line(later)))
    return None


def spoke_itself(case: Case) -> Attribution | None:
    """Return the rank whose log ends with an error, where all others only wait for a peer."""
    waits = watched(case)
    silent = {
        (s.writer.label, s.writer.host)  # an actor has no rank
        for s in case.ranks
        if s.silent and not s.ended_by_launcher and s.rank not in waits
    }
    if not case.ranks:  # files of which none names its rank
        raised = {failure.writer for failure in case.logs.failures}
        quiet = (one.writer for one in case.logs.last_lines if one.writer not in raised)
        silent = {(who.label, who.host) for who in map(case.logs.who, quiet)}
    said = [
        (one, party)
        for one in case.logs.last_lines
        if one.errors and not one.about_peer
        if ((party := _party(case, one)).label, party.host) in silent
    ]
    if len(said) != 1 or not any(s.about_peers or s.startup for s in case.all) or said_bare(case):
        return None
    one, party = said[0]
    cause = SaidLast(one.errors[0].text, one.plain, form=one.form, known=one.known)
    return Attribution(cause, (party,), evidence=tuple(map(cited_line, one.errors[:3])))


def warned_itself(case: Case, word: str, form: str = "peers") -> Attribution | None:
    """Return NCCL's first warning that is about no peer, where all below tells of a lost one.

    Or of the code alone with which a call returned. One that is known to tell what failed is first.
    """
    of_peers = ("nccl-peer", "nccl-abandoned", "comm-said")
    warned = (one for one in case.logs.remarks if one.match("nccl-warning") is not None)
    found: dict[bool, Attribution] = {}
    for one in takewhile(lambda one: one.text != word, warned):
        roles = {briefs()[match.id].role: match.id for match in reversed(one.matches)}
        if one.match(*of_peers) is None and "cascade" not in roles:
            cause = SaidLast(one.text, True, form=form, word=word, known=roles.get("root", ""))
            told = Attribution(cause, evidence=((one.where, one.text),))
            found.setdefault("root" in roles, told)
    return found.get(True) or found.get(False)


def said_above(one: Watched) -> Attribution:
    """Return what a program said before somebody who watched it told that it failed."""
    said = one.said[0]
    cause = SaidLast(said.text, one.plain or one.near, known=one.known, word=one.word.text)
    return Attribution(cause, evidence=tuple(map(cited_line, (*one.said, one.word))))


def only_a_stack(case: Case) -> Attribution | None:
    """Return where the one stack stands that gdb's `bt` wrote: of a crash, or of who lives."""
    stacks = case.logs.stacks
    if case.logs.files or stacks is None or len(stacks) != 1:
        return None
    one = stacks.items[0].members[0]
    if one.tool != "gdb" or one.thread.tid:
        return None
    place = where(one.thread, None)
    first = one.thread.frames[0].function
    return Attribution(OtherText("stack", place), evidence=((one.where, f"#0 {first}"),))


def _lost_workers(logs: RankLogs) -> set[str]:
    """Return where lines tell of workers that are gone."""
    return {r.where for r in logs.remarks if r.match("dataloader-workers") is not None}


def cut_off(case: Case) -> Attribution | None:
    """Return whose log ends within a traceback."""
    states = {id(s.writer): s for s in case.all}
    ends = (end for end in case.logs.exits if end.launcher == "torchrun")
    raised = {(end.file, end.line + 1) for end in ends}  # by the agent, as it gives up
    cut = [
        (s, f)
        for f in case.logs.failures
        if not f.said.exception
        and not f.causes
        and (f.file, f.begin_line) not in raised
        and f.lines_after <= thresholds.CAUGHT_LINES
        and f.work is None
        and (s := states.get(id(case.logs.who(f.writer)))) is not None
    ]
    of_threads = all(f.kind == "thread" for _, f in cut)
    over = of_threads and any(one.done or one.ended for one in case.logs.last_lines)
    if not cut or _told_last(case) or over:
        return None
    some = tuple(s.party("its traceback is cut off", f) for s, f in cut[:MOST_CANDIDATES])
    quoted = [(s, f) for s in case.ranks if s.exit for _, f in cut if quotes(s.exit, f)]
    if quoted:
        whose = tuple(s.party("its traceback is cut off", f) for s, f in quoted)
        return Attribution(Undecided(Doubt.CUT), candidates=whose, evidence=cited(whose))
    above = _peer_above(case, cut[0][1])
    if above:
        return Attribution(Undecided(Doubt.PEERS), candidates=some[:1], evidence=above)
    whole = whole_above(case.logs, cut[0][1])
    if whole is not None:
        return replace(whole, evidence=(*whole.evidence, *cited(some)[:2]))
    return Attribution(Undecided(Doubt.CUT), candidates=some, evidence=cited(some))


def _peer_above(case: Case, cut: LogFailure) -> tuple[tuple[str, str], ...]:
    """Return where a whole error above a cut one says that a peer is gone: that says more."""
    return tuple(
        cited_line(one.nearest)
        for one in case.logs.last_lines
        if one.nearest is not None and one.about_peer and one.nearest.file == cut.file
    )[:1]


def _told_last(case: Case) -> bool:
    """Whether the last line of anybody is an error of its own: that says more than half a stack."""
    went_on = _others_went_on(case.logs)
    return any(
        one.plain and not one.about_peer and not went_on(one) for one in case.logs.last_lines
    )


def whole_above(logs: RankLogs, cut: LogFailure, *, near: bool = False) -> Attribution | None:
    """Return the error that stands whole above a traceback that is cut off, or of a lost peer.

    A level or a word makes a line one right above it, and nothing else counts where that is asked.
    """
    for one in logs.last_lines:
        said = one.errors[0] if one.errors else one.nearest
        if (
            said is None
            or one.nearest_by not in ("form", "word")
            or one.form
            or said.file != cut.file
        ):
            continue
        last = max((line.line for line in one.errors), default=said.line)
        right_above = 0 < cut.begin_line - last <= _MOST_BETWEEN
        far = not near and one.nearest_by == "form"
        if said.line < cut.begin_line and not one.about_peer and (right_above or far):
            cause = SaidLast(said.text, right_above, behind=not right_above, known=one.known)
            return Attribution(cause, evidence=(cited_line(said),))
    return None


def left_open(case: Case) -> Attribution | None:
    """Return the last error that nothing tells to have been survived: no work, and no good end.

    What was logged, or ended a thread, was, where much was written behind it; or a little, where
    the same had come in the same place before. Who survived one had survived those above.
    """
    over = any(one.done or one.ended for one in case.logs.last_lines)
    ways_out = ("ignored", "thread") if over else ("ignored",)
    times = Counter((f.writer, f.frames, f.said.exception) for f in case.logs.failures)

    def outlived_one(f: LogFailure) -> bool:
        again = times[f.writer, f.frames, f.said.exception] > 1
        most = thresholds.CAUGHT_LINES if again else thresholds.CAUGHT_LINES_OF_FAILED
        return (f.logged or f.kind == "thread") and f.lines_after > most

    by_line = sorted(case.logs.failures, key=lambda f: f.line)
    lasts = {(f.file, f.writer): f for f in by_line if f.kind not in ways_out}
    found = [f for f in lasts.values() if f.work is None and not outlived_one(f)]
    if not found or ended_well(case.logs):
        return None
    last = max(found, key=lambda f: f.line)
    said = last.said.words if last.said.exception else last.text.split("\n", 1)[0]
    evidence = ((last.where, clip(said, 300)),)
    return Attribution(SaidLast(said, plain=False, behind=True), evidence=evidence)


def ended_well(logs: RankLogs) -> bool:
    """Return whether launchers say that all ended with 0, or each writer that it is done.

    As a launcher's word counts that of a batch system on the jobs of the last run.
    """
    if logs.exits:
        return _all_ended_with_0(logs)
    if logs.jobs:
        return all(job.code == 0 for job in last_run(logs.jobs))
    ended = any(one.ended for one in logs.last_lines)
    if not ended or logs.without_driver or any(one.errors for one in logs.last_lines):
        return False
    said = [one for one in logs.last_lines if not one.closing]
    latest = {one.last.file: one for one in sorted(said, key=lambda one: one.last.line)}
    return all(one.ended for one in latest.values())


def outlived(case: Case, blame: Attribution) -> Attribution:
    """Return a blame as less sure where the log ends, far behind it, with errors of its own.

    That is a file which several runs were written to, or a job that went on.
    """
    failure = blame.first[0].failure if blame.first else None
    if failure is None or not blame.sure:
        return blame
    for one in case.logs.last_lines:
        last = one.errors[0] if one.errors else one.nearest
        if (
            last is not None
            and last.file == failure.file
            and last.line > failure.line + thresholds.END_LINES
        ):
            where, said = cited_line(last)
            also = (where, f"the log ends with another error: {said}")
            return replace(blame, sure=False, evidence=(*blame.evidence, also))
    return blame


def _all_ended_with_0(logs: RankLogs) -> bool:
    return bool(logs.exits) and not any(e.is_bad for e in logs.exits)


def _others_went_on(logs: RankLogs) -> Callable[[LastLines], bool]:
    """Return what tells whether ranks wrote after some last lines: the job outlived what they say.

    They did where they are a launcher's; behind its errors alone they say that they came to their
    end. So may all in lines without a prefix, of which PyTorch writes one before its own. Where
    those say that it is done, a rank that finds rank 0 gone only left after it.
    """
    hosts = Counter(writer.host for writer in logs.writers)
    left = {one.where for one in logs.remarks if one.match("pgnccl-store-left")}
    latest: dict[str, int] = {}
    ended: dict[str, int] = {}
    shared: dict[str, int] = {}
    for one in logs.last_lines:
        _raise(latest, one.last)
        _raise(ended, one.ended)
        if logs.who(one.writer).shared and not one.errors:
            _raise(shared, one.ended or one.done)

    def went_on(one: LastLines) -> bool:
        if one.beside:
            return True
        who, file = logs.who(one.writer), one.last.file
        lines = [line.line for line in one.errors if line.where not in left]
        last = max(lines, default=0 if one.errors else one.last.line)
        if not who.shared or (who.host is not None and hosts[who.host] == 1):
            return shared.get(file, 0) > last  # what all of a node wrote is its program's
        return latest[file] > one.last.line or ended.get(file, 0) > last

    return went_on


def _raise(lines: dict[str, int], line: LastLine | None) -> None:
    if line is not None:
        lines[line.file] = max(line.line, lines.get(line.file, 0))


def _party(case: Case, one: LastLines) -> Suspect:
    writer = case.logs.who(one.writer)
    said = one.errors[0] if one.errors else one.nearest or one.last
    return Suspect(writer.label, writer.rank, writer.host, clip(said.text, 200))


def _numbers(bad: Sequence[LastLines]) -> list[tuple[str, str]]:
    return [cited_line(one.not_a_number) for one in bad if one.not_a_number is not None]
