"""Whole training steps: gradients, loss scaling, accumulation, checkpoints, compilation."""

import io
import itertools
import logging
import math
import traceback
from typing import Any

import pytest

import postmortem
from builders.prose import Prose
from postmortem.diagnose.numerics.first_bad import Origin
from postmortem.monitor.errors import NumericsError

torch = pytest.importorskip("torch")
from postmortem.monitor.graph_rows import _on_cpu, _on_device  # noqa: E402
from postmortem.scan.torch_ops import FIELDS  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

nn = torch.nn
NumericsMonitor = postmortem.NumericsMonitor


class BadBackward(torch.autograd.Function):
    """Identity whose gradient is bad."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient * math.inf


class Model(nn.Module):
    """Two layers; what lies between them may spoil gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 2)
        self.spoils = False

    def forward(self, x: Any) -> Any:
        x = self.first(x)
        return self.second(BadBackward.apply(x) if self.spoils else x)


def trained(model: Any, monitor: Any, optimizer: Any, batches: int = 1, step: bool = True) -> None:
    for _ in range(batches):
        model(torch.ones(2, 4)).square().mean().backward()
        if step:
            optimizer.step()
        optimizer.zero_grad()


def sgd(model: Any) -> Any:
    return torch.optim.SGD(model.parameters(), lr=0.01)


def test_a_bad_gradient_stops_the_step_before_weights_are_written() -> None:
    model = Model()
    before = model.first.weight.clone()
    out = io.StringIO()
    with NumericsMonitor(model, out=out) as monitor:
        trained(model, monitor, sgd(model))
        before = model.first.weight.clone()
        model.spoils = True
        with pytest.raises(NumericsError) as raised:
            trained(model, monitor, sgd(model))
    assert torch.equal(before, model.first.weight)
    ours = [one for one in traceback.extract_tb(raised.tb) if "/postmortem/" in one.filename]
    assert len(ours) == 1, "of our frames Python keeps the hook's"
    found = raised.value.first_bad
    assert found is not None
    assert (found.origin, found.module, found.batch) == (Origin.GRADIENT, "first", 1)
    assert any("of second.weight, was clean" in hint for hint in found.hints), found.hints
    assert "first Linear (backward)" in out.getvalue()


def test_gradients_that_a_closure_makes_are_judged_before_they_are_applied() -> None:
    """Lightning calls each step with a closure."""
    model = Model()
    model.spoils = True
    optimizer = sgd(model)
    before = model.first.weight.clone()

    def closure() -> Any:
        loss = model(torch.ones(2, 4)).square().mean()
        loss.backward()
        return loss

    with NumericsMonitor(model, out=io.StringIO()) as monitor:
        monitor.begin_batch()
        with pytest.raises(NumericsError, match="gradient of bias of first"):
            optimizer.step(closure)
        with pytest.raises(NumericsError, match="gradient of bias of first"):
            optimizer.step(closure=closure)
    assert torch.equal(before, model.first.weight)


def test_gradients_that_are_dropped_are_told_and_nothing_is_raised(
    caplog: pytest.LogCaptureFixture, prose: Prose
) -> None:
    model = Model()
    model.spoils = True
    with caplog.at_level(logging.INFO, "postmortem.monitor"), NumericsMonitor(model) as monitor:
        trained(model, monitor, sgd(model), batches=12, step=False)
        model.spoils = False
        trained(model, monitor, sgd(model))
    assert monitor.discarded_batches == 12
    assert monitor.first_bad is None
    said = [record.getMessage() for record in caplog.records]
    prose(said[0])
    prose(said[1])
    assert len(said) == 2


def test_grad_scaler_s_search_for_a_scale_is_no_failure() -> None:
    torch.manual_seed(0)
    model = Model()
    optimizer = sgd(model)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**112, growth_interval=1000)
    with NumericsMonitor(model, out=io.StringIO()) as monitor:
        for _ in range(12):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = model(torch.ones(2, 4) * 100).square().sum()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    assert monitor.discarded_batches > 0
    assert monitor._backward.steps > 0
    assert monitor.first_bad is None


def test_gradients_that_somebody_mends_are_no_failure() -> None:
    model = Model()
    model.spoils = True
    optimizer = sgd(model)
    with NumericsMonitor(model) as monitor:
        model(torch.ones(2, 4)).sum().backward()
        for weight in model.parameters():
            weight.grad.nan_to_num_(0, 0, 0)
        optimizer.step()
    assert monitor.first_bad is None


def test_accumulated_gradients_stay_bad_until_the_step() -> None:
    model = Model()
    optimizer = sgd(model)
    with NumericsMonitor(model, out=io.StringIO()) as monitor:
        for batch in range(3):
            model.spoils = batch == 1
            model(torch.ones(2, 4)).sum().backward()
        assert monitor.discarded_batches == 0
        with pytest.raises(NumericsError) as raised:
            optimizer.step()
    assert raised.value.first_bad is not None
    assert raised.value.first_bad.batch == 1


