"""Bad weights and buffers that are read by code which does not call their module."""

import io
import math
from pathlib import Path
from typing import Any

import pytest

import postmortem
from builders.prose import Prose
from postmortem.diagnose.numerics.first_bad import FirstBad, Origin
from postmortem.diagnose.numerics.flight_verdict import find_first_bad
from postmortem.readers.flight import read_flight

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

nn = torch.nn


class Seen(nn.Module):
    """Reads a weight of its own between two modules, as position embeddings are."""

    def __init__(self) -> None:
        super().__init__()
        self.patch, self.head = nn.Linear(8, 8), nn.Linear(8, 2)
        self.position = nn.Parameter(torch.zeros(4, 8))
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.norm = nn.BatchNorm1d(4)
        self.register_buffer("frequencies", torch.ones(8))
        self.register_buffer("causal", torch.full((4, 4), -math.inf).triu(1))
        self.grows = False

    def forward(self, x: Any) -> Any:
        x = self.norm(self.patch(x)) * self.frequencies + self.position
        x, _ = self.attention(x, x, x, attn_mask=self.causal)
        return self.head(x * 1e30 * 1e30 if self.grows else x)


def found_in(model: nn.Module, **options: Any) -> FirstBad:
    with (
        pytest.raises(postmortem.NumericsError) as raised,
        postmortem.NumericsMonitor(model, out=io.StringIO(), **options),
    ):
        model(torch.randn(2, 4, 8))
    assert raised.value.first_bad is not None
    return raised.value.first_bad


@pytest.mark.parametrize(
    ("name", "module", "confidence"),
    [
        ("position", "", "likely"),
        ("attention.out_proj.weight", "attention.out_proj", "certain"),
        ("frequencies", "", "likely"),
        ("norm.running_var", "norm", "likely"),
    ],
)
def test_the_tensor_is_named_and_not_who_read_it(
    tmp_path: Path, name: str, module: str, confidence: str, prose: Prose
) -> None:
    model = Seen().eval()
    model.state_dict()[name].view(-1)[0] = math.nan
    found = found_in(model, flight=tmp_path / "one.flight")
    assert (found.origin, found.module) == (Origin.WEIGHT, module)
    assert (found.cell, found.confidence) == (name.rpartition(".")[2], confidence)
    prose(found.hints[0])
    flight, problems = read_flight(tmp_path / "one.flight")
    again = find_first_bad(flight)
    assert again is not None
    assert not problems
    assert (again.sentence(), again.hints) == (found.sentence(), found.hints)


def test_masks_in_buffers_and_statistics_of_the_batch_are_no_cause() -> None:
    model = Seen()
    model.grows = True
    model.norm.running_var[0] = math.nan  # not read in training
    found = found_in(model)
    assert (found.origin, found.module, found.cell) == (Origin.BETWEEN, "head", "input[0]")


def test_infinities_of_one_sign_may_be_a_mask_that_a_module_makes(prose: Prose) -> None:
    class Router(nn.Module):
        def forward(self, x: Any) -> Any:
            return x.masked_fill(x < 0, -math.inf)

    found = found_in(nn.Sequential(Router()))
    assert (found.origin, found.confidence) == (Origin.PRODUCER, "likely")
    prose(found.hints[0])


def test_the_loss_is_named_where_the_first_gradient_is_bad(prose: Prose) -> None:
    model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(15)))  # more weights than frames kept
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with postmortem.NumericsMonitor(model, out=io.StringIO()) as monitor:
        (model(torch.ones(1, 4)).sum() * math.nan).backward()
        with pytest.raises(postmortem.NumericsError):
            optimizer.step()
    found = monitor.first_bad
    assert found is not None
    assert (found.origin, found.module) == (Origin.GRADIENT, "14")
    prose(found.hints[1])
