"""Bad tensors in attributes, and bad data that a model may have replaced: told, and less sure."""

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
BAD = torch.tensor([1.0, math.nan])


class Batch:
    """A class of a user that is no container."""

    def __init__(self, x: Any) -> None:
        self.x = x


class Reads(nn.Module):
    """Reads what it was given, and a tensor of its own that is no buffer."""

    def __init__(self, scale: Any, kept: Any = None) -> None:
        super().__init__()
        self.scale, self.kept, self.spoils = scale, kept, 1.0

    def forward(self, x: Any) -> Any:
        return (x.x if isinstance(x, Batch) else x) * self.scale * self.spoils


def found_in(model: nn.Module, given: Any, flight: Path) -> tuple[FirstBad, str]:
    out = io.StringIO()
    with (
        pytest.raises(postmortem.NumericsError) as raised,
        postmortem.NumericsMonitor(model, out=out, flight=flight),
    ):
        model(given)
    found = raised.value.first_bad
    assert found is not None
    again = find_first_bad(read_flight(flight)[0])
    assert again is not None
    assert (again.sentence(), again.confidence) == (found.sentence(), found.confidence)
    assert again.hints == found.hints
    return found, out.getvalue()


@pytest.mark.parametrize(
    ("scale", "given", "name"),
    [
        (BAD, torch.ones(2), "0.scale (of Reads)"),
        ([torch.ones(2), {"b": BAD}], torch.ones(2), "0.scale[1][b] (of Reads)"),
        (torch.ones(2), Batch(BAD), "input[0].x (of Batch)"),
    ],
)
def test_a_bad_attribute_is_told_beside_a_producer(
    scale: Any, given: Any, name: str, tmp_path: Path, prose: Prose
) -> None:
    model = nn.Sequential(Reads(scale))
    if isinstance(scale, list):
        model[0].forward = lambda x: x * scale[1]["b"]
    found, out = found_in(model, given, tmp_path / "a.flight")
    assert (found.origin, found.module, found.confidence) == (Origin.PRODUCER, "0", "likely")
    assert name.partition(" ")[0] in found.sentence()
    assert found.hints[0].startswith(name)
    prose(found.sentence(), found.hints[0])
    assert found.hints[0] in out


def test_clean_attributes_masks_and_what_a_pass_left_are_no_doubt(tmp_path: Path) -> None:
    mask = torch.full((2, 2), -math.inf).triu(1)
    left = torch.ones(1, requires_grad=True) * math.nan
    model = nn.Sequential(Reads(torch.ones(2), [mask, left, torch.ones(1)]))
    model[0].spoils = math.nan
    found, _ = found_in(model, torch.ones(2), tmp_path / "a.flight")
    assert (found.origin, found.confidence, found.hints) == (Origin.PRODUCER, "certain", ())


class Replaces(nn.Module):
    """Replaces NaN in its data, and divides 0 by 0 between its layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(2, 4), nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        x = self.first(torch.nan_to_num(x))
        return self.second((x - x) / (x - x))


def test_data_that_was_replaced_is_no_certain_culprit(tmp_path: Path, prose: Prose) -> None:
    found, _ = found_in(Replaces(), BAD, tmp_path / "a.flight")
    assert (found.origin, found.confidence) == (Origin.BATCH, "likely")
    prose(found.hints[1])


def test_data_that_reaches_the_first_module_is_a_certain_culprit(tmp_path: Path) -> None:
    found, _ = found_in(nn.Sequential(nn.Linear(2, 2)), BAD, tmp_path / "a.flight")
    assert (found.origin, found.confidence) == (Origin.BATCH, "certain")


def test_a_loss_within_the_model_is_told_as_one(tmp_path: Path, prose: Prose) -> None:
    class Loses(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(2, 3)

        def forward(self, x: Any) -> Any:
            logits = self.head(x)
            ignored = torch.full((1,), -100)
            return {"loss": nn.functional.cross_entropy(logits[None], ignored), "logits": logits}

    found, _ = found_in(Loses(), torch.ones(2), tmp_path / "a.flight")
    assert (found.origin, found.cell) == (Origin.PRODUCER, "output[loss]")
    prose(found.hints[0])