def test_another_model_s_optimizer_is_left_alone() -> None:
    model, other = Model(), Model()
    model.spoils = True
    with NumericsMonitor(model):
        model(torch.ones(2, 4)).sum().backward()
        other(torch.ones(2, 4)).sum().backward()
        sgd(other).step()


def test_the_optimizer_s_state() -> None:
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters())
    with NumericsMonitor(model, optimizer_state=2, out=io.StringIO()) as monitor:
        trained(model, monitor, optimizer)
        optimizer.state[model.second.weight]["exp_avg_sq"][0, 0] = math.inf
        with pytest.raises(NumericsError) as raised:
            trained(model, monitor, optimizer)
    found = raised.value.first_bad
    assert found is not None
    assert (found.origin, found.cell) == (Origin.STATE, "weight[exp_avg_sq]")


@pytest.mark.parametrize("reentrant", [True, False])
def test_what_a_checkpoint_computes_again_is_not_counted(reentrant: bool) -> None:
    from torch.utils.checkpoint import checkpoint

    class Checkpointed(Model):
        def forward(self, x: Any) -> Any:
            return self.second(checkpoint(self.first, x, use_reentrant=reentrant))

    model = Checkpointed()
    x = torch.ones(2, 4, requires_grad=True)
    with NumericsMonitor(model, gradients=False) as monitor:
        for _ in range(2):
            model(x).sum().backward()
    assert monitor.batch == 2
    assert monitor._records.made == 6


def test_every_so_manieth_batch_and_the_traced_ones(capsys: pytest.CaptureFixture[str]) -> None:
    model = Model()
    with NumericsMonitor(model, every=3, trace_batches=(1,), gradients=False) as monitor:
        for _ in range(5):
            model(torch.ones(2, 4))
    assert monitor._records.made == 3 * 3
    text = capsys.readouterr().out
    assert text.count("*** Starting batch number=1 ***") == 1
    assert text.count("Linear") == 2


def test_the_run_ends_after_a_batch() -> None:
    model = Model()
    with NumericsMonitor(model, abort_after_batch=1) as monitor:
        model(torch.ones(2, 4))
        with pytest.raises(NumericsError, match=r" 2 .*`abort_after_b"):
            model(torch.ones(2, 4))
    assert monitor.first_bad is None


def test_report_mode_goes_on_and_repeats_itself_little() -> None:
    out = io.StringIO()
    model = Model()
    with NumericsMonitor(model, on_bad="report", out=out) as monitor:
        for _ in range(6):
            model(torch.full((2, 4), math.nan))
    assert monitor.batch == 6
    assert out.getvalue().count("Detected inf/nan during batch_number=") == 3


def test_hooks_are_gone_afterwards_and_outputs_are_the_same() -> None:
    model = Model()
    x = torch.randn(2, 4)
    want = model(x)
    with NumericsMonitor(model):
        assert torch.equal(model(x), want)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    model(torch.full((2, 4), math.nan))


def test_no_checkpoint_of_bad_weights() -> None:
    model = Model()
    monitor = NumericsMonitor(model)
    assert monitor.check_before_saving() is None
    with torch.no_grad():
        model.second.bias[1] = math.nan
    found = monitor.check_before_saving()
    assert found is not None
    assert (found.module, found.cell, found.first_index) == ("second", "bias", 1)


def test_numbers_that_come_late_are_judged_when_they_are_here() -> None:
    """As of a device: results that are not ready must not be read by hooks."""
    from postmortem.scan import ScanResult

    late: list[str] = []

    def pending(tensor: Any) -> Any:
        bad = int(tensor.isnan().sum())

        def arrive() -> tuple[int | float, ...]:
            late.append("read")
            return (tensor.numel(), bad, 0, 0, 0, 0 if bad else -1, 1.0, 1.0, 1.0, 1.0)

        return ScanResult._later("float32", arrive)

    model = Model()
    monitor = NumericsMonitor(model, out=io.StringIO(), gradients=False)
    scans = monitor._records.scans
    scans.numbers = pending
    scans.calls = type("Nothing", (), {"call": lambda *_: -1, "forget": lambda _: None,
                                       "weights": lambda *_: None, "opaque": set()})()  # fmt: skip
    with monitor:
        model(torch.full((2, 4), math.nan))
        assert late == []
        with pytest.raises(NumericsError) as raised:
            model(torch.ones(2, 4))
    found = raised.value.first_bad
    assert found is not None
    assert found.batch == 0


