"""What happened to whom, by the logs of ranks: the events that the graph of causes joins.

Processes to which the same happened are one event, so 65,536 ranks are a dozen events.
"""

from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum

from postmortem import thresholds
from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.ranks.batch_jobs import last_run
from postmortem.diagnose.ranks.causes import (
    JobsFailed,
    ProcessEnded,
    SaidLast,
    ThreadDied,
    UnnamedProcessEnded,
)
from postmortem.diagnose.ranks.deciding.case import Case, cited, same_words
from postmortem.diagnose.ranks.deciding.ends import (
    first_to_crash,
    node_failed,
    silent_exits,
    somebody_crashed,
    unnamed_end,
)
from postmortem.diagnose.ranks.deciding.hung import not_seen, stands_elsewhere
from postmortem.diagnose.ranks.deciding.kernel import named_by_kernel
from postmortem.diagnose.ranks.deciding.last_words import said_above, said_last
from postmortem.diagnose.ranks.deciding.network import network_broke
from postmortem.diagnose.ranks.deciding.numbers import bad_elsewhere, numbers_went_bad
from postmortem.diagnose.ranks.deciding.raised import first_to_raise, somebody_raised
from postmortem.diagnose.ranks.deciding.rank_state import RankState, aborted_unheard
from postmortem.diagnose.ranks.deciding.sites import timed_out
from postmortem.diagnose.ranks.deciding.startup import not_started
from postmortem.diagnose.ranks.deciding.stops import over_limit, stopped_from_outside
from postmortem.diagnose.ranks.deciding.watchdogs import watched
from postmortem.facts.exits import RUN, LogExit
from postmortem.facts.last_lines import LastLine
from postmortem.facts.rank_logs import LogFailure, Remark
from postmortem.knowledge.messages import briefs
from postmortem.records import record, replace
from postmortem.report.model import Confidence
from postmortem.text import without_numbers

_OF_OTHERS = ("subprocess.CalledProcessError", "KeyboardInterrupt")
"""What a program raises because another one has ended, or was stopped."""


class Kind(StrEnum):
    """What happened; of several roots, the one that stands here first is told first."""

    NAMED_BY_KERNEL = "named by the kernel"
    NUMBERS = "numbers went bad"
    RAISED = "raised"
    SOMEBODY_RAISED = "an exception in lines without a name"
    HOST_FAILED = "host failed"
    CRASHED = "crashed"
    SOMEBODY_CRASHED = "a crash in lines without a name"
    CANCELLED = "a scheduler ended it, with a reason, before anything was raised"
    THREAD_DIED = "thread died"
    EXITED = "a launcher's word on ranks that ended badly"
    JOBS_FAILED = "a batch system's word on its jobs"
    STOPPED = "stopped"
    PROGRAM_ENDED = "a shell's word on its program"
    ENDED = "a launcher's word on a process without a name"
    SAID_LAST = "last words"
    SAID_ABOVE = "an error above the word of who watched"
    NOT_STARTED = "a launcher's word that it could not start a program"
    """Both are told in place of what they explain."""


@record
class LogEvent:
    """One kind of thing that happened, to one process or to several alike."""

    type: Kind
    blame: Attribution | None
    """What is told of it where it is a root; None where it alone says too little."""
    who: tuple[RankState, ...] = ()
    """Whom it happened to; of what happened to somebody, whom it may have happened to."""
    last: LogExit | LogFailure | LastLine | Remark | None = None
    """The line that tells of it last, where lines order it."""
    times: int = 1
    """How often lines that name nobody tell of it."""
    confidence: Confidence = Confidence.LIKELY

    @property
    def order(self) -> int:
        """Its place among roots."""
        return _ORDER[self.type]


_ORDER = {kind: place for place, kind in enumerate(Kind)}


_MOST_JOBS = 3


def jobs_failed(case: Case) -> Attribution | None:
    """Return the jobs of the last run that came to no good end; those that are held come first."""
    bad = [job for job in last_run(case.logs.jobs) if job.failed]
    if not bad:
        return None
    bad.sort(key=lambda job: (not job.open, not job.held, not job.why, job.line))
    evidence = tuple(
        (f"{job.file}:{job.hold_line or job.line}", clip(f"job {job.id} {job.said}", 300))
        for job in bad[:_MOST_JOBS]
    )
    return Attribution(JobsFailed(tuple(bad)), evidence=evidence)


