"""All that the steps of the decision look at."""

import functools
from collections.abc import Iterable, Iterator, Sequence

from postmortem.diagnose.jam.jam import Jam
from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks.attribution import Suspect
from postmortem.diagnose.ranks.deciding.rank_state import RankState, standings
from postmortem.diagnose.ranks.wordings import ErrorRole, part_of
from postmortem.facts.exits import LogExit
from postmortem.facts.last_lines import LastLine
from postmortem.facts.rank_logs import LogFailure, RankLogs, Remark
from postmortem.text import without_numbers

_FEW_RANKS = 4096
MOST_CANDIDATES = 8
_SPARSE = 16
"""A rank says that those below it exist, where one in so many of them is known."""


class Case:
    """The standings of all processes, and what follows from them at once."""

    def __init__(self, logs: RankLogs) -> None:
        self.logs = logs
        self.all = standings(logs)
        self.ranks = tuple(s for s in self.all if s.rank is not None)
        self.known = {s.rank: s for s in self.ranks if s.rank is not None}
        self.shared = tuple(s for s in self.all if s.writer.shared)
        named = {*self.known, *(one.rank for one in logs.said_pids if one.rank is not None)}
        largest = max(named, default=-1) + 1
        if largest > max(_FEW_RANKS, _SPARSE * len(named)):
            largest = len(named)  # such a number tells nothing of ranks below it
        self.world = max(logs.world_size or 0, largest)
        """Ranks that there are at least."""
        told = [(one.rank, one.host) for one in logs.pids if one.own]
        told += [(one.rank, one.host) for one in logs.recorders]
        self.hosts = {rank: host for rank, host in told if host is not None}
        summaries = (e for e in logs.exits if e.launcher == "torchrun" and e.time is not None)
        self.summarised = any(end.rank is not None for end in summaries)
        """Whether torchrun wrote its list, which has a time for each rank."""

    @functools.cached_property
    def jam(self) -> Jam | None:
        """Who waits for whom, by the flight recorders."""
        if not self.logs.recorders:
            return None
        from postmortem.diagnose.jam.decide import find_jam
        from postmortem.diagnose.ranks.deciding.last_words import ended_well

        waited = next((f for s in self.all for f in s.about_peers), None)
        said = f"{waited.file}:{waited.line} reports a time-out or a lost peer" if waited else None
        recorders = self.logs.recorders
        over = (waited is None and all(one.goes_on for one in recorders)) or (
            all(one.outlived for one in recorders) and ended_well(self.logs)
        )
        size = self.logs.world_size
        return find_jam(recorders, world=size, timed_out=said, went_on=over)

    @functools.cached_property
    def several(self) -> bool:
        """Whether anything tells of several processes side by side."""
        return bool(self.ranks or self.logs.exits) or len(self.all) > 1 or self.world > 1

    @functools.cached_property
    def failed_ends(self) -> tuple[RankState, ...]:
        """The ranks that ended badly as launchers say, without those that these ended."""
        return tuple(
            s
            for s in self.ranks
            if s.exit is not None and s.exit.is_bad and not s.ended_by_launcher
        )

    def about_peers(self) -> tuple[RankState, ...]:
        """Return the ranks that only report on a peer."""
        return tuple(s for s in self.ranks if s.about_peers)

    def without(self, ranks: Iterable[int]) -> tuple[int, Iterator[int]]:
        """Return how many of all ranks are not in `ranks`, and these in order.

        How many there are is what evidence claims; only those who ask for them spend time on each.
        """
        there = {rank for rank in ranks if 0 <= rank < self.world}
        return self.world - len(there), (r for r in range(self.world) if r not in there)

    def failed(self) -> bool:
        """Return whether anything at all went wrong."""
        told = any(not s.silent or s.stopped or s.exit is not None for s in self.all)
        return told or any(end.is_bad for end in self.logs.exits)

    def victims(self) -> list[Suspect]:
        """Return all who ended because of another one, as far as can be told."""
        found = []
        for standing in self.ranks:
            if standing.about_peers:
                failure = standing.about_peers[-1]
                found.append(standing.party(peer_words(failure), failure))
            elif standing.startup:
                found.append(standing.party(clip(standing.startup[-1].said.words, 120)))
            elif standing.ended_by_launcher:
                found.append(standing.party("the launcher ended it"))
            elif standing.stopped:
                found.append(standing.party(clip(standing.stopped[-1].said.words, 120)))
        for standing in self.shared:
            found += [
                standing.party(peer_words(f), f) for f in standing.about_peers[:1] if not self.ranks
            ]
        return found


def peer_words(failure: LogFailure) -> str:
    """Return what a victim says, in few words."""
    part = part_of(failure)
    said = failure.first_said
    address, waited = said.match("peer-address"), said.match("peer-waited")
    if part is ErrorRole.CLOSED and address:
        return f"its connection to {address['peer']}:{address['port']} closed"
    if part is ErrorRole.WAITED and waited:
        return f"it waited {int(waited['ms']) / 1000:g} s for a peer"
    return clip(said.words, 120)


def same_words(failure: LogFailure) -> str:
    """Return an error without what differs from rank to rank."""
    said = failure.said
    return said.exception + ": " + without_numbers(said.message.split("\n", 1)[0])


def cited(parties: Iterable[Suspect]) -> tuple[tuple[str, str], ...]:
    """Return where the parties' own lines stand."""
    rows = []
    for party in parties:
        failure = party.failure
        if failure is not None:
            whole = bool(failure.said.words)  # else it is cut off within its frames
            said = failure.words if whole else failure.text.rpartition("\n")[2].strip()
            place = f"{failure.file}:{failure.line if whole else failure.begin_line}"
            rows.append((place, f"{party.words}: {clip(said, 300)}"))
        if party.exit is not None:
            rows.append((party.exit.where, exit_words(party)))
    return tuple(rows[:8])


def cited_line(one: LogExit | LastLine | Remark) -> tuple[str, str]:
    """Return where a line stands, and what it says."""
    return one.where, clip(one.text.strip(), 300)


def exit_words(party: Suspect) -> str:
    """Return how a launcher says that a party ended."""
    end = party.exit
    assert end is not None
    pid = f" (pid {end.pid})" if end.pid else ""
    how = f"killed by {end.signal}" if end.signal else end.exited
    return f"{end.launcher} says: {party.words}{pid} {how}"


def outlived(case: Case, failure: LogFailure) -> bool:
    """Return whether what stood right above an end is said again at the end of its log."""
    said = case.logs.writers[failure.writer].last_words
    return len(said) > 1 and failure.before[-len(said) :] == said


def party_of(case: Case, rank: int, why: str, failures: Sequence[LogFailure] = ()) -> Suspect:
    """Return a rank as the report names it, also one of which only the words of others are here."""
    standing = case.known.get(rank)
    if standing is None:
        said = next((f for f in failures if _runs(f) == rank), None)
        return Suspect(str(rank), rank, None, why, said)
    return standing.party(why, next(iter(standing.about_peers), None))


def _runs(failure: LogFailure) -> int | None:
    """Return the rank whose collective a failure names first."""
    print_ = failure.first_said.match("fingerprint")
    return int(print_["rank"]) if print_ else None
