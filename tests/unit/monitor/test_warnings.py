"""What is said before numbers go bad, and of batches that are repeated or discarded."""

import gc
import io
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import postmortem
from builders.prose import Prose

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

nn = torch.nn
NumericsMonitor = postmortem.NumericsMonitor


@pytest.fixture
def said() -> Iterator[list[str]]:
    """Warnings of the monitor, as they come."""
    found: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: found.append(record.getMessage())  # type: ignore[method-assign]
    log = logging.getLogger("postmortem.monitor")
    log.addHandler(handler)
    yield found
    log.removeHandler(handler)


class Scaled(nn.Module):
    """A layer whose output can be made larger, in a type of its own."""

    def __init__(self, dtype: Any = None) -> None:
        super().__init__()
        self.layer = nn.Identity()
        self.dtype = dtype or torch.float16

    def forward(self, x: Any, factor: float) -> Any:
        return self.layer((x * factor).to(self.dtype))


# -- trends -------------------------------------------------------------------------------------


def watched(factors: list[float], dtype: Any = None, **options: Any) -> None:
    model = Scaled(dtype)
    with NumericsMonitor(model, out=io.StringIO(), **options):
        for factor in factors:
            model(torch.ones(3), factor)


def test_growth_from_batch_to_batch_is_told_before_the_overflow(
    said: list[str], prose: Prose
) -> None:
    watched([100.0 * 1.4**batch for batch in range(18)])
    assert said[0].startswith("batch 9: output of layer (Identity) grew from 538 to 2.07e+03 in 4")
    prose(said[0])
    assert "batch 17: output of layer" in said[1]  # again when it is near
    prose(said[1])
    assert len(said) == 2  # the model passes on what its layer gave


def test_of_bfloat16_too_and_with_batches_left_out(said: list[str]) -> None:
    watched([2.0**104 * 1.5**batch for batch in range(30)], torch.bfloat16, every=3)
    assert "bfloat16 holds 3.39e+38 at most" in said[0]


@pytest.mark.parametrize(
    "factors",
    [
        [1000.0] * 30,
        [1000.0 + 500 * (batch % 2) for batch in range(30)],
        [60000.0 / 1.1**batch for batch in range(30)],
        [1.0 * 1.2**batch for batch in range(30)],
        [1000.0 * 1.001**batch for batch in range(30)],
    ],
    ids=["constant", "alternating", "falling", "small", "slow"],
)
def test_what_does_not_lead_to_an_overflow(said: list[str], factors: list[float]) -> None:
    watched(factors)
    assert said == []


# -- recomputation ------------------------------------------------------------------------------


class Drifting(nn.Module):
    """Gives a little more with each call: as hardware that errs."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: Any) -> Any:
        self.calls += 1
        return x * (1 + 1e-6 * self.calls)


class Checkpointed(nn.Module):
    def __init__(self, middle: nn.Module, **options: Any) -> None:
        super().__init__()
        self.first, self.middle, self.last = nn.Linear(4, 4), middle, nn.Linear(4, 4)
        self.options = options

    def forward(self, x: Any) -> Any:
        from torch.utils.checkpoint import checkpoint

        def part(x: Any) -> Any:
            return self.last(self.middle(self.first(x)).square())

        return checkpoint(part, x, **self.options)


def repeated(model: nn.Module, batches: int = 3) -> Any:
    with NumericsMonitor(model, gradients=False) as monitor:
        for _ in range(batches):
            model(torch.ones(2, 4, requires_grad=True)).sum().backward()
    assert monitor.batch == batches
    return monitor


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_recomputation_that_differs(said: list[str], reentrant: bool, prose: Prose) -> None:
    monitor = repeated(Checkpointed(Drifting(), use_reentrant=reentrant))
    assert monitor.differing_recomputations == 3
    assert len(said) == 1
    prose(said[0].partition(", out of")[0])


@pytest.mark.parametrize("reentrant", [True, False])
def test_dropout_is_repeated_alike_if_its_state_is_kept(said: list[str], reentrant: bool) -> None:
    model = Checkpointed(nn.Dropout(0.5), use_reentrant=reentrant)
    assert repeated(model, 12).differing_recomputations == 0
    model = Checkpointed(nn.Dropout(0.5), use_reentrant=reentrant, preserve_rng_state=False)
    assert repeated(model, 12).differing_recomputations > 0
    assert "(Dropout) gave another output" in said[0]


def test_another_batch_is_no_recomputation(said: list[str]) -> None:
    """Two forward passes before both backward passes, as in pipelines."""
    model = Checkpointed(nn.ReLU(), use_reentrant=False)
    with NumericsMonitor(model, gradients=False) as monitor:
        one = model(torch.ones(2, 4, requires_grad=True))
        two = model(torch.full((2, 4), 7.0, requires_grad=True))
        one.sum().backward()
        two.sum().backward()
    assert (monitor.differing_recomputations, said) == (0, [])


# -- the scale of the loss ----------------------------------------------------------------------


class Overflows(torch.autograd.Function):
    """Identity whose gradient is bad."""

    @staticmethod
    def forward(ctx: Any, x: Any, value: float) -> Any:
        ctx.value = value
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient * ctx.value, None


def scaled(start: float, value: float, batches: int) -> None:
    layer = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=start)
    with NumericsMonitor(layer):
        for _ in range(batches):
            loss = Overflows.apply(layer(torch.ones(1, 2)), value).sum()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()


def test_a_scale_that_falls_step_after_step_and_below_1(said: list[str], prose: Prose) -> None:
    scaled(64.0, float("inf"), 9)
    prose(said[0])
    prose(said[1])
    assert len(said) == 2


def test_gradients_that_no_scale_mends(said: list[str], prose: Prose) -> None:
    scaled(1.0, float("nan"), 3)
    prose(said[0])


def test_a_scaler_of_another_model_is_left_alone(said: list[str]) -> None:
    other = torch.amp.GradScaler("cpu", init_scale=0.25)
    other.scale(torch.ones(1))
    layer = nn.Linear(2, 2)
    with NumericsMonitor(layer):
        for _ in range(7):
            Overflows.apply(layer(torch.ones(1, 2)), float("inf")).sum().backward()
            layer.zero_grad()
    assert other.get_scale() == 0.25
    assert said == []


def test_a_search_that_ends_is_not_told(said: list[str]) -> None:
    scaled(2.0**126, 2.0, 6)
    assert said == []


def test_a_monitor_that_was_never_entered_says_so_when_it_goes(said: list[str]) -> None:
    def entered(monitor: Any) -> None:
        with monitor:
            pass

    gc.collect()  # those of other tests
    here = f"{Path(__file__)}:"  # only this warning has the place where a monitor was made
    said.clear()
    for use in (entered, lambda one: one.attach().detach(), lambda one: one.check_before_saving()):
        use(NumericsMonitor(nn.Linear(1, 1)))
    gc.collect()
    assert not any(here in text for text in said)
    NumericsMonitor(nn.Linear(1, 1))
    gc.collect()
    assert sum(here in text for text in said) == 1
