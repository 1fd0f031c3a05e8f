"""Modules that write into what they are given, and give it back."""

import io
import math
from pathlib import Path
from typing import Any

import pytest

import postmortem
from builders.prose import Prose
from postmortem.diagnose.numerics.first_bad import Origin
from postmortem.diagnose.numerics.flight_verdict import find_first_bad
from postmortem.readers.flight import read_flight

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

nn = torch.nn


class Divides(nn.Module):
    """Divides in place by a sum that is 0."""

    def forward(self, x: Any) -> Any:
        return x.div_(x.sum() * 0)


def test_a_module_that_spoils_its_input_in_place_is_not_excused(
    tmp_path: Path, prose: Prose
) -> None:
    model = nn.Sequential(nn.Linear(4, 4), Divides(), nn.Linear(4, 4))
    with (
        pytest.raises(postmortem.NumericsError) as raised,
        postmortem.NumericsMonitor(model, out=io.StringIO(), flight=tmp_path / "a.flight"),
    ):
        model(torch.ones(1, 4))
    found = raised.value.first_bad
    assert found is not None
    assert (found.origin, found.module, found.confidence) == (Origin.BETWEEN, "1", "possible")
    prose(str(raised.value))
    again = find_first_bad(read_flight(tmp_path / "a.flight")[0])
    assert again is not None
    assert (again.sentence(), again.confidence) == (found.sentence(), "possible")


@pytest.mark.parametrize("after", [nn.Identity(), nn.Linear(4, 4)])
def test_a_new_tensor_of_the_code_between_is_not_the_modules_doing(after: Any) -> None:
    class Between(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.before, self.after = nn.Linear(4, 4), after

        def forward(self, x: Any) -> Any:
            return self.after(self.before(x) * math.nan)

    with (
        pytest.raises(postmortem.NumericsError) as raised,
        postmortem.NumericsMonitor(Between(), out=io.StringIO()) as monitor,
    ):
        monitor.model(torch.ones(1, 4))
    found = raised.value.first_bad
    assert found is not None
    assert (found.origin, found.module, found.confidence) == (Origin.BETWEEN, "after", "likely")
