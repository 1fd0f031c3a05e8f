"""The fields of ``kind scan`` in the JSON report, as docs/report-schema.md lays them down."""

from __future__ import annotations

from collections.abc import Sequence

from postmortem.diagnose.tensors.series import Series
from postmortem.facts.tensors import NanNumber, ScannedTensor, Tensors


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
    return {
        "tensors": [_tensor(tensor) for tensor in worst_first(tensors)],
        "nan_numbers": [{"name": number.name, "file": number.file} for number in nan_numbers],
        "series": None
        if found is None
        else {
            "files": list(found.files),
            "last_clean": found.last_clean,
            "first_bad": found.first_bad,
            "clean_again": found.back_to_clean,
        },
    }


def _tensor(tensor: ScannedTensor) -> dict[str, object]:
    return {
        "name": tensor.name,
        "file": tensor.file,
        "dtype": tensor.dtype,
        "shape": list(tensor.shape),
        "numel": tensor.numel,
        "abs_min": tensor.abs_min,
        "abs_max": tensor.abs_max,
        "abs_min_nonzero": tensor.abs_min_nonzero,
        "abs_max_finite": tensor.abs_max_finite,
        "nan_count": tensor.nan_count,
        "inf_count": tensor.inf_count,
        "zero_count": tensor.zero_count,
        "subnormal_count": tensor.subnormal_count,
        "first_nonfinite": tensor.first_nonfinite,
    }