def events(case: Case) -> tuple[LogEvent, ...]:
    """Return what happened; a dozen events at most, however many ranks there are.

    Who stopped the job and what stands last is looked for only where no rank is named, or a limit
    of memory is: it takes a look at every line that was kept.
    """
    first = tuple(event for find in _FINDERS for event in find(case))
    if any(event.type in _NAMING for event in first) and not over_limit(case):
        return first
    return (*first, *(event for find in _LAST_FINDERS for event in find(case)))


_NAMING = (Kind.NAMED_BY_KERNEL, Kind.NUMBERS, Kind.RAISED, Kind.CRASHED)


def _said_above(case: Case) -> Iterator[LogEvent]:
    """Yield the errors of programs of which somebody who watched only says that they failed."""
    for one in case.logs.watched:
        yield LogEvent(Kind.SAID_ABOVE, said_above(one), last=one.word)


def _not_started(case: Case) -> Iterator[LogEvent]:
    """Yield that a launcher could not start a program."""
    found = not_started(case)
    if found is not None:
        yield LogEvent(Kind.NOT_STARTED, found[0], last=found[1])


def _ended_saying(case: Case) -> Iterator[LogEvent]:
    """Yield how a process ended, and what reads like an error at the end of the logs.

    Who watches a program tells its code beside what that wrote: the two are one.
    """
    ended, blame = unnamed_end(case), said_last(case)
    end = ended.cause.end if ended and isinstance(ended.cause, UnnamedProcessEnded) else None
    if end is not None and end.launcher == "LSF":  # whose report stands below what a job wrote
        above = (one.word.where for one in case.logs.watched)
        ended = None if end.where in above else ended
    if ended is not None and blame is not None and isinstance(ended.cause, ProcessEnded):
        end, said = ended.cause.end, blame.cause
        if isinstance(said, SaidLast) and end.code and (end.launcher == RUN or _says_more(said)):
            blame = replace(blame, cause=replace(said, ended=end.words))
            ended = None
    if ended is not None:
        alone = isinstance(ended.cause, ProcessEnded) or any(e.memory for e in case.logs.exits)
        yield LogEvent(Kind.PROGRAM_ENDED if alone else Kind.ENDED, ended)
    if blame is not None:
        places = {where for where, _ in blame.evidence[:1]}
        word = next((one.word for one in case.logs.watched if one.word.where in places), None)
        yield LogEvent(Kind.SAID_LAST, blame, last=word)  # where it is a watcher's word


def _says_more(said: SaidLast) -> bool:
    """Return whether a last error says more than the code that who watched tells."""
    return not said.behind and said.form not in ("code", "nccl")


def _told(
    kind: Kind, find: Callable[[Case], Attribution | None]
) -> Callable[[Case], Iterator[LogEvent]]:
    """Return a finder of what is told by one attribution alone."""

    def found(case: Case) -> Iterator[LogEvent]:
        blame = find(case)
        if blame is not None:
            ranks = (case.known.get(party.rank) for party in blame.first if party.rank is not None)
            yield LogEvent(kind, blame, tuple(one for one in ranks if one is not None))

    return found


def _raised(case: Case) -> Iterator[LogEvent]:
    """Yield the exceptions of ranks; without any, those in lines that name nobody."""
    own = [(s, f) for s in case.ranks for f in _exceptions(s)[:1]]
    if own:
        who = tuple(s for s, _ in own)
        caught = _caught(case, who)
        if caught and all(f.lines_after or len(s.own) > 1 for s, f in own):
            return
        blame = first_to_raise(case, own)
        unsure = bad_elsewhere(case, who) or any(f.torn for _, f in own) or caught
        yield LogEvent(Kind.RAISED, replace(blame, sure=blame.sure and not unsure), who)
        return
    found = [(s, f) for s in case.all if s.rank is None for f in _exceptions(s)]
    # What a logger wrote, a program went on from until it was told to end.
    outlived = any(one.stopped for one in case.logs.last_lines) and all(f.logged for _, f in found)
    if found and not outlived:
        state, first = found[0] if case.several else _last_program(found)
        alike = sum(same_words(f) == same_words(first) for _, f in found)
        each = _of_series(found, first) if case.several else []
        differ = len({same_words(f) for _, f in each}) > 1
        blame = first_to_raise(case, each) if differ else somebody_raised(case, state, first, alike)
        codes = (s for s in case.failed_ends if s.exit is not None and (s.exit.code or s.exit.died))
        who = (*codes, *(s for s in case.ranks if s.aborted_mpi))
        yield LogEvent(Kind.SOMEBODY_RAISED, blame, who, first, alike)


