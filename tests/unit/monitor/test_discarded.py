"""What a flight file says of gradients that were discarded before a run was stopped."""

import io
import math
from pathlib import Path
from typing import Any

import pytest

import postmortem
from postmortem.diagnose.numerics.flight_verdict import find_first_bad, what_failed
from postmortem.readers.flight import read_flight

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

nn = torch.nn


def train(watch: Any, bad: set[int], skipped: set[int]) -> None:
    optimizer = torch.optim.SGD(watch.model.parameters(), lr=0.01)
    with watch:
        for batch in range(12):
            loss = watch.model(torch.ones(2, 4)).square().mean()
            (loss * math.inf if batch in bad else loss).backward()
            if batch not in skipped:
                optimizer.step()
            optimizer.zero_grad()


def stopped(flight: Path, bad: set[int], skipped: set[int], last: int = 9) -> int | None:
    """Train; return the batch whose gradient the monitor stopped for, if any."""
    watch = postmortem.NumericsMonitor(
        nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2)),
        flight=flight,
        out=io.StringIO(),
        abort_after_batch=last,
    )
    with pytest.raises(postmortem.NumericsError) as raised:
        train(watch, bad, skipped)
    found = raised.value.first_bad
    return None if found is None else found.batch


@pytest.mark.parametrize(
    ("bad", "skipped", "batch", "confidence"),
    [
        ({6}, set(), 6, "certain"),
        ({2, 6}, {2}, 6, "certain"),
        ({2, 5, 6}, {2, 5}, 5, "likely"),  # those of 5 may have been kept, for all the file tells
    ],
)
def test_the_gradient_of_the_last_bad_batches_is_named(
    bad: set[int], skipped: set[int], batch: int, confidence: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.flight"
    assert stopped(path, bad, skipped) == max(bad)
    found = what_failed(read_flight(path)[0])
    assert found is not None
    assert (found.batch, found.confidence) == (batch, confidence)


def test_a_discarded_gradient_is_not_why_a_run_was_stopped(tmp_path: Path) -> None:
    path = tmp_path / "a.flight"
    assert stopped(path, {2}, {2}, last=5) is None
    flight, _ = read_flight(path)
    assert flight.recorder.ended == "stopped"
    assert find_first_bad(flight) is not None
    assert what_failed(flight) is None
