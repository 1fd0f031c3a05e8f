"""The fields of ``kind cores`` in the JSON report, as docs/report-schema.md lays them down."""

from __future__ import annotations

from collections.abc import Sequence

from postmortem.diagnose.stacks.fold import Fold, FoldedCore, first_of, rest_of


def fold_body(found: Sequence[Fold], unread: int) -> dict[str, object]:
    """Return the fields of the report on many cores as plain JSON values."""
    return {
        "first": first_of(found).path,
        "signatures": [_fold(fold, rest_of(fold, found)) for fold in found],
        "cores_read": sum(len(fold.cores) for fold in found),
        "cores_unread": unread,
    }


def _fold(fold: Fold, same_as: Fold | None) -> dict[str, object]:
    diagnosis = fold.example.diagnosis
    return {
        "hash": fold.hash,
        "summary": fold.summary,
        "count": len(fold.cores),
        "likely_same_as": None if same_as is None else same_as.hash,
        "verdict": fold.example.verdict,
        "diagnosis": None if diagnosis is None else diagnosis.id,
        "example": fold.example.path,
        "first": fold.first.path,
        "newest": fold.newest.path,
        "ranks": list(fold.ranks),
        "hosts": list(fold.hosts),
        "pids": list(fold.pids),
        "cores": [_core(core) for core in fold.cores],
    }


def _core(core: FoldedCore) -> dict[str, object]:
    return {
        "path": core.path,
        "time": core.time,
        "verdict": core.verdict,
        "signal": core.signal,
        "pid": core.pid,
        "rank": core.rank,
        "world_size": core.world_size,
        "hostname": core.hostname,
        "executable": core.executable,
        "crashed_thread": core.crashed_thread,
        "truncated": core.truncated,
    }