def test_compiled_models_record_without_a_graph_break(prose: Prose) -> None:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    model = Model()
    out = io.StringIO()
    with NumericsMonitor(model, gradients=False, out=out) as monitor:
        compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
        optimizer = sgd(model)
        for _ in range(3):
            compiled(torch.ones(2, 4)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        assert not torch._dynamo.utils.counters["graph_break"]
        assert monitor._records.made == 3 * 3
        with torch.no_grad():
            model.second.bias[0] = math.nan
        compiled(torch.ones(2, 4)).sum().backward()
        with pytest.raises(NumericsError) as raised:
            optimizer.step()
    found = raised.value.first_bad
    assert found is not None
    assert (found.origin, found.module, found.cell) == (Origin.WEIGHT, "second", "bias")
    assert (found.batch, found.nan_count, found.confidence) == (3, 1, "certain")
    prose(*found.hints)


def test_bad_data_of_a_compiled_model_are_not_blamed_on_a_module(prose: Prose) -> None:
    torch._dynamo.reset()
    model = Model()
    with NumericsMonitor(model, gradients=False, out=io.StringIO()) as monitor:
        compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
        compiled(torch.full((2, 4), math.nan)).sum().backward()
        with pytest.raises(NumericsError) as refused:
            sgd(model).step()
        prose(refused.value)
    found = monitor.first_bad
    assert found is not None
    assert (found.module, found.confidence) == ("first", "possible")
    assert "data" in found.hints[0]


def test_a_bad_batch_of_a_compiled_model_is_not_hidden_by_the_clean_one_behind_it() -> None:
    torch._dynamo.reset()
    model = Model()
    with NumericsMonitor(model, gradients=False, out=io.StringIO()) as monitor:
        compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
        for batch in (torch.full((2, 4), math.nan), torch.ones(2, 4)):  # accumulated
            compiled(batch).sum().backward()
        with pytest.raises(NumericsError):
            sgd(model).step()
    found = monitor.first_bad
    assert found is not None
    assert (found.module, found.nan_count) == ("first", 8)


@pytest.mark.parametrize("way", [_on_cpu, _on_device])
def test_a_row_of_compiled_code_keeps_the_worst(way: Any) -> None:
    rows = torch.full((3, FIELDS + 1), -1.0, dtype=torch.float64)
    rows[-1] = 0.0
    inf, nan = torch.tensor([1.0, math.inf]), torch.tensor([math.nan, math.inf])
    said = []
    for x in (torch.ones(2), torch.zeros(3), inf, torch.ones(2), nan, inf, torch.ones(2)):
        way(x, rows, 0)
        said.append(tuple(rows[0, :4].tolist()))
    clean, zeros = (2, 0, 0, 0), (3, 0, 0, 3)
    assert said == [clean, zeros, (2, 0, 1, 0), (2, 0, 1, 0), *[(2, 1, 1, 0)] * 3]
    assert rows[1, 0] == -1.0


def test_hooks_that_dynamo_leaves_out_are_noticed(
    caplog: pytest.LogCaptureFixture, prose: Prose
) -> None:
    torch._dynamo.reset()
    model = Model()
    compiled = torch.compile(model, backend="eager")
    compiled(torch.ones(2, 4)).sum().backward()
    with caplog.at_level(logging.WARNING, "postmortem.monitor"), NumericsMonitor(model):
        compiled(torch.ones(2, 4)).sum().backward()
    torch._dynamo.reset()
    prose(*(row.getMessage() for row in caplog.records if row.name == "postmortem.monitor"))


@pytest.mark.parametrize("accumulated", [1, 3])
def test_weights_are_read_once_per_step_and_frozen_ones_once(accumulated: int) -> None:
    model = Model()
    model.first.requires_grad_(False)
    optimizer = sgd(model)
    with NumericsMonitor(model, gradients=False, max_frames=100) as monitor:
        for batch in range(9):
            model(torch.ones(2, 4)).square().mean().backward()
            if batch % accumulated == accumulated - 1:
                optimizer.step()
                optimizer.zero_grad()
    read: dict[str, list[Any]] = {"first": [], "second": []}  # numbers of the weight, by batch
    for frame in monitor._records.forward:
        if frame.module in read:
            read[frame.module].append(frame.cells[0].numbers)
    assert [len(numbers) for numbers in read.values()] == [9, 9]
    assert all(numbers is read["first"][0] for numbers in read["first"])
    again = [one is other for one, other in itertools.pairwise(read["second"])]
    # Until a step has been seen any batch may have had one.
    assert again[3:] == [batch % accumulated != accumulated - 1 for batch in range(3, 8)]


def test_a_weight_written_behind_its_version_is_found_in_the_next_batch() -> None:
    model = Model()
    optimizer = sgd(model)
    monitor = NumericsMonitor(model, out=io.StringIO()).attach()
    trained(model, monitor, optimizer, batches=5)
    model.second.weight.data[1, 2] = math.nan
    with pytest.raises(NumericsError):
        trained(model, monitor, optimizer)
    monitor.detach()
    assert monitor.first_bad is not None
    assert (monitor.first_bad.batch, monitor.first_bad.module) == (5, "second")
    assert monitor.first_bad.origin is Origin.WEIGHT
