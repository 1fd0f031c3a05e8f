"""Kind ``scan``: checkpoints; and the numbers of a tensor wherever they stand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from postmortem.facts.tensors import NanNumber
from postmortem.report.contract import Shape

if TYPE_CHECKING:
    from postmortem.diagnose.tensors.series import Series


class Numbers(Shape):
    numel: int
    abs_min: float | None
    """of all but NaN; null where nothing is left"""
    abs_max: float | None
    abs_min_nonzero: float | None
    abs_max_finite: float | None
    nan_count: int
    inf_count: int
    zero_count: int
    subnormal_count: int
    first_nonfinite: int | None
    """flat index in C order"""


class TensorName(Shape):
    name: str
    file: str
    dtype: str
    shape: list[int]


class Tensor(Numbers, TensorName):
    pass


class Scan(Shape):
    tensors: list[Tensor]
    """the worst first"""
    nan_numbers: list[NanNumber]
    """plain numbers of pickled checkpoints, Python's and NumPy's, that are NaN (a loss, a metric);
    of a file the first thousand. They are no reason for exit status 1. An Inf is not listed: it is
    what a best loss begins with"""
    series: Series | None
    """several checkpoints of one model; null for one checkpoint, for shards and for other models"""