def _of_series(
    found: Sequence[tuple[RankState, LogFailure]], one: LogFailure
) -> list[tuple[RankState, LogFailure]]:
    """Return the first error of each file that is called as that one is, but for its numbers."""
    series: dict[str, tuple[RankState, LogFailure]] = {}
    for state, failure in found:
        if _name(failure) == _name(one):
            series.setdefault(failure.file, (state, failure))
    return [*series.values()]


def _name(failure: LogFailure) -> str:
    return without_numbers(failure.file.rpartition("/")[2])


def _caught(case: Case, raised: Sequence[RankState]) -> bool:
    """Return whether workers may have caught what they raised, and the job was told to stop.

    That they have is known of those that wrote on, or raised once more.
    """
    workers = all(s.writer.rank is None and s.exit is None for s in raised)
    return workers and any(s.stopped for s in case.all if s not in raised)


def _cancelled(case: Case) -> Iterator[LogEvent]:
    """Yield that a scheduler said why it ends the job, or its script, right before any error.

    Or, before anybody raised, that torchrun was told to end: of a rank that failed it says
    otherwise. What is raised far below may be of the next run.
    """
    own = [f for s in case.all for f in _exceptions(s)]
    raised = own or [f for s in case.all for f in s.about_peers]
    if not raised:
        return
    told = (
        word
        for word in case.logs.words
        if word.why is not None
        or (own and (word.of_launcher or (word.of_job and word.launcher == "torchrun")))
    )
    last = next((word for word in told if all(_right_below(word, f) for f in raised)), None)
    if last is not None:
        yield LogEvent(Kind.CANCELLED, stopped_from_outside(case), last=last)


def _right_below(stop: LogExit, error: LogFailure) -> bool:
    lines = error.begin_line - stop.line
    return error.file == stop.file and 0 < lines <= thresholds.END_LINES


def _last_program(found: Sequence[tuple[RankState, LogFailure]]) -> tuple[RankState, LogFailure]:
    """Return the last of several exceptions that nothing caught, else the first exception.

    Such an exception ends its program: those before it were of earlier runs, or were caught. What
    began in a process of its own, or is told of one, is neither, where it is of the last run.
    """
    ends = sorted(f.line for _, f in found if f.uncaught and f.said.exception not in _OF_OTHERS)
    found = [one for one in found if one[1].line > (ends[-2] if len(ends) > 1 else 0)]
    last = [one for one in found if one[1].said.exception not in _OF_OTHERS][-1:]
    plain = all(f.uncaught or f.caught_in or f.logged for _, f in found)
    return last[0] if last and last[0][1].uncaught and plain else found[0]


def _exceptions(state: RankState) -> tuple[LogFailure, ...]:
    """Return what it raised by itself; what only follows from an error before, if that is there."""
    found = tuple(f for f in state.own if f.kind == "exception")
    return tuple(f for f in found if not _follows(f)) or found


def _follows(failure: LogFailure) -> bool:
    return {briefs()[match.id].role for match in failure.first_said.matches} == {"cascade"}


