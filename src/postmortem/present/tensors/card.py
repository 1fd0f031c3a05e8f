"""What a scan puts on its card: the worst tensors, counted."""

from postmortem.diagnose.tensors.series import Series, where_it_began
from postmortem.facts.tensors import Tensors
from postmortem.present.tensors.body import worst_first
from postmortem.report.card import Highlights
from postmortem.text import counted

_MOST = 6


def scan_highlights(tensors: Tensors, found: Series | None) -> Highlights:
    """Return the tensors with NaN or Inf, the worst first; of a series, where they begin."""
    bad = [tensor for tensor in worst_first(where_it_began(tensors, found)) if tensor.bad_count]
    if not bad:
        return Highlights()
    rows = []
    for one in bad[:_MOST]:
        said = [f"{one.nan_count:,} NaN"] if one.nan_count else []
        said += [f"{one.inf_count:,} Inf"] if one.inf_count else []
        first = f", the first at {one.first_nonfinite:,}" if one.first_nonfinite is not None else ""
        rows.append((one.name or "(unnamed)", f"{' and '.join(said)} of {one.numel:,}{first}"))
    left = len(bad) - len(rows)
    rest = f"{counted(left, 'more tensor')} with NaN or Inf" if left else None
    return Highlights(rows=tuple(rows), rest=rest)
