"""Values are close to the end of their data type's range.

What it means
    A value above a quarter of the largest that the data type has: two of them added or squared
    overflow to Inf. In float16 (65504) that happens to activations and loss scales long before
    anything else looks wrong.
How to be sure
    Compare with an older checkpoint: values that grow from one to the next will get there.
What to do
    Keep these tensors in bfloat16 or float32, clip gradients, or lower the learning rate.
"""

from postmortem import thresholds
from postmortem.diagnose.names import clip
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, Role, rule
from postmortem.facts.dtypes import RANGES
from postmortem.facts.tensors import Tensors
from postmortem.text import more

_TYPES = ("float16", "float8_e5m2", "float8_e5m2fnuz", "bfloat16", "float32")
_LARGEST = {name: RANGES[name].largest for name in _TYPES}
"""The largest finite value; e4m3 is left out: its scaled tensors are meant to reach it."""


@rule("https://docs.pytorch.org/docs/stable/type_info.html", role=Role.CONTEXT)
def near_overflow(tensors: Tensors) -> Findings:
    close = [
        tensor
        for tensor in tensors
        if tensor.abs_max_finite
        > thresholds.NEAR_OVERFLOW_SHARE * _LARGEST.get(tensor.dtype, float("inf"))
    ]
    if not close:
        return
    worst = max(close, key=lambda t: t.abs_max_finite / _LARGEST[t.dtype])
    share = worst.abs_max_finite / _LARGEST[worst.dtype]
    rest = more(len(close) - 1)
    yield Finding(
        title=clip(
            f"{clip(worst.name, 50)}{rest} at {share:.0%} of the range of {worst.dtype}", 100
        ),
        cause=f"its largest finite value is {worst.abs_max_finite:.6g}; {worst.dtype} ends at "
        f"{_LARGEST[worst.dtype]:.6g}",
        confidence=Confidence.POSSIBLE,
        next_steps=("scan an older checkpoint: do these values grow?",),
        evidence=tuple(
            Evidence(f"{t.file}: {t.name}", f"{t.dtype}, largest |x| {t.abs_max_finite:.6g}")
            for t in close[:6]
        ),
    )