def _crashed(case: Case) -> Iterator[LogEvent]:
    """Yield who died of a signal or said why it aborts; without any, such words of nobody."""
    found = [s for s in case.all if s.is_known and s.died and not _killed_after_another(case, s)]
    said = [(s, f) for s in case.all if s.rank is None for f in s.own if f.kind != "exception"]
    waits = watched(case)
    found = [s for s in found if not (aborted_unheard(s) and s.rank in waits)]  # by its watchdog
    unheard = bool(found) and all(map(aborted_unheard, found))
    if unheard and (network_broke(case) is not None or _waited_before(case, found)):
        found = []  # they ended as the others did, in lines that are not here
    if _aborted_for_stacks(case, found):
        return
    if found:
        yield LogEvent(
            Kind.CRASHED, first_to_crash(case, found, [f for _, f in said]), tuple(found)
        )
    elif said:
        blame = somebody_crashed(case, *said[0])
        yield LogEvent(
            Kind.SOMEBODY_CRASHED, blame, case.failed_ends, last=said[0][1], times=len(said)
        )


def _waited_before(case: Case, found: Sequence[RankState]) -> bool:
    """Return whether others had waited until their time was up before torchrun saw the first end.

    Its agent ends all as soon as one has ended: who aborts behind a time-out aborts for that.
    """
    ends = [one.exit for one in found if one.exit is not None and one.exit.launcher == "torchrun"]
    waits = [failure for one in case.about_peers() for failure in one.about_peers if timed_out(one)]
    return len(ends) == len(found) and all(
        any(f.file == end.file and f.line < end.line for f in waits) for end in ends
    )


def _aborted_for_stacks(case: Case, found: Sequence[RankState]) -> bool:
    """Return whether ranks aborted without a word, and where they stood says who is awaited.

    Who waits in a collective and aborts was told to. Where one of them stands elsewhere, only all
    together were: it may have ended itself.
    """
    words = [f for s in case.all for f in (*s.own, *s.about_peers)]
    if not words or not all(f.said.match("py-faulthandler-abort") for f in words):
        return False
    if len(found) == len(case.ranks) > 1:
        return stands_elsewhere(case.logs.stacks, case.known, case.world) is not None
    return len(found) > 1 and not_seen(case) is not None


def _killed_after_another(case: Case, state: RankState) -> bool:
    """Whether a rank is killed without a word after another one ended by itself, by one clock.

    The kernel's OOM killer may choose it: that another rank failed before it is what is known.
    """
    end = state.exit
    if end is None or end.signal != "SIGKILL" or end.memory or state.own or not end.time:
        return False
    earlier = [s.exit for s in case.failed_ends if s.exit is not None and not s.exit.signal]
    return any(e.blamed and e.host == end.host and 0 < (e.time or 0) < end.time for e in earlier)


def _thread_died(case: Case) -> Iterator[LogEvent]:
    """Yield the ranks in which a thread died while the others wait for them."""
    found = tuple(s for s in case.ranks if s.threads)
    waiting = any(not s.threads for s in case.about_peers())
    if found and (waiting or any(s.exit for s in found)):
        parties = tuple(s.party(s.threads[0].said.words, s.threads[0]) for s in found)
        blame = Attribution(ThreadDied(), parties, sure=len(found) == 1, evidence=cited(parties))
        yield LogEvent(Kind.THREAD_DIED, blame, found)


def _exited(case: Case) -> Iterator[LogEvent]:
    """Yield which ranks ended badly as launchers say; those that said nothing are to be told."""
    silent = silent_exits(case)
    if silent is not None or case.failed_ends:
        yield LogEvent(Kind.EXITED, silent, case.failed_ends)


def _stopped(case: Case) -> Iterator[LogEvent]:
    """Yield that somebody stopped the job; last by whom a reason is told, or who was stopped.

    Without a reason it is what a launcher does when a process of it failed.
    """
    blame = stopped_from_outside(case)
    lines: list[LogExit | LogFailure] = [f for s in case.all for f in s.stopped]
    lines += (word for word in case.logs.words if word.why is not None)
    last = max(lines, key=lambda one: one.line, default=None)
    if blame is not None or last is not None:
        yield LogEvent(Kind.STOPPED, blame, last=last)


_FINDERS = (
    _told(Kind.NAMED_BY_KERNEL, named_by_kernel),
    _told(Kind.NUMBERS, numbers_went_bad),
    _raised,
    _cancelled,
    _told(Kind.HOST_FAILED, node_failed),
    _crashed,
    _thread_died,
    _exited,
    _said_above,
    _not_started,
)
_LAST_FINDERS = (_told(Kind.JOBS_FAILED, jobs_failed), _stopped, _ended_saying)
