"""Numbers that come later, as those of a device do: nobody waits for them in a training step."""

from __future__ import annotations

import contextlib
import io
import math
from typing import Any

import pytest

import postmortem
from builders.prose import Prose
from postmortem.diagnose.numerics.first_bad import Origin
from postmortem.scan import ScanResult

torch = pytest.importorskip("torch")
from postmortem.monitor.scans import Scans, scan_any  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

nn = torch.nn


class Pending:
    """Numbers on their way: read before they have come, they count a wait."""

    def __init__(self, device: Device, numbers: ScanResult) -> None:
        self._device, self._numbers, self._at = device, numbers, device.clock

    def ready(self) -> bool:
        return self._device.clock - self._at >= self._device.takes

    def __call__(self) -> tuple[int | float, ...]:
        self._device.waits += not self.ready()
        n = self._numbers
        counts = (n.numel, n.nan_count, n.inf_count, n.zero_count, n.subnormal_count)
        first = -1 if n.first_nonfinite is None else n.first_nonfinite
        return (*counts, first, n.abs_min, n.abs_max, n.abs_min_nonzero, n.abs_max_finite)


class Device:
    """Scans in memory whose numbers come some ticks later; the clock ticks where a test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, takes: int) -> None:
        self.clock = self.waits = 0
        self.takes = takes
        self._known: dict[tuple[int, int], tuple[Any, ScanResult]] = {}

        def numbers(scans: Scans, tensor: Any) -> ScanResult:
            key = (id(tensor), tensor._version)
            if key not in self._known:
                found = scan_any(tensor)
                assert isinstance(found, ScanResult)
                later = ScanResult._later(found.dtype, Pending(self, found))
                self._known[key] = tensor, later  # kept, so that the id stays its own
            return self._known[key][1]

        monkeypatch.setattr(Scans, "numbers", numbers)
        call = "postmortem.monitor.scans.CallScans"
        monkeypatch.setattr(call, lambda: type("Calls", (), CALLS)())


CALLS = {
    "scanned": 0,
    "spared": 0,
    "opaque": set(),
    "call": lambda *_: -1,
    "forget": lambda *_: None,
    "numbers": lambda *_: None,  # of tensors that are in memory only
    "weights": lambda *_: None,
}


def step(device: Device, model: Any, optimizer: Any, factors: list[float]) -> None:
    for factor in factors:
        device.clock += 1
        (model(torch.ones(2, 4)).sum() * factor).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()


@pytest.mark.parametrize(
    ("factors", "batch"), [([math.nan], 5), ([1.0, 1.0, math.nan], 17), ([1.0, math.nan, 1.0], 16)]
)
def test_no_step_waits_and_what_was_applied_is_told(
    monkeypatch: pytest.MonkeyPatch, factors: list[float], batch: int, prose: Prose
) -> None:
    device = Device(monkeypatch, takes=1)
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with contextlib.suppress(postmortem.NumericsError):
        monitor = postmortem.NumericsMonitor(model, out=io.StringIO()).attach()
        for _ in range(5):
            step(device, model, optimizer, [1.0] * len(factors))
        assert device.waits == 0
        step(device, model, optimizer, factors)
        step(device, model, optimizer, factors)
    found = monitor.first_bad
    assert found is not None
    assert (found.origin, found.module, found.batch) == (Origin.GRADIENT, "1", batch)
    prose(found.hints[0])


def test_gradients_that_a_scaler_drops_are_not_told_late(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Device(monkeypatch, takes=1)
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with postmortem.NumericsMonitor(model, out=io.StringIO()) as monitor:
        for batch in range(6):
            (model(torch.ones(2, 4)).sum() * (math.inf if batch % 2 else 1.0)).backward()
            device.clock += 1
            if not batch % 2:
                optimizer.step()
            optimizer.zero_grad()
    assert monitor.first_bad is None
    assert monitor.discarded_batches == 2  # the last one is not followed by a batch


def test_an_input_that_was_given_back_is_known_when_its_numbers_come(
    monkeypatch: pytest.MonkeyPatch, prose: Prose
) -> None:
    class Divides(nn.Module):
        def forward(self, x: Any) -> Any:
            return x.div_(x.sum() * 0)

    Device(monkeypatch, takes=1)
    model = nn.Sequential(nn.Linear(4, 4), Divides(), nn.Linear(4, 2))
    with (
        pytest.raises(postmortem.NumericsError) as refused,
        postmortem.NumericsMonitor(model, out=io.StringIO()),
    ):
        model(torch.ones(2, 4))
    prose(refused.value)
