"""What a scan of checkpoints says first."""

from collections.abc import Sequence

from postmortem.diagnose.tensors.series import Series
from postmortem.facts.tensors import NanNumber, Tensors
from postmortem.report.model import Diagnosis
from postmortem.text import counted


def headline(
    tensors: Tensors,
    diagnoses: Sequence[Diagnosis],
    found: Series | None,
    *,
    damaged: bool,
    unread: int,
    skipped: bool,
    numbers: Sequence[NanNumber],
) -> str:
    """Return which tensors are bad, and from which checkpoint on.

    `skipped`: there are tensors of a form that is not scanned. `numbers` stand beside the tensors.
    """
    if tensors.bad:
        what = (
            diagnoses[0].title
            if diagnoses
            else f"NaN or Inf in {counted(len(tensors.bad), 'tensor')}"
        )
        return what if found is None else f"{what}; {_of_series(found)}"
    if not tensors.items:
        if damaged:
            return "the checkpoint is damaged: no tensor could be read"
        none = "no tensor could be scanned" if skipped else "there is no tensor to scan"
        return none + _but(numbers)
    count = counted(len(tensors.items), "tensor")
    if damaged:
        what = f"{counted(unread, 'file')} not read" if unread else "the checkpoint is damaged"
        return f"{what}; no NaN and no Inf in the {count} that could be read"
    clean = f"no NaN and no Inf in {count}"
    of = "" if found is None else f" of {len(found.files)} checkpoints"
    return clean + of + _but(numbers)


def _but(numbers: Sequence[NanNumber]) -> str:
    """A training that went wrong may have saved its NaN loss beside weights that are finite."""
    names = list(dict.fromkeys(number.name or "without a name" for number in numbers))
    if len(names) > 1:
        return f", but {names[0]} and {counted(len(names) - 1, 'more number')} are NaN"
    return f", but the number {names[0]} is NaN" if names else ""


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
