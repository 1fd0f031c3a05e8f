"""How each rank stands: its own errors, those about others, how it ended."""

import math
from collections.abc import Iterator, Sequence

from postmortem import thresholds
from postmortem.diagnose.ranks.attribution import Suspect
from postmortem.diagnose.ranks.wordings import ErrorRole, of_own_pipe, part_of
from postmortem.facts.crash import CRASH_SIGNALS
from postmortem.facts.exits import TRACKER, LogExit
from postmortem.facts.rank_logs import LogFailure, RankLogs, Remark, Writer
from postmortem.knowledge.messages import MPI_ENDS
from postmortem.records import record, replace

ABOUT_PEERS = (
    ErrorRole.CLOSED,
    ErrorRole.WAITED,
    ErrorRole.MISMATCH,
    ErrorRole.NAMED,
    ErrorRole.SENT_TOO_MUCH,
)
_KILLS = ("SIGTERM", "SIGKILL")
_OWN_SIGNALS = CRASH_SIGNALS - {"SIGTRAP"}
"""What no launcher sends."""
_SILENT_SIGNALS = _OWN_SIGNALS | {*_KILLS, "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGXCPU", "SIGXFSZ"}
"""What ends a program by itself: SIGPIPE is of who reads what it writes."""
_STUCK = ("pgnccl-heartbeat-timeout", "pgnccl-watchdog-stuck", "sglang-watchdog")
_OF_GPU = ("error-of-cuda", "nccl-result-cuda")
_TOLD_BEFORE = 4
"""Lines of srun on the tasks that Slurm killed, above the word of another host on why."""
_QUOTED = 6
"""Lines below a launcher's word in which it begins to quote an error."""
_STOPS = ("SIGTERM", "SIGINT", "SIGHUP")
KILLERS = ("srun", "mpirun", "mpiexec")
"""Launchers that kill the other ranks when one has failed, and tell of them as of that one."""


@record
class RankState:
    """One process."""

    writer: Writer
    rank: int | None
    """Where no rank is known at all, the place in the order of the writers: enough to vote."""
    own: tuple[LogFailure, ...] = ()
    about_peers: tuple[LogFailure, ...] = ()
    startup: tuple[LogFailure, ...] = ()
    threads: tuple[LogFailure, ...] = ()
    stopped: tuple[LogFailure, ...] = ()
    exit: LogExit | None = None
    ended_by_launcher: bool = False
    sent_elsewhere: bool = False
    """Its launcher names those whom it tells to end, and not this one."""
    survived: bool = False
    """It printed errors behind which it went on with its work, or others stand."""

    @property
    def crashed(self) -> bool:
        """A signal that nobody sent to stop it ended it.

        Slurm tells when it begins to stop tasks: a SIGTERM before that is somebody else's; torchrun
        tells whom it sends one.
        """
        end = self.exit
        return (
            end is not None
            and end.signal is not None
            and (end.signal not in _STOPS or end.launcher == "srun" or self.sent_elsewhere)
            and not self.ended_by_launcher
        )

    @property
    def died(self) -> bool:
        """A signal ended it that it does not explain itself, or it said why it aborts."""
        if any(f.kind in ("fatal", "terminate") or _of_its_gpu(f) or is_stuck(f) for f in self.own):
            return True
        end = self.exit
        if end is not None and end.evicted:
            return not self.own
        if not self.crashed or end is None or end.signal not in _SILENT_SIGNALS:
            return False
        # Python's error, then abort() in a destructor; or the watchdog that ends the process.
        return not self.own and (end.signal != "SIGABRT" or not self.about_peers)

    @property
    def is_known(self) -> bool:
        """Its rank is known, or how all that its host, or its actor, wrote ended."""
        return self.rank is not None or (
            self.exit is not None and (self.writer.host is not None or self.exit.died)
        )

    @property
    def aborted_mpi(self) -> bool:
        """It called MPI_Abort: mpi4py does so behind a traceback."""
        return any(f.said.exception == "MPI_Abort" for f in self.own)

    @property
    def silent(self) -> bool:
        """It has no error of any kind."""
        return not (self.own or self.about_peers or self.startup or self.threads)

    @property
    def interrupted(self) -> bool:
        """Ctrl-C ended it: launchers end those who miss a peer by SIGTERM."""
        return any(f.said.exception == "KeyboardInterrupt" for f in self.stopped)

    def party(self, why: str, failure: LogFailure | None = None) -> Suspect:
        """Return it as the report names it."""
        label = self.writer.label
        return Suspect(label, self.writer.rank, self.writer.host, why, failure, self.exit)


