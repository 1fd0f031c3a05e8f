"""`postmortem diff` on flight files and traces of real trainings of a small model."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from builders.prose import Prose
from builders.schema import validate
from postmortem.cli.main import main

torch = pytest.importorskip("torch")
import postmortem  # noqa: E402

Change = Callable[[Any, Any], Any]


def train(path: Path, change: Change | None = None, dtype: Any = None) -> Path:
    """Train two batches and return the trace; `change` gets model and input, returns the input."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(4, 8),
        torch.nn.ReLU(),
        torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh()),
        torch.nn.Linear(8, 2),
    )
    data = torch.randn(16, 4)
    if change is not None:
        data = change(model, data)
    if dtype is not None:
        model, data = model.to(dtype), data.to(dtype)
    said = io.StringIO()
    monitor = postmortem.NumericsMonitor(
        model, flight=path, max_frames=100, trace_batches=(1,), out=said, on_bad="report"
    )
    with monitor:
        for _ in range(2):
            model.zero_grad()
            model(data).float().pow(2).mean().backward()
    trace = path.with_suffix(".txt")
    trace.write_text(f"epoch 1\n{said.getvalue()}\nloss 3.0e+00\n")
    return trace


def weight(model: Any, data: Any) -> Any:
    with torch.no_grad():
        model[2][0].weight[0, 0] += 3.0
    return data


def activation(model: Any, data: Any) -> Any:
    model[2][1] = torch.nn.Softplus()
    return data


def input_(model: Any, data: Any) -> Any:
    return data * 2


def nan(model: Any, data: Any) -> Any:
    with torch.no_grad():
        model[3].bias[0] = float("nan")
    return data


def diff(capsys: pytest.CaptureFixture[str], *words: str, code: int) -> dict[str, Any]:
    assert main(["diff", *words, "--json"]) == code
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    validate(report)
    return report


def test_the_same_training_is_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = tmp_path / "a.flight", tmp_path / "b.flight"
    train(a)
    train(b)
    report = diff(capsys, str(a), str(b), code=0)
    assert (report["first"], report["unequal"], report["outcome"]) == (None, None, "healthy")
    assert report["compared"] >= 12


@pytest.mark.parametrize(
    ("change", "module", "kind"),
    [
        (weight, "2.0", "weight"),
        (activation, "2.1", "output"),
        (input_, "0", "input"),
        (nan, "3", "weight"),
    ],
)
@pytest.mark.parametrize("traced", [False, True])
def test_the_first_module_that_parts(
    change: Change,
    module: str,
    kind: str,
    traced: bool,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    a, b = tmp_path / "a.flight", tmp_path / "b.flight"
    texts = train(a), train(b, change)
    words = map(str, texts if traced else (a, b))
    report = diff(capsys, *words, code=1)
    first = report["first"]
    assert (first["kind"], first["phase"]) in ((kind, "forward"), ("input", "batch"))
    if first["phase"] == "forward":
        assert first["module"] == module
    assert report["worst"]


def test_rounding_of_another_type_is_no_parting(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = tmp_path / "a.flight", tmp_path / "b.flight"
    train(a)
    train(b, dtype=torch.bfloat16)
    report = diff(capsys, str(a), str(b), code=0)
    assert report["first"] is None
    assert report["unequal"] is not None


def test_a_trace_and_a_flight_file_of_one_run_agree(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a = tmp_path / "a.flight"
    trace = train(a)
    report = diff(capsys, str(trace), str(a), code=0)
    assert report["compared"] >= 6
    assert report["only_a"] == []


def test_batches_of_one_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], prose: Prose
) -> None:
    a = tmp_path / "a.flight"
    train(a)
    assert diff(capsys, str(a), str(a), "--batches", "0:1", code=0)["first"] is None
    assert main(["diff", str(a), str(a), "--batches", "0:77"]) == 3
    prose(capsys.readouterr().err)


def test_what_cannot_be_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], prose: Prose
) -> None:
    a = tmp_path / "a.flight"
    train(a)
    other = tmp_path / "other"
    other.write_bytes(b"\xff\xfe no trace at all\n" * 10)
    assert main(["diff", str(a), str(other)]) == 3
    prose(capsys.readouterr().err)
    assert main(["diff", str(a), str(tmp_path / "none")]) == 3
    cut = tmp_path / "cut.flight"
    cut.write_bytes(a.read_bytes()[:300])
    assert main(["diff", str(a), str(cut)]) == 3
    assert len(capsys.readouterr().err.splitlines()) <= 4
