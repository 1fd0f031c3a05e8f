"""What a scan of checkpoints says first."""

from collections.abc import Sequence

from postmortem.diagnose.tensors.series import Series
from postmortem.facts.tensors import Tensors
from postmortem.report.model import Diagnosis
from postmortem.text import counted


def headline(
    tensors: Tensors,
    diagnoses: Sequence[Diagnosis],
    found: Series | None,
    *,
    damaged: bool,
    unread: int,
) -> str:
    """Return which tensors are bad, and from which checkpoint on."""
    if tensors.bad:
        what = (
            diagnoses[0].title
            if diagnoses
            else f"NaN or Inf in {counted(len(tensors.bad), 'tensor')}"
        )
        return what if found is None else f"{what}; {_of_series(found)}"
    if not tensors.items:
        return (
            "the checkpoint is damaged: no tensor could be read"
            if damaged
            else "there is no tensor to scan"
        )
    count = counted(len(tensors.items), "tensor")
    if damaged:
        what = f"{counted(unread, 'file')} not read" if unread else "the checkpoint is damaged"
        return f"{what}; no NaN and no Inf in the {count} that could be read"
    clean = f"no NaN and no Inf in {count}"
    return clean if found is None else f"{clean} of {len(found.files)} checkpoints"


def _of_series(found: Series) -> str:
    """Return ``last clean: step_20.pt, first bad: step_30.pt``."""
    names = _short(found.files)
    if found.first_bad is None:
        return f"all {len(found.files)} checkpoints are clean"
    said = f"first bad: {names[found.first_bad]}"
    if found.last_clean is None:
        said += f", the oldest of {len(found.files)}"
    else:
        said = f"last clean: {names[found.last_clean]}, {said}"
    again = found.clean_again
    return said if again is None else f"{said}, clean again: {names[again]}"


def _short(files: Sequence[str]) -> dict[str, str]:
    """Return the part of each path in which it differs from the others: ``step-200``."""
    parts = [file.split("/") for file in files]
    differ = [i for i, names in enumerate(zip(*parts, strict=False)) if len(set(names)) > 1]
    first, last = differ[0], differ[-1]
    return {f: "/".join(row[first : last + 1]) for f, row in zip(files, parts, strict=True)}