def standings(logs: RankLogs) -> tuple[RankState, ...]:
    """Return all processes that are known, also those that only a launcher names."""
    exits = {e.rank: e for e in logs.exits if e.rank is not None}
    of_hosts = _of_hosts(logs)
    of_workers = {e.writer: e for e in logs.exits if e.died and e.rank is None}
    found: list[RankState] = []
    seen: set[int] = set()
    by_writer: dict[int, list[LogFailure]] = {}
    for failure in logs.failures:
        by_writer.setdefault(failure.writer, []).append(failure)
    for index, writer in enumerate(logs.writers):
        mine = by_writer.get(index, [])
        end = of_hosts.get(writer.host or "") if writer.rank is None else exits.get(writer.rank)
        end = end if end is not None else of_workers.get(index)
        if writer.shared and not mine and end is None:
            continue
        if writer.rank is not None:
            seen.add(writer.rank)
        found.append(_standing(writer, mine, end, logs))
    if not seen and not exits:
        apart = [s for s in found if not s.writer.shared]
        if len(apart) > 1:
            found = [s for s in found if s.writer.shared]
            found += [replace(s, rank=place) for place, s in enumerate(apart)]
    for rank, end in exits.items():
        if rank not in seen:
            host = end.host
            label = str(rank)
            writer = Writer(label, rank, end.local_rank, host, source=end.file)
            found.append(_standing(writer, [], end, logs))
    found = _raised_elsewhere(_alone_stuck(_with_last_words(_with_processes(found))))
    return tuple(_ended_after_others(found, logs.remarks))


def _with_processes(found: list[RankState]) -> list[RankState]:
    """Return the standings, what a process says of its end as words of the rank that it was.

    It is the one rank of its host that a launcher says died of that signal.
    """
    ranks: dict[tuple[str | None, str | None], list[RankState]] = {}
    processes: dict[tuple[str | None, str | None], list[RankState]] = {}
    for one in found:
        if one.rank is not None and one.exit is not None and one.exit.signal and not one.own:
            ranks.setdefault((one.exit.host, one.exit.signal), []).append(one)
        elif one.rank is None and one.own and one.exit is None and not one.writer.shared:
            processes.setdefault((one.writer.host, one.own[0].said.exception), []).append(one)
    pairs = [
        (ranks[key][0], mine[0])
        for key, mine in processes.items()
        if key[0] is not None and len(mine) == len(ranks.get(key, ())) == 1
    ]
    own = {id(rank): process.own for rank, process in pairs}
    joined = {id(process) for _, process in pairs}
    return [replace(s, own=own.get(id(s), s.own)) for s in found if id(s) not in joined]


def _with_last_words(found: list[RankState]) -> list[RankState]:
    """Return the standings, what one process said as it aborted as words of the one rank that did.

    C++ writes them, without the prefix that Python's errors have.
    """
    aborted = [s for s in found if s.silent and s.rank is not None and s.crashed]
    said = [f for s in found if s.writer.shared for f in s.about_peers if f.kind == "terminate"]
    if len(aborted) != 1 or len(said) != 1 or not _is_abort(aborted[0].exit):
        return found
    return [replace(s, about_peers=tuple(said)) if s is aborted[0] else s for s in found]


def _alone_stuck(found: list[RankState]) -> list[RankState]:
    """Return the standings, the watchdog that stood still as its rank's own where no other waits.

    A call to the GPU kept it, or the GIL; had a peer not come, others would miss that one too.
    """
    waiting = [s for s in found if s.about_peers]
    if len(waiting) != 1 or not all(map(is_stuck, waiting[0].about_peers)):
        return found
    others = any(s.rank is not None and s is not waiting[0] for s in found)
    if not others and waiting[0].exit is None:
        return found  # nothing is known of the others
    own = replace(waiting[0], own=(*waiting[0].own, *waiting[0].about_peers), about_peers=())
    return [own if s is waiting[0] else s for s in found]


def _raised_elsewhere(found: list[RankState]) -> list[RankState]:
    """Return the standings, what a function raised that one rank ran for others as that rank's."""
    named = {int(m["rank"]) for s in found for f in s.own if (m := f.said.match("rpc-raised-at"))}
    at = next((s for s in found if {s.rank} == named), None)
    if at is None:
        return found
    moved = tuple(f for s in found if s is not at for f in s.own if _by_rpc(f))
    found = [s if s is at else _without_rpc(s) for s in found]
    return [replace(at, own=(*at.own, *moved)) if s is at else s for s in found]


