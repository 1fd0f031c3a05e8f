"""The fields of ``kind cores`` in the JSON report."""

from collections.abc import Sequence

from postmortem.diagnose.stacks.fold import Fold, first_of, rest_of
from postmortem.report.contract import fill
from postmortem.report.contract.cores import Cores, Crash


def fold_body(found: Sequence[Fold], unread: int) -> dict[str, object]:
    """Return the fields of the report on many cores as plain JSON values."""
    return fill(
        Cores,
        first=first_of(found).path,
        signatures=[_crash(fold, rest_of(fold, found)) for fold in found],
        cores_read=sum(len(fold.cores) for fold in found),
        cores_unread=unread,
    )


def _crash(fold: Fold, same_as: Fold | None) -> dict[str, object]:
    diagnosis = fold.example.diagnosis
    return fill(
        Crash,
        fold,
        count=len(fold.cores),
        likely_same_as=None if same_as is None else same_as.hash,
        verdict=fold.example.verdict,
        diagnosis=None if diagnosis is None else diagnosis.id,
        example=fold.example.path,
        first=fold.first.path,
        newest=fold.newest.path,
    )
