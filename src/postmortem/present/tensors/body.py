"""The fields of ``kind scan`` in the JSON report."""

from collections.abc import Sequence

from postmortem.diagnose.tensors.series import Series, where_it_began
from postmortem.facts.tensors import NanNumber, ScannedTensor, Tensors
from postmortem.report.card import Highlights
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


def scan_highlights(tensors: Tensors, found: Series | None) -> Highlights:
    """Return the tensors with NaN or Inf, the worst first; of a series, where they begin."""
    bad = [tensor for tensor in worst_first(where_it_began(tensors, found)) if tensor.bad_count]
    if not bad:
        return Highlights()
    rows = []
    for one in bad:
        said = [f"{one.nan_count:,} NaN"] if one.nan_count else []
        said += [f"{one.inf_count:,} Inf"] if one.inf_count else []
        first = f", the first at {one.first_nonfinite:,}" if one.first_nonfinite is not None else ""
        rows.append((one.name or "(unnamed)", f"{' and '.join(said)} of {one.numel:,}{first}"))
    return Highlights(rows=tuple(rows))
