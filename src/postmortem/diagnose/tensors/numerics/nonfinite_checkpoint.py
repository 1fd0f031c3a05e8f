"""A checkpoint holds NaN or Inf.

What it means
    The values were bad when they were saved: a step before it gave NaN or Inf to weights or to
    the optimizer's state. One step with a bad gradient is enough to put NaN into every weight;
    a few bad values in one tensor point to that tensor's own module.
How to be sure
    The counts are of the file's own bits. Masks and buffers may hold -inf on purpose: names
    like `mask` or `bias` with Inf and no NaN.
What to do
    Go back to the last checkpoint without bad values; scan the older ones to find when they
    came. Then run from there with a numerics monitor, a lower learning rate, or in bfloat16
    instead of float16.
"""

from collections.abc import Sequence

from postmortem.diagnose.names import clip
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, Role, rule
from postmortem.diagnose.tensors.series import Series, is_mask, is_meant, series, where_it_began
from postmortem.facts.tensors import ScannedTensor, Tensors
from postmortem.patterns import Pattern
from postmortem.text import more

_OPTIMIZER = Pattern(r"(?i)(?:^|[._/])(?:optim\w*|exp_avg\w*|momentum\w*|master\w*)(?:$|[._/])")
_MOST_CITED = 6


@rule(
    "https://docs.pytorch.org/docs/stable/notes/amp_examples.html",
    "https://huggingface.co/docs/transformers/debugging",
)
def nonfinite_checkpoint(tensors: Tensors) -> Findings:
    if not tensors.bad:
        return
    order = series(tensors)
    told = where_it_began(tensors, order)
    bad = told.bad
    floats = [t for t in told if t.is_floating and t.numel]
    whole = [t for t in bad if t.bad_count >= t.numel]
    state = [t for t in bad if _OPTIMIZER.search(t.name)]
    if all(map(is_meant, bad)):
        masks = all(map(is_mask, bad))
        what = "masks" if masks else "a best value so far"
        yield Finding(
            title=f"Inf in {_names(bad)}: {what} may hold it on purpose",
            cause="only tensors that are masks, or the best value so far, by their names hold Inf, "
            "and none holds NaN",
            confidence=Confidence.POSSIBLE,
            next_steps=("compare with a checkpoint that works: are they Inf there too?",),
            evidence=_cited(bad),
            role=Role.CONTEXT,
        )
        return
    bad = tuple(tensor for tensor in bad if not is_meant(tensor))
    yield Finding(
        title=_title(bad, floats, whole, state) + _where(bad, told),
        title_letters=120,
        cause=_cause(bad, floats, whole, state),
        confidence=Confidence.CERTAIN,
        next_steps=_ARRAY_STEPS if all(map(_is_array, bad)) else _steps(state, order),
        evidence=_cited(bad),
    )


_ARRAY_STEPS = (
    "look at what wrote this array: a division by zero, a log of zero, or missing values in the "
    "data; np.seterr(all='raise') stops where NumPy makes them",
    "if it is input of a training: numpy.isfinite() over each batch, or replace the bad values",
)


def _is_array(tensor: ScannedTensor) -> bool:
    """Return whether a tensor is an array by itself, and no part of a checkpoint."""
    return tensor.file.endswith((".npy", ".npz"))


def _steps(state: Sequence[ScannedTensor], order: Series | None) -> tuple[str, ...]:
    spoils = (
        "bad optimizer state alone is enough to spoil the weights"
        if state
        else "a bad weight spoils all others within a step"
    )
    back = [
        "postmortem scan OLDER-CHECKPOINTS: the last one without bad values is where to go on",
        f"do not resume from this one: {spoils}",
    ]
    if order is not None and order.last_clean is not None:
        back = [f"go on from {order.last_clean}, not from a later one: {spoils}"]
    return (
        *back,
        "from there, find the first bad module: postmortem run --numerics -- CMD; then perhaps "
        "bfloat16 in place of float16, or a lower learning rate",
    )


def _names(bad: Sequence[ScannedTensor]) -> str:
    rest = more(len(bad) - 1)
    return f"{clip(_name(bad[0]), 60)}{rest}"


def _name(tensor: ScannedTensor) -> str:
    """Return its name; torch.save() of a tensor by itself gives it none."""
    return tensor.name or "the tensor"


def _kinds(bad: Sequence[ScannedTensor]) -> str:
    words = [
        word
        for word, found in (
            ("NaN", any(t.nan_count for t in bad)),
            ("Inf", any(t.inf_count for t in bad)),
        )
        if found
    ]
    return " and ".join(words)


def _title(
    bad: Sequence[ScannedTensor],
    floats: Sequence[ScannedTensor],
    whole: Sequence[ScannedTensor],
    state: Sequence[ScannedTensor],
) -> str:
    kinds = _kinds(bad)
    if len(floats) > 1 and len(bad) == len(floats):
        return f"{kinds} in every one of {len(floats):,} float tensors of the checkpoint"
    if len(state) == len(bad):
        return f"{kinds} in the optimizer's state only: {_names(bad)}"
    if len(bad) == 1:
        tensor = bad[0]
        share = "all" if whole else f"{tensor.bad_count:,} of {tensor.numel:,}"
        return f"{kinds} in {clip(_name(tensor), 50)} ({share} values)"
    return f"{kinds} in {len(bad):,} of {len(floats):,} float tensors: {_names(bad)}"


def _cause(
    bad: Sequence[ScannedTensor],
    floats: Sequence[ScannedTensor],
    whole: Sequence[ScannedTensor],
    state: Sequence[ScannedTensor],
) -> str:
    nans, infs = sum(t.nan_count for t in bad), sum(t.inf_count for t in bad)
    text = f"{nans:,} NaN and {infs:,} Inf in {len(bad):,} of {len(floats):,} float tensors"
    if len(floats) > 1 and len(whole) == len(floats):
        return f"{text}, all of their values: an optimizer step with a NaN gradient norm does that"
    if state and len(state) == len(bad):
        return f"{text}: the weights are still good, but the next step spoils them"
    if state:
        return f"{text}, {len(state):,} of them optimizer state"
    return text


def _where(bad: Sequence[ScannedTensor], tensors: Tensors) -> str:
    """Return which of several checkpoints are bad, where each is in a folder of its own."""
    folders = {tensor.file.rpartition("/")[0] for tensor in tensors}
    spoilt = {tensor.file.rpartition("/")[0] for tensor in bad}
    if len(folders) == len(spoilt):
        return ""
    if len(spoilt) > 1:
        return f", in {len(spoilt)} of {len(folders)} folders"
    (only,) = spoilt
    return f", only in {clip(only.rpartition('/')[2] or '.', 30)}"


def _cited(bad: Sequence[ScannedTensor]) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(
            f"{tensor.file}: {tensor.name}" if tensor.name else tensor.file,
            f"{tensor.nan_count:,} NaN, {tensor.inf_count:,} Inf of {tensor.numel:,} values, "
            f"first at flat index {tensor.first_nonfinite:,}",
        )
        for tensor in bad[:_MOST_CITED]
        if tensor.first_nonfinite is not None
    )
