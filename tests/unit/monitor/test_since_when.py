"""Since when a weight is bad, and what its gradients have to do with it."""

import gc
import io
import logging
import math
import weakref
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


class Late(nn.Module):
    """Calls its head from the third batch on only."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(*(nn.Linear(4, 4) for _ in range(4)))
        self.head = nn.Linear(4, 2)
        self.calls = 0

    def forward(self, x: Any) -> Any:
        self.calls += 1
        return self.head(self.body(x)) if self.calls >= 3 else self.body(x)


def spoil(weight: Any) -> None:
    with torch.no_grad():
        weight.view(-1)[0] = math.nan


def first_of(model: Any, batches: int, spoil_before: int, weight: Any, **options: Any) -> FirstBad:
    def train() -> None:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for batch in range(batches):
            if batch == spoil_before:
                spoil(weight)
            model(torch.ones(1, 4)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()

    with (
        pytest.raises(postmortem.NumericsError) as raised,
        postmortem.NumericsMonitor(model, out=io.StringIO(), **options),
    ):
        train()
    assert raised.value.first_bad is not None
    return raised.value.first_bad


def test_a_weight_that_was_never_seen_clean_may_come_from_the_checkpoint(
    tmp_path: Path, prose: Prose
) -> None:
    model = Late()
    found = first_of(model, 5, 0, model.head.weight, flight=tmp_path / "a.flight")
    assert (found.origin, found.module, found.batch) == (Origin.WEIGHT, "head", 2)
    assert len(found.hints) == 1
    prose(found.hints[0])
    again = find_first_bad(read_flight(tmp_path / "a.flight")[0])
    assert again is not None
    assert again.hints == found.hints


def test_a_weight_of_the_batch_before_is_remembered_beyond_the_frames_that_are_kept(
    prose: Prose,
) -> None:
    model = Late()
    found = first_of(model, 5, 2, model.body[3].weight, max_frames=2)
    prose(found.hints[-1])
    prose(found.hints[0])


def test_batches_that_were_not_looked_at_are_not_told_as_clean(prose: Prose) -> None:
    model = nn.Linear(4, 4)
    found = first_of(model, 11, 4, model.weight, every=5)
    assert (found.batch, found.origin) == (5, Origin.WEIGHT)
    prose(*found.hints)


def test_a_parameter_that_is_read_outside_was_clean_where_its_owner_shows_it(prose: Prose) -> None:
    class Owner(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.position, self.drop = nn.Parameter(torch.zeros(4)), nn.Dropout(0.0)

        def forward(self, x: Any) -> Any:
            return self.drop(x + self.position)

    model = nn.Sequential(nn.Linear(4, 4), Owner())
    found = first_of(model, 3, 1, model[1].position)
    assert (found.module, found.cell) == ("1", "position")
    prose(found.hints[-1])


def test_gradients_of_compiled_code_in_the_same_batch_are_no_cause(prose: Prose) -> None:
    """Its outputs are read at the step, when the gradients that follow have come."""
    torch._dynamo.reset()
    model = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with postmortem.NumericsMonitor(model, out=io.StringIO()):
        compiled = torch.compile(model, backend="eager")
        for batch in range(3):
            if batch == 2:
                with torch.no_grad():
                    model[0].weight[0, 0] = math.inf
            compiled(torch.randn(2, 4)).sum().backward()
            if batch < 2:
                optimizer.step()
                optimizer.zero_grad()
        with pytest.raises(postmortem.NumericsError) as raised:
            optimizer.step()
    found = raised.value.first_bad
    assert found is not None
    assert (found.origin, found.module, found.batch) == (Origin.WEIGHT, "0", 2)
    prose(*found.hints)


def test_steps_count_batches_where_compiled_code_left_out_the_hooks(prose: Prose) -> None:
    torch._dynamo.reset()
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    compiled = torch.compile(model, backend="eager")
    compiled(torch.ones(1, 4))
    with postmortem.NumericsMonitor(model, out=io.StringIO()) as monitor:
        for batch in range(3):
            loss = compiled(torch.ones(1, 4)).sum()
            (loss * math.nan if batch == 2 else loss).backward()
            if batch < 2:
                optimizer.step()
                optimizer.zero_grad()
        with pytest.raises(postmortem.NumericsError):
            optimizer.step()
    found = monitor.first_bad
    assert found is not None
    assert (found.origin, found.batch) == (Origin.GRADIENT, 2)
    prose(found.hints[1])


def test_a_gradient_that_was_discarded_long_ago_is_no_cause(prose: Prose) -> None:
    model = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with postmortem.NumericsMonitor(model, out=io.StringIO()) as monitor:
        (model(torch.ones(1, 4)).sum() * math.inf).backward()
        optimizer.zero_grad()
        model(torch.ones(1, 4)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        spoil(model.weight)
        with pytest.raises(postmortem.NumericsError):
            model(torch.ones(1, 4))
    assert monitor.discarded_batches == 1
    assert monitor.first_bad is not None
    prose(*monitor.first_bad.hints)


def test_what_lbfgs_tries_is_not_told_as_discarded(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "postmortem.monitor")
    model = nn.Linear(4, 1)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4)
    x = torch.randn(8, 4)
    calls = 0

    def closure() -> Any:
        nonlocal calls
        calls += 1
        optimizer.zero_grad()
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        loss = loss * math.inf if calls == 2 else loss
        loss.backward()
        return loss

    with postmortem.NumericsMonitor(model, out=io.StringIO()) as monitor:
        with pytest.raises(postmortem.NumericsError):
            optimizer.step(closure)
        assert monitor.discarded_batches == 0
    assert "discarded" not in caplog.text


def test_weights_of_functional_calls_are_let_go() -> None:
    """Meta-learning makes new weights in every inner step, each with its graph."""
    model = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    held: list[Any] = []
    with postmortem.NumericsMonitor(model):
        for _ in range(8):
            fast = dict(model.named_parameters())
            for _ in range(4):
                loss = torch.func.functional_call(model, fast, (torch.ones(1, 4),)).sum()
                slopes = torch.autograd.grad(loss, list(fast.values()), create_graph=True)
                fast = {k: v - 0.1 * g for (k, v), g in zip(fast.items(), slopes, strict=True)}
                held += [weakref.ref(one) for one in fast.values()]
            torch.func.functional_call(model, fast, (torch.ones(1, 4),)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        del fast, slopes, loss
        gc.collect()
        assert sum(one() is not None for one in held) == 0
