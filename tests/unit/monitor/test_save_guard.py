"""What a checkpoint would hold."""

import math
from typing import Any

import pytest

import postmortem
from builders.prose import Prose
from postmortem.diagnose.numerics.first_bad import FirstBad

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

nn = torch.nn


class Keeps(nn.Module):
    """Has buffers of all kinds; infinities are meant in some."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.head = nn.BatchNorm1d(4), nn.Linear(4, 2)
        self.register_buffer("least", torch.tensor(math.inf))
        self.register_buffer("causal", torch.full((4, 4), -math.inf).triu(1))
        self.register_buffer("scratch", torch.full((4,), math.nan), persistent=False)
        self.register_buffer("average", torch.zeros(4))
        self.register_buffer("nothing", None)


def bad_in(model: Any) -> FirstBad | None:
    return postmortem.NumericsMonitor(model).check_before_saving()


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("norm.running_mean", math.nan, "norm.running_mean"),
        ("norm.running_var", math.inf, "norm.running_var"),
        ("average", math.nan, ".average"),
        ("head.weight", math.inf, "head.weight"),
    ],
)
def test_what_is_spoiled_is_named(name: str, value: float, says: str) -> None:
    model = Keeps()
    assert bad_in(model) is None
    model.state_dict()[name].view(-1)[1] = value
    found = bad_in(model)
    assert found is not None
    assert f"{found.module}.{found.cell}" == says


def test_since_when_a_weight_is_bad_is_told_of_its_last_call(prose: Prose) -> None:
    model = nn.Linear(2, 2)
    with postmortem.NumericsMonitor(model) as monitor:
        model(torch.ones(2))
        model.weight.data[0, 0] = math.nan
        found = monitor.check_before_saving()
    assert found is not None
    prose(*found.hints)