def _without_rpc(standing: RankState) -> RankState:
    """Return a rank without what was raised for it elsewhere: it lost who ran that."""
    own = tuple(f for f in standing.own if not _by_rpc(f))
    if len(own) == len(standing.own):
        return standing
    lost = tuple(f for f in standing.own if f.said.match("rpc-raised-at") is not None)
    return replace(standing, own=own, about_peers=(*standing.about_peers, *lost))


def _by_rpc(failure: LogFailure) -> bool:
    ran = any("torch/distributed/rpc/internal" in frame.file for frame in failure.frames)
    return ran or failure.said.match("rpc-raised-at") is not None


def is_stuck(failure: LogFailure) -> bool:
    """Return whether it says that the watchdog of the process itself stood still."""
    stuck = failure.said.match(*_STUCK)
    return failure.kind == "watchdog" and stuck is not None


def aborted_unheard(one: RankState) -> bool:
    """Return whether a launcher says that it aborted, and nothing of its own says why."""
    return one.silent and _is_abort(one.exit)


def _is_abort(end: LogExit | None) -> bool:
    return end is not None and end.signal == "SIGABRT"


def _ended_after_others(found: list[RankState], remarks: Sequence[Remark]) -> Iterator[RankState]:
    """Yield the standings, those whose launcher ended them once another had failed marked so.

    Slurm tells it by the order of its lines alone: what ends badly below its word that it ends the
    step, it has ended. MPI's launchers kill all when one has aborted, torchrun who has not ended by
    a time-out behind the first.
    """
    ending: dict[str, int] = {}
    for remark in remarks:
        if remark.match("slurm-ending") is not None:
            why = remark.match("stopped-due-to")
            of_limit = why is not None and (why["time"] or why["preempted"])
            before = _TOLD_BEFORE if of_limit else 0
            ending.setdefault(remark.file, remark.line - before)
    aborted = any(f.match(*MPI_ENDS) for s in found for f in s.own)
    first: dict[str, int] = {}
    for one in found:
        end = one.exit
        if end is not None and end.launcher == "srun" and _ended_itself(one, end):
            first[end.file] = min(end.line, first.get(end.file, end.line))
    ended = [e.time for one in found if (e := one.exit) and e.time and _ended_itself(one, e)]
    late = min(ended, default=math.inf) + thresholds.KILLED_BY_AGENT
    for one in found:
        end = one.exit
        if end is None or one.own or end.memory:
            yield one
        elif end.launcher == "srun" and end.line > ending.get(end.file, end.line):
            yield one if end.signal in _OWN_SIGNALS else replace(one, ended_by_launcher=True)
        elif end.signal not in _KILLS:
            yield one
        elif (
            (end.time or 0.0) >= late
            or (end.launcher == "srun" and end.line > first.get(end.file, end.line))
            or (aborted and end.launcher in KILLERS)
        ):
            yield replace(one, ended_by_launcher=True)
        else:
            yield one


def _ended_itself(one: RankState, end: LogExit) -> bool:
    """Whether a rank failed, and not because of a peer."""
    return end.is_bad and end.signal not in _KILLS and not one.about_peers


def without_echoes(found: list[RankState]) -> list[RankState]:
    """Return those that crashed without who aborted, and does not say why, as others were gone."""
    gone = [s for s in found if s.own or s.exit is None or s.exit.signal != "SIGABRT"]
    first, echoed = (
        min((s.exit.time or 0.0 for s in rows if s.exit is not None), default=0.0)
        for rows in (gone, [s for s in found if s not in gone])
    )
    return gone if gone and first - echoed < thresholds.AT_ONCE_SECONDS else found


def _of_hosts(logs: RankLogs) -> dict[str, LogExit]:
    """Return the ends of what pdsh, clush and kubernetes ran, by host, where that was one process.

    Where ranks of a host are told apart, it was their launcher that ended so.
    """
    ranked = {w.host for w in logs.writers if w.rank is not None or w.local_rank is not None}
    # A launcher under a shell exits with what ended its process, taken to be a code: 249 is -7.
    own = ((logs.who(e.writer or 0).host, e) for e in logs.exits if e.launcher == "deepspeed")
    under = dict(own)
    return {
        e.host: under.get(e.host, e)
        for e in logs.exits
        if e.launcher in ("pdsh", "clush", "kubernetes")
        and e.host is not None
        and e.host not in ranked
    }


