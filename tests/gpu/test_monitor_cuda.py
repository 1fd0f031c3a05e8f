"""The monitor on a GPU: who went bad first, and that no step waits for the device."""

import io
import math
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

import postmortem  # noqa: E402
from postmortem.diagnose.numerics.first_bad import Origin  # noqa: E402
from postmortem.readers.flight import read_flight  # noqa: E402

nn = torch.nn
DEVICE = "cuda"


class Scale(nn.Module):
    """Multiplies by a number that a test sets."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = 1.0

    def forward(self, x: Any) -> Any:
        return x * self.factor


def model_of_five() -> Any:
    torch.manual_seed(0)
    parts = [nn.Linear(64, 256), nn.GELU(), Scale(), nn.LayerNorm(256), nn.Linear(256, 64)]
    return nn.Sequential(*parts).to(DEVICE)


def step(model: Any, optimizer: Any, factor: float = 1.0) -> None:
    """One training step of two accumulated batches, that reads nothing back."""
    x = torch.ones(16, 64, device=DEVICE)
    for _ in range(2):
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            loss = model(x).float().square().mean()
        (loss * factor).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()


def optimizer_of(model: Any) -> Any:
    return torch.optim.AdamW(model.parameters(), lr=1e-3)


@pytest.fixture
def strict() -> Iterator[None]:
    """Any wait for the device is an error, from where the test switches it on."""
    yield
    torch.cuda.set_sync_debug_mode("default")


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize("more", [{}, {"gradients": False}, {"every": 3}])
def test_no_step_waits_for_the_device(tmp_path: Path, more: dict[str, Any]) -> None:
    model = model_of_five()
    optimizer = optimizer_of(model)
    with postmortem.NumericsMonitor(model, flight=tmp_path / "a.flight", **more) as monitor:
        for batch in range(12):
            if batch == 4:  # by then everything has its memory
                torch.cuda.set_sync_debug_mode("error")
            step(model, optimizer)
        torch.cuda.set_sync_debug_mode("default")
    assert monitor.first_bad is None
    assert monitor.batch == 24


def test_the_producer_is_named_though_its_numbers_come_late() -> None:
    model = model_of_five()
    optimizer = optimizer_of(model)
    monitor = postmortem.NumericsMonitor(model, out=io.StringIO(), on_bad="report").attach()
    for batch in range(10):
        model[2].factor = math.inf if batch >= 5 else 1.0
        step(model, optimizer)
    monitor.detach()
    found = monitor.first_bad
    assert found is not None
    assert (found.origin, found.module, found.batch) == (Origin.PRODUCER, "2", 10)


def test_a_gradient_that_goes_bad_is_told() -> None:
    model = model_of_five()
    optimizer = optimizer_of(model)
    monitor = postmortem.NumericsMonitor(model, out=io.StringIO(), on_bad="report").attach()
    for batch in range(10):
        step(model, optimizer, math.nan if batch == 6 else 1.0)
    monitor.detach()
    found = monitor.first_bad
    assert found is not None
    assert (found.origin, found.module, found.batch) == (Origin.GRADIENT, "4", 12)


def test_the_numbers_are_those_of_the_processor(tmp_path: Path) -> None:
    frames = {}
    for device in ("cpu", DEVICE):
        path = tmp_path / f"{device}.flight"
        model = model_of_five().to(device)
        with postmortem.NumericsMonitor(model, flight=path):
            model(torch.ones(16, 64, device=device))
        flight, problems = read_flight(path)
        assert problems == ()
        frames[device] = [
            (
                frame.module,
                [(c.kind, c.name, c.numbers.numel, c.numbers.nan_count) for c in frame.cells],
            )
            for frame in flight.frames
        ]
    assert len({row[0] for row in frames["cpu"]}) == 6
    assert frames["cpu"] == frames[DEVICE]


KILLED = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
import test_monitor_cuda as t
model = t.model_of_five()
optimizer = t.optimizer_of(model)
monitor = t.postmortem.NumericsMonitor(model, flight=sys.argv[2]).attach()
for batch in range(6):
    t.step(model, optimizer)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_flight_file_outlives_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "a.flight"
    here = Path(__file__).resolve().parent
    done = subprocess.run([sys.executable, "-c", KILLED, here, path], check=False, timeout=110)
    assert done.returncode == -signal.SIGKILL
    flight, problems = read_flight(path)
    assert problems == ()
    # Numbers come two batches late at most; those before are in the file.
    assert max(frame.batch for frame in flight.frames) >= 9


def test_a_compiled_model_is_watched_without_a_break() -> None:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    model = model_of_five()
    optimizer = optimizer_of(model)
    with postmortem.NumericsMonitor(model, gradients=False) as monitor:
        run = torch.compile(model)
        for _ in range(4):
            step(run, optimizer)
        made = monitor._records.made
    assert sum(torch._dynamo.utils.counters["graph_break"].values()) == 0
    assert made >= 2 * 6  # the last two steps' rows may be on their way still
    assert monitor.first_bad is None
