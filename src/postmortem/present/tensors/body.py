"""The fields of ``kind scan`` in the JSON report."""

from collections.abc import Sequence

from postmortem.diagnose.tensors.series import Series
from postmortem.facts.tensors import NanNumber, ScannedTensor, Tensors
from postmortem.report.contract import fill
from postmortem.report.contract.scan import Scan


def worst_first(tensors: Tensors) -> tuple[ScannedTensor, ...]:
    """Return those with the largest share of bad values first, then by their largest value."""
    return tuple(
        sorted(
            tensors.items,
            key=lambda t: (
                -(t.bad_count / t.numel) if t.numel else 0.0,
                -t.bad_count,
                -t.abs_max_finite if t.abs_max_finite == t.abs_max_finite else 0.0,
                t.file,
                t.name,
            ),
        )
    )


def scan_body(
    tensors: Tensors, nan_numbers: Sequence[NanNumber] = (), found: Series | None = None
) -> dict[str, object]:
    """Return every tensor, the worst first, the plain numbers that are NaN, and the series."""
    return fill(Scan, tensors=worst_first(tensors), nan_numbers=nan_numbers, series=found)