def _standing(
    writer: Writer, mine: list[LogFailure], end: LogExit | None, logs: RankLogs
) -> RankState:
    ended = end is not None and (end.stopped or (end.pid or -1) in logs.stopped_pids)
    by_launcher = ended and end is not None and end.code is None
    elsewhere = bool(logs.stopped_pids) and not ended and end is not None and end.pid is not None
    if not mine:  # of many ranks, nearly all
        return RankState(
            writer, writer.rank, exit=end, ended_by_launcher=by_launcher, sent_elsewhere=elsewhere
        )
    bad = end is not None and bool(end.code or end.died or (end.signal and not ended))
    counted = list(_counted(writer, mine, bad, logs))
    parts = [(ErrorRole.OWN if _is_its_own(writer, f) else part_of(f), f) for f in counted]
    if writer.rank is not None and {part for part, _ in parts} == {ErrorRole.AFTERMATH}:
        parts = [(ErrorRole.OWN, f) for _, f in parts]  # of what, it does not tell
    places = set(map(_place, counted))
    return RankState(
        writer,
        writer.rank,
        own=tuple(f for part, f in parts if part is ErrorRole.OWN and f.kind != "thread"),
        about_peers=tuple(
            f for part, f in parts if part in ABOUT_PEERS and (f.kind != "thread" or f.work is None)
        ),
        startup=tuple(f for part, f in parts if part is ErrorRole.STARTUP),
        threads=tuple(f for part, f in parts if part is ErrorRole.OWN and f.kind == "thread"),
        stopped=tuple(f for part, f in parts if part is ErrorRole.STOPPED),
        exit=end,
        survived=any(f.kind != "ignored" and _place(f) not in places for f in mine),
        ended_by_launcher=by_launcher,
    )


def _of_its_gpu(failure: LogFailure) -> bool:
    """Return whether a watchdog ended the process that found an error of the process's own GPU."""
    return failure.kind == "watchdog" and failure.said.match(*_OF_GPU) is not None


def _is_its_own(writer: Writer, failure: LogFailure) -> bool:
    """Return whether an error that seems to be about a peer names the rank that raised it, or is
    about a child of that rank, which is none."""
    found = failure.first_said.match("error-peer-named-late")
    named = found is not None and int(found["peer"]) == writer.rank
    return named or (writer.rank is not None and of_own_pipe(failure))


def _place(failure: LogFailure) -> tuple[str, int, int]:
    return failure.file, failure.begin_line, failure.line


def _counted(
    writer: Writer, mine: list[LogFailure], bad: bool, logs: RankLogs
) -> Iterator[LogFailure]:
    """Yield what was not caught: after that, a process does not go on with its work."""
    final: list[LogFailure] = []
    for failure in map(_begun, mine):
        if failure.kind == "ignored" or not failure.said.exception:
            continue
        if failure.kind == "thread":
            yield failure
        elif writer.shared:
            if any(ends_behind(end, failure) for end in logs.exits) or (
                failure.lines_after <= thresholds.CAUGHT_LINES_OF_SHARED and failure.work is None
            ):
                yield failure
        elif (
            failure.lines_after <= thresholds.CAUGHT_LINES and failure.work is None
        ) or failure.source != "log":
            yield failure
            final.append(failure)
    if bad and not final and not writer.shared:
        last = [
            f for f in map(_begun, mine) if f.kind not in ("ignored", "thread") and f.said.exception
        ]
        if last and last[-1].lines_after <= thresholds.CAUGHT_LINES_OF_FAILED:
            yield last[-1]


def ends_behind(end: LogExit, failure: LogFailure) -> bool:
    """Return whether a process may have ended by an error: a word on its end stands behind it.

    No work is done between the two, and that word may quote the error below itself.
    """
    if end.launcher == TRACKER and failure.logged:  # of the tracker's work
        return False
    bad = end.rank is not None or end.is_bad
    since = failure.begin_line - _QUOTED if failure.work is None else failure.work.line
    return bad and (end.file != failure.file or end.line >= since)


def _begun(failure: LogFailure) -> LogFailure:
    """Return a chain of exceptions whose end is cut off as what began it: that stands whole."""
    if failure.said.exception or not failure.causes:
        return failure
    return replace(failure, said=failure.causes[-1], causes=failure.causes[:-1], frames=())
