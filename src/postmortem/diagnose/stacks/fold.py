"""Many cores as few crashes: cores with the same signature are one."""

from collections.abc import Iterable, Sequence
from typing import Any

from postmortem.facts.source import Source
from postmortem.records import record, replace
from postmortem.report.model import Confidence, Diagnosis, Evidence, Report, Role


@record
class FoldedCore:
    """One core among many: who it was, and what its report says in one line."""

    source: Source
    time: float
    """When the file was last written, in seconds since the epoch: about when the process died."""
    verdict: str
    failed: bool
    hash: str | None = None
    """Its signature; None where no frame could be read."""
    summary: str = ""
    calls: tuple[str, ...] = ()
    """What the signature is made of, innermost first."""
    slim: bool = False
    signal: str | None = None
    pid: int | None = None
    rank: int | None = None
    world_size: int | None = None
    hostname: str | None = None
    executable: str | None = None
    crashed_thread: int | None = None
    stood_at: tuple[str, str] | None = None
    """Program counter and stack pointer at the failure."""
    diagnosis: Diagnosis | None = None
    """The best one."""

    @property
    def path(self) -> str:
        """Of its file."""
        return self.source.path

    @property
    def truncated(self) -> bool:
        """Whether its file is cut."""
        return self.source.truncated


@record
class Fold:
    """The cores of one crash, the oldest first."""

    hash: str | None
    summary: str
    cores: tuple[FoldedCore, ...]

    @property
    def first(self) -> FoldedCore:
        """The oldest file."""
        return self.cores[0]

    @property
    def newest(self) -> FoldedCore:
        """The newest file."""
        return self.cores[-1]

    @property
    def example(self) -> FoldedCore:
        """The core to explain the crash by: the newest one that is whole."""
        whole = [core for core in self.cores if not core.truncated]
        return (whole or self.cores)[-1]

    @property
    def role(self) -> Role | None:
        """The role of the best diagnosis of the example."""
        diagnosis = self.example.diagnosis
        return None if diagnosis is None else diagnosis.role

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks, in order."""
        return tuple(sorted({core.rank for core in self.cores if core.rank is not None}))

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts, in order."""
        return tuple(sorted({core.hostname for core in self.cores if core.hostname}))

    @property
    def pids(self) -> tuple[int, ...]:
        """The process ids, in order."""
        return tuple(sorted({core.pid for core in self.cores if core.pid is not None}))


def rest_of(fold: Fold, found: Sequence[Fold]) -> Fold | None:
    """Return the crash that cut cores are likely of: the only one that begins as they do.

    Callers lie at high addresses, and Python's frames in memory that a cut core lacks.
    """
    short = fold.first
    if not short.calls or not all(core.truncated for core in fold.cores):
        return None
    fitting = [
        other
        for other in found
        if other is not fold
        and other.first.signal == short.signal
        and not all(core.truncated for core in other.cores)
        and other.first.calls[: len(short.calls)] == short.calls
    ]
    return fitting[0] if len(fitting) == 1 else None


def folds(cores: Iterable[FoldedCore]) -> tuple[Fold, ...]:
    """Return the crashes: causes before what they brought about, then by number of cores."""
    by_signature: dict[tuple[str | None, str], list[FoldedCore]] = {}
    for core in cores:
        by_signature.setdefault((core.hash, core.summary), []).append(core)
    found = [
        Fold(key[0], key[1], tuple(sorted(same, key=lambda core: (core.time, core.path))))
        for key, same in by_signature.items()
    ]
    return tuple(sorted(found, key=_interest))


def _interest(fold: Fold) -> tuple[object, ...]:
    diagnosis = fold.example.diagnosis
    role = len(Role) if diagnosis is None else list(Role).index(diagnosis.role)
    doubt = diagnosis is not None and diagnosis.confidence is Confidence.POSSIBLE
    # another process's signal, and a rank that only lost its peers, come after what failed itself
    return (role, doubt, fold.hash is None, -len(fold.cores), fold.first.time, fold.summary)


def same_crash(cores: Sequence[FoldedCore]) -> tuple[tuple[FoldedCore, ...], dict[str, str]]:
    """Return the cores without copies of one another, and each copy's path with its original's.

    A slim core beside the whole one is a copy: same process, same thread, same place.
    """
    kept: dict[object, FoldedCore] = {}
    copies: dict[str, str] = {}
    for core in sorted(
        cores, key=lambda core: (core.slim, core.truncated, -core.source.size_bytes)
    ):
        key: object = core.path
        if core.stood_at is not None:
            key = (core.pid, core.crashed_thread, core.stood_at)
        original = kept.setdefault(key, core)
        if original is not core:
            copies[core.path] = original.path
    return tuple(kept.values()), copies


def first_of(found: Sequence[Fold]) -> FoldedCore:
    """Return the oldest core of all."""
    return min((fold.first for fold in found), key=lambda core: (core.time, core.path))


def folded_core(path: str, written: float, report: Report) -> FoldedCore:
    """Return what is kept of the report on a core, `written` in seconds since 1970."""
    body: Any = report.body
    process, signature, fault = body["process"], body["signature"], body["fault"]
    name = body["signal"]["name"]
    if signature is None:
        summary = f"{name or 'snapshot'}, no frame could be read"
        signature = {"hash": None, "summary": summary, "calls": ()}
    return FoldedCore(
        source=replace(report.inputs[0], path=path),
        time=written,
        verdict=report.verdict,
        failed=report.failed,
        hash=signature["hash"],
        summary=signature["summary"],
        calls=tuple(signature["calls"]),
        slim=body["core"]["slim"] is not None,
        signal=name,
        pid=process["pid"],
        rank=process["rank"],
        world_size=process["world_size"],
        hostname=process["hostname"],
        executable=process["executable"],
        crashed_thread=body["crashed_thread"],
        stood_at=None if fault is None else (fault["pc"]["value"], fault["sp"]["value"]),
        diagnosis=next(iter(report.diagnoses), None),
    )


def diagnosis_of(fold: Fold) -> Diagnosis:
    """Return the best diagnosis of a crash, its evidence with the core that it is in."""
    example = fold.example
    assert example.diagnosis is not None
    evidence = tuple(
        Evidence(f"{example.path.rpartition('/')[2]}: {item.where}", item.what)
        for item in example.diagnosis.evidence
    )
    return replace(example.diagnosis, evidence=evidence)
