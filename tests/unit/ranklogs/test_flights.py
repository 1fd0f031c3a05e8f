"""Files of the numerics monitor beside the logs of a job."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from postmortem.analyses.ranklogs import RankLogOptions, analyse

torch = pytest.importorskip("torch")

from postmortem import NumericsMonitor  # noqa: E402


def watched(folder: Path, *values: float) -> None:
    """Run a small model on inputs of these values; the monitor stops it where they are bad."""
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.GELU())
    try:
        with NumericsMonitor(model, flight=folder, out=io.StringIO()):
            for value in values:
                model(torch.full((2, 3), value))
    except ValueError:
        pass


def first_failure(folder: Path) -> Any:
    """What the report on the folder says of who failed first."""
    body: Any = analyse([str(folder)], RankLogOptions()).body
    return body["first_failure"]


def test_the_module_is_named(tmp_path: Path) -> None:
    watched(tmp_path, 1.0, float("inf"))
    report = analyse([str(tmp_path)], RankLogOptions())
    assert report.failed
    assert "went bad first" in report.verdict
    found = first_failure(tmp_path)
    assert found["label"] == "the only process"
    assert found["file"].endswith("rank0.flight")


def test_numbers_that_stayed_good_are_no_failure(tmp_path: Path) -> None:
    watched(tmp_path, 1.0, 2.0)
    assert not analyse([str(tmp_path)], RankLogOptions()).failed


def test_the_last_run_counts(tmp_path: Path) -> None:
    watched(tmp_path, float("nan"))
    watched(tmp_path, 1.0)
    assert len(list(tmp_path.iterdir())) == 2
    assert not analyse([str(tmp_path)], RankLogOptions()).failed


def test_gradients_that_were_discarded_are_no_failure(tmp_path: Path) -> None:
    model = torch.nn.Linear(3, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127)
    with NumericsMonitor(model, flight=tmp_path, out=io.StringIO()):
        for _ in range(3):
            loss = model(torch.full((2, 3), 1e3)).square().sum()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    report = analyse([str(tmp_path)], RankLogOptions())
    assert not report.failed, report.verdict
