"""Since when a weight has been bad, as far as the frames before tell."""

from collections.abc import Sequence

from postmortem.facts.frames import CellKind, Frame


def clean_batch(module: str, cell: str, before: Sequence[Frame]) -> int | None:
    """Return the last batch in which a weight of a module was read and held neither NaN nor Inf."""
    for frame in reversed(before):
        if frame.module != module:
            continue
        for one in frame.cells:
            named = one.kind is CellKind.WEIGHT and one.name == cell
            if named and one.numbers is not None and one.numbers.is_finite:
                return frame.batch
    return None


def weight_hint(batch: int, clean: int | None) -> str:
    """Return when a weight became bad that is bad in `batch` and was `clean` in that one before."""
    if clean == batch:
        return "it was clean earlier in this batch: something wrote to it while the batch ran"
    if clean is not None and clean == batch - 1:
        return "it became bad after the batch before: as a rule by the step of the optimizer"
    if clean is not None:
        return (
            f"it was clean in batch {clean}, and was not looked at since: as a rule a step of the "
            "optimizer made it bad"
        )
    if batch == 0:
        return "it was bad when training began: scan the checkpoint that was loaded"
    return (
        "nothing shows it clean before: it was bad in the checkpoint that was loaded (scan it), or "
        "was written to since, as a rule by a step of the optimizer"
    )
