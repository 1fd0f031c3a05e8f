"""Files of the numerics monitor beside the logs of a job."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from builders.prose import Prose
from postmortem.analyses.ranklogs import RankLogOptions, analyse
from postmortem.diagnose.numerics.first_bad import Origin
from postmortem.diagnose.numerics.flight_verdict import what_failed
from postmortem.readers.flight import read_flight
from postmortem.report.blocks import Excerpt

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


def went_bad(folder: Path) -> tuple[Origin, str, str]:
    """What went bad first in the file of rank 0, of which module."""
    found = what_failed(read_flight(folder / "rank0.flight")[0])
    assert found is not None
    return found.origin, found.class_name, found.cell


def test_the_module_is_named(tmp_path: Path, prose: Prose) -> None:
    watched(tmp_path, 1.0, float("inf"))
    report = analyse([str(tmp_path)], RankLogOptions())
    assert [one.id for one in report.diagnoses] == ["numbers_first_bad"]
    found = first_failure(tmp_path)
    prose(found["label"])
    assert found["file"].endswith("rank0.flight")


def test_numbers_that_stayed_good_are_no_failure(tmp_path: Path) -> None:
    watched(tmp_path, 1.0, 2.0)
    assert not analyse([str(tmp_path)], RankLogOptions()).failed


def test_the_last_run_counts(tmp_path: Path) -> None:
    watched(tmp_path, float("nan"))
    watched(tmp_path, 1.0)
    assert len(list(tmp_path.iterdir())) == 2
    assert not analyse([str(tmp_path)], RankLogOptions()).failed


def trained(rank: int) -> Any:
    """Train: rank 0 evaluates too and makes a bad gradient, which rank 1 has in its weights."""
    model = torch.nn.Linear(3, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train() -> None:
        model(torch.ones(1, 3))
        if rank == 1:
            with torch.no_grad():
                model.weight.fill_(float("nan"))
        for _ in range(3):
            model(torch.ones(1, 3))
        (model(torch.ones(1, 3)).sum() * float("inf")).backward()
        optimizer.step()

    return model, train


def test_a_rank_that_counts_more_batches_is_named_where_its_numbers_were_bad_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank in range(2):
        monkeypatch.setenv("RANK", str(rank))
        model, train = trained(rank)
        with (
            pytest.raises(ValueError, match="bad"),
            NumericsMonitor(model, flight=f"{tmp_path}/", out=io.StringIO()),
        ):
            train()
    found = first_failure(tmp_path)
    assert found["rank"] == 0
    report = analyse([str(tmp_path)], RankLogOptions())
    assert [one.id for one in report.diagnoses] == ["numbers_first_bad"]
    assert went_bad(tmp_path) == (Origin.GRADIENT, "Linear", "bias")


def test_the_optimizers_state_is_the_gradients_doing(tmp_path: Path) -> None:
    """The monitor raises before a step; with several ranks the step is taken first."""
    model = torch.nn.Linear(3, 3)
    optimizer = torch.optim.Adam(model.parameters())
    monitor = NumericsMonitor(
        model, flight=tmp_path, out=io.StringIO(), optimizer_state=1, on_bad="report"
    )
    with monitor:
        for factor in (1.0, float("inf")):
            optimizer.zero_grad()
            (model(torch.ones(1, 3)).sum() * factor).backward()
            optimizer.step()
    assert went_bad(tmp_path) == (Origin.GRADIENT, "Linear", "bias")


def test_a_weight_is_told_with_when_it_was_clean(
    tmp_path: Path, golden: Callable[[str, str], None]
) -> None:
    model = torch.nn.Linear(3, 3)
    with NumericsMonitor(model, flight=tmp_path, out=io.StringIO()):
        model(torch.ones(1, 3))
        with torch.no_grad():
            model.weight[0, 0] = float("nan")
        with pytest.raises(ValueError, match="bad"):
            model(torch.ones(1, 3))
    (diagnosis,) = analyse([str(tmp_path)], RankLogOptions()).diagnoses
    assert went_bad(tmp_path) == (Origin.WEIGHT, "Linear", "weight")
    golden("weight_bad.txt", f"{diagnosis.cause}\n{diagnosis.next_steps[0]}\n")


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


def test_a_process_that_was_killed_is_no_run_that_went_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Callable[[str, str], None]
) -> None:
    """What a killed process leaves: no word of an end."""
    monkeypatch.setenv("WORLD_SIZE", "3")
    monitors = []
    for rank, batches in ((0, 3), (2, 2), (1, 4)):
        monkeypatch.setenv("RANK", str(rank))
        model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.GELU())
        monitor = NumericsMonitor(model, flight=f"{tmp_path}/", process_group=None).attach()
        monitors.append(monitor)
        for _ in range(batches):
            model(torch.ones(2, 3))
    report = analyse([str(tmp_path)], RankLogOptions())
    assert not report.failed
    verdicts = [report.verdict]
    (block,) = (one for one in report.blocks if isinstance(one, Excerpt))
    for monitor in monitors[:2]:
        monitor.detach()
    verdicts.append(analyse([str(tmp_path)], RankLogOptions()).verdict)
    monitors[2].detach()
    report = analyse([str(tmp_path)], RankLogOptions())
    assert report.blocks == ()
    told = [*verdicts, report.verdict, str(block.title)]
    golden("no_end.txt", "".join(f"{words}\n" for words in told))
