"""Putting the monitor on a model and taking it away; models that are copied or saved meanwhile."""

import copy
import io
import logging
import math
import pickle
from pathlib import Path
from typing import Any

import pytest

import postmortem
from builders.prose import Prose

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

nn = torch.nn
NumericsMonitor = postmortem.NumericsMonitor


def model_of_two() -> Any:
    return nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))


def trained(model: Any, batches: int = 1) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(batches):
        model(torch.ones(2, 4)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def test_what_cannot_be_meant_is_refused(prose: Prose) -> None:
    with pytest.raises(ValueError, match="'rais'") as refused:
        NumericsMonitor(model_of_two(), on_bad="rais")
    prose(refused.value)


def test_gradients_are_seen_again_after_a_second_attach() -> None:
    model = model_of_two()
    monitor = NumericsMonitor(model)
    for _ in range(2):
        with monitor:
            before = monitor._records.made
            trained(model)
            assert monitor._records.made - before == 3 + 4


@pytest.mark.parametrize("strict", [False, True])
def test_an_exported_model_has_nothing_of_the_monitor(strict: bool) -> None:
    model = model_of_two()
    with NumericsMonitor(model) as monitor:
        program = torch.export.export(model, (torch.ones(1, 4),), strict=strict)
        assert not any("postmortem" in str(node.target) for node in program.graph.nodes)
        trained(model)
        assert monitor.batch == 1


def test_a_copy_is_not_watched_and_needs_nothing_of_the_monitor(tmp_path: Path) -> None:
    model = model_of_two()
    with NumericsMonitor(model, flight=tmp_path / "a.flight") as monitor:
        average = torch.optim.swa_utils.AveragedModel(model)
        trained(model)
        average.update_parameters(model)
        made = monitor._records.made
        copy.deepcopy(model)(torch.full((1, 4), math.nan))
        average(torch.ones(1, 4))
        assert (monitor._records.made, monitor.batch) == (made, 1)
        saved = pickle.dumps(model)
    assert b"postmortem" not in saved
    assert pickle.loads(saved)(torch.ones(1, 4)).shape == (1, 2)


def test_scripted_modules_are_said_to_take_no_hooks(
    caplog: pytest.LogCaptureFixture, prose: Prose
) -> None:
    model = nn.Sequential(torch.jit.script(nn.Linear(4, 4)), nn.Linear(4, 2))
    with caplog.at_level(logging.WARNING), NumericsMonitor(model) as monitor:
        trained(model)
    prose(*caplog.messages)
    assert (monitor.batch, monitor._records.made) == (1, 2 + 4)


def test_a_model_cannot_be_scripted_while_it_is_watched(prose: Prose) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    with NumericsMonitor(model) as monitor:
        for watched in (model, copy.deepcopy(model)):
            with pytest.raises(AttributeError) as refused:
                torch.jit.script(watched)
            prose(refused.value)
        monitor.detach()
        scripted = torch.jit.script(model)
        monitor.attach()
        model(torch.ones(1, 4))
        assert len(monitor.frames) == 3
    assert torch.equal(scripted(torch.ones(1, 4)), model(torch.ones(1, 4)))


def test_lazy_modules_have_gradients_once_they_have_shapes() -> None:
    model = nn.Sequential(nn.LazyLinear(4), nn.Linear(4, 2))
    with NumericsMonitor(model, out=io.StringIO()) as monitor:
        model(torch.ones(1, 3))
        model(torch.ones(1, 3)).sum().backward()
        assert len(monitor._backward.heard) == 4


def test_no_hook_stays_where_attaching_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of_two()
    monitor = NumericsMonitor(model)
    broken = nn.Linear(4, 4)
    model.append(broken)

    def fails(*_: Any, **__: Any) -> None:
        raise RuntimeError("mine")

    broken.register_forward_hook = fails
    with pytest.raises(RuntimeError, match="mine"):
        monitor.attach()
    assert not any(module._forward_hooks for module in model.modules())


def test_a_batch_that_raised_counts() -> None:
    class Fails(nn.Module):
        def forward(self, x: Any) -> Any:
            if x.shape[0] == 3:
                raise KeyError("mine")
            return x

    model = nn.Sequential(nn.Linear(4, 4), Fails())
    with NumericsMonitor(model, out=io.StringIO()) as monitor:
        for rows in (1, 3, 1):
            try:
                model(torch.ones(rows, 4))
            except KeyError as error:
                assert error.__context__ is None  # noqa: PT017
        assert monitor.batch == 3
        with pytest.raises(postmortem.NumericsError, match="in batch 3"):
            model(torch.full((1, 4), math.nan))


def test_frames_of_a_traced_batch_are_printed_once() -> None:
    out = io.StringIO()
    model = model_of_two()
    with NumericsMonitor(model, trace_batches=[0], out=out):
        model(torch.ones(1, 4))
        with pytest.raises(postmortem.NumericsError):
            model(torch.full((1, 4), math.nan))
    assert out.getvalue().count("*** Starting batch number=0 ***") == 1
    assert out.getvalue().count("*** Starting batch number=1 ***") == 1
