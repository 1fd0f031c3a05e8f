"""Votes over ranks: what most of them called, and who called something else."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

from postmortem.diagnose.ranks.deciding.rank_state import RankState
from postmortem.diagnose.ranks.wordings import ErrorRole, part_of
from postmortem.facts.rank_logs import LogFailure
from postmortem.facts.threads import is_own
from postmortem.records import record

K = TypeVar("K", bound=Hashable)

# Lightning broadcasts in its handler of SIGTERM.
_OF_SIGNALS = "trainer/connectors/signal_connector.py"
_DISTRIBUTED = ("torch/distributed/distributed_c10d.py",)


@record
class Split:
    """What most called, and the others."""

    majority: str
    others: tuple[tuple[int, str], ...]


def minority(calls: Mapping[int, str]) -> Split | None:
    """Return who differs from more than half, which must be at least two ranks; else None."""
    counts = Counter(calls.values()).most_common()
    if len(counts) < 2 or counts[0][1] < 2 or 2 * counts[0][1] <= len(calls):
        return None
    most = counts[0][0]
    return Split(most, tuple((r, what) for r, what in sorted(calls.items()) if what != most))


def fingerprints(failures: Sequence[LogFailure]) -> dict[int, str]:
    """Return per rank which collective it says that it runs (TORCH_DISTRIBUTED_DEBUG=DETAIL)."""
    found: dict[int, str] = {}
    for failure in failures:
        print_ = failure.first_said.match("fingerprint")
        if print_:
            words = print_["op"]
            if print_["shape"]:
                words += f" of shape {print_['shape']}"
            if print_["dtype"]:
                words += f", {print_['dtype']}"
            found.setdefault(int(print_["rank"]), words)
    return found


def call_sites(waiting: Iterable[RankState]) -> dict[int, str]:
    """Return where ranks wait, by their errors about a peer that went away or did not come."""
    sites: dict[int, str] = {}
    for standing in waiting:
        lost = [
            f for f in standing.about_peers if part_of(f) in (ErrorRole.WAITED, ErrorRole.CLOSED)
        ]
        site = next((s for f in lost if (s := call_site(f))), None)
        if site and standing.rank is not None:
            sites[standing.rank] = site
    return sites


def call_site(failure: LogFailure) -> str | None:
    """Return where the program waits: its own innermost line, and the collective that it called."""
    if any(f.file.endswith(_OF_SIGNALS) for f in failure.frames):
        return None  # caught in a handler, wherever it was
    own = [f for f in failure.frames if is_own(f.file)]
    called = [
        f.function
        for f in failure.frames
        if any(f.file.endswith(part) for part in _DISTRIBUTED) and f.function
    ]
    if not own and not called:
        return None
    where = ""
    if own:
        name = own[-1].file.rsplit("/", 1)[-1]
        where = f"{name}:{own[-1].line}"
    return f"{called[0]}() at {where}" if called and where else where or f"{called[0]}()"
