"""What other monitors miss or fail on: each a small model with one fault, or with none."""

import contextlib
import dataclasses
import io
import math
from typing import Any

import pytest

import postmortem
from builders.prose import Prose
from postmortem.diagnose.numerics.first_bad import Origin
from postmortem.monitor.errors import NumericsError

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

nn = torch.nn
NumericsMonitor = postmortem.NumericsMonitor
NAN, INF = math.nan, math.inf


class Call(nn.Module):
    """A module that does what a function does."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


class Chain(nn.Module):
    """Calls its parts one after the other; `between` is code of its own before the last one."""

    def __init__(self, *parts: nn.Module, between: Any = None) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)
        self.between = between

    def forward(self, x: Any) -> Any:
        for part in self.parts[:-1]:
            x = part(x)
        if self.between is not None:
            x = self.between(x)
        return self.parts[-1](x)


def watch(model: nn.Module, *args: Any, **kwargs: Any) -> tuple[Any, str]:
    """What is found while the model runs once, and what is printed."""
    printed = io.StringIO()
    with NumericsMonitor(model, out=printed) as monitor, contextlib.suppress(NumericsError):
        model(*args, **kwargs)
    return monitor.first_bad, printed.getvalue()


@dataclasses.dataclass
class Output:
    logits: Any
    inner: Any = None


def last_bad(x: Any) -> Any:
    y = x.clone()
    y.view(-1)[-1] = INF
    return y


@pytest.mark.parametrize(
    ("wrap", "cell"),
    [
        (lambda y: {"logits": y}, "output[logits]"),
        (lambda y: Output(logits=y), "output.logits"),
        (lambda y: Output(None, [{"deep": (y,)}]), "output.inner[0][deep][0]"),
        (lambda y: (None, (y, 3)), "output[1][0]"),
        (lambda y: [y], "output[0]"),
        (lambda y: y, "output"),
    ],
)
def test_any_nesting_of_outputs(wrap: Any, cell: str) -> None:
    found, _ = watch(Chain(nn.Identity(), Call(lambda x: wrap(last_bad(x)))), torch.ones(2, 3))
    assert (found.origin, found.module, found.cell) == (Origin.PRODUCER, "parts.1", cell)
    assert (found.inf_count, found.numel, found.first_index) == (1, 6, 5)
    assert found.confidence == "certain"


def test_keyword_inputs_only() -> None:
    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.part = Call(lambda x, scale: torch.nan_to_num(x * scale))

        def forward(self, x: Any) -> Any:
            return self.part(x=x, scale=torch.zeros(()).log() * 0)

    found, text = watch(Outer(), torch.ones(2))
    assert (found.origin, found.module, found.cell) == (Origin.BETWEEN, "part", "input[scale]")
    assert "     nan      nan input[scale]" in text


def test_bad_numbers_of_a_batch_are_the_batch_s(prose: Prose) -> None:
    x = torch.ones(2, 4)
    x[1, 2] = NAN
    found, _ = watch(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), x)
    assert (found.origin, found.cell, found.first_index) == (Origin.BATCH, "input[0]", 6)
    prose(found.sentence())


@pytest.mark.parametrize("sign", [1.0, -1.0, 0.0])
def test_code_between_modules_is_told(sign: float) -> None:
    def divide(x: Any) -> Any:
        return (x.abs() * sign if sign else x) / 0.0

    found, _ = watch(Chain(nn.Linear(4, 4), nn.Identity(), between=divide), torch.ones(2, 4))
    assert (found.origin, found.module, found.confidence) == (Origin.BETWEEN, "parts.1", "likely")
    assert any("after parts.0 (Linear)" in hint for hint in found.hints)


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.tensor([True, False]),
        lambda: torch.empty(0, 3),
        lambda: torch.tensor(2.5),
        lambda: torch.arange(3),
        lambda: torch.ones(3, dtype=torch.complex64),
        lambda: torch.ones(3).to(torch.float8_e4m3fn),
        lambda: torch.ones(3).to(torch.float8_e5m2),
        lambda: torch.empty(3, device="meta"),
        lambda: torch.eye(3).to_sparse(),
        lambda: torch.eye(3).to_sparse_csr(),
        lambda: torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8),
        lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged),
        lambda: torch.ones(4, 3).t(),
        lambda: torch.ones(1).expand(5, 5),
        lambda: None,
        lambda: "text",
        lambda: 3,
    ],
)
def test_kinds_of_values_that_are_no_fault(make: Any) -> None:
    found, text = watch(Call(lambda *_: torch.ones(1)), make())
    assert found is None
    assert text == ""


def test_what_has_no_values_says_so_and_sparse_values_are_read(prose: Prose) -> None:
    model = Call(lambda *_: torch.ones(1))
    with NumericsMonitor(model) as monitor:
        model(torch.empty(0), torch.empty(2, device="meta"), torch.eye(3).to_sparse(), None, {})
    text = monitor.frames[0]
    assert "            empty input[0]" in text
    assert "1.00e+00 1.00e+00 input[2] (values)" in text
    prose(
        *(line for line in text.splitlines() if line.endswith(("input[1]", "input[3]", "input[4]")))
    )
    bad = torch.sparse_coo_tensor([[0, 1]], [1.0, NAN], (3,))
    found, _ = watch(Call(lambda x: bad), torch.ones(1))
    assert (found.cell, found.nan_count) == ("output", 1)


def test_fake_tensors() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    model = nn.Linear(3, 3)
    with NumericsMonitor(model), FakeTensorMode(allow_non_fake_inputs=True):
        assert model(torch.empty(2, 3)).shape == (2, 3)


def test_inference_mode_vmap_and_threads_of_autograd() -> None:
    model = nn.Linear(3, 3)
    with NumericsMonitor(model) as monitor:
        with torch.inference_mode():
            model(torch.ones(2, 3))
        torch.func.vmap(model)(torch.ones(2, 3))
        with pytest.raises(NumericsError), torch.inference_mode():
            model(torch.full((2, 3), INF))
    assert monitor.first_bad is not None


def test_fp8_saturation_is_counted(prose: Prose) -> None:
    def to_fp8(x: Any) -> Any:
        return x.to(torch.float8_e4m3fn)

    model = Chain(Call(to_fp8), Call(lambda x: x.float() * NAN))
    found, _ = watch(model, torch.tensor([448.0, 448.0, 1.0, -448.0]))
    assert found.module == "parts.1"
    prose(*found.hints)


def test_growth_towards_the_edge_is_told() -> None:
    model = Chain(Call(lambda x: x * 200), Call(lambda x: x * 200), Call(lambda x: x * 2))
    found, _ = watch(model, torch.full((4,), 1.2, dtype=torch.float16))
    assert (found.module, found.dtype) == ("parts.2", "float16")
    assert any(
        "parts.1 output reached 4.8e+04, 73% of what float16 holds" in h for h in found.hints
    )


def test_a_tensor_that_is_changed_in_place_is_read_again() -> None:
    def spoil(x: Any) -> Any:
        x[0] = NAN
        return torch.ones(2)

    model = Chain(nn.Identity(), Call(spoil))
    found, _ = watch(model, torch.ones(2))
    assert (found.module, found.cell) == ("parts.1", "input[0]")


def test_a_view_is_not_read_again_and_a_new_tensor_at_an_old_address_is() -> None:
    model = Chain(nn.Identity(), Call(lambda x: x.reshape(6)), nn.Identity())
    with NumericsMonitor(model) as monitor:
        model(torch.ones(2, 3))
        assert (monitor._records.scans.scanned, monitor._records.scans.spared) == (1, 8)
    for _ in range(50):  # freed at once, so that the allocator gives the same address
        model = Chain(*(Call(lambda x: x + 1) for _ in range(6)), Call(lambda x: x * NAN))
        assert watch(model, torch.ones(3))[0].module == "parts.6"


def test_weights_are_read_once_for_each_version() -> None:
    model = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with NumericsMonitor(model, gradients=False) as monitor:
        scans = monitor._records.scans
        counts = []
        for _ in range(3):
            before = scans.scanned
            loss = model(torch.ones(2, 4)).sum() + model(torch.ones(2, 4)).sum()
            counts.append(scans.scanned - before)
            loss.backward()
            optimizer.step()
        assert counts[1:] == [6, 6] or counts[1:] == [4 + 4, 4 + 4]


def test_a_weight_that_is_written_through_data_is_seen() -> None:
    model = nn.Linear(4, 4)
    with NumericsMonitor(model, out=io.StringIO()):
        model(torch.ones(2, 4))
        model.weight.data[1, 1] = NAN
        with pytest.raises(NumericsError) as raised:
            model(torch.ones(2, 4))
    found = raised.value.first_bad
    assert found is not None
    assert (found.origin, found.cell, found.batch) == (Origin.WEIGHT, "weight", 1)


def test_tied_weights_have_all_their_names(prose: Prose) -> None:
    model = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False))
    model[1].weight = model[0].weight
    with torch.no_grad():
        model[0].weight[0, 0] = INF
    found, text = watch(model, torch.ones(1, 4))
    assert found.names == ("1.weight",)
    prose(*text.strip().splitlines()[-3:])


def test_subnormals_are_seen_where_floats_are_flushed() -> None:
    model = Call(lambda x: x * 1)
    x = torch.tensor([1e-40])
    torch.set_flush_denormal(True)
    try:
        with NumericsMonitor(nn.Sequential(model)) as monitor:
            model(x)
    finally:
        torch.set_flush_denormal(False)
    assert "1.00e-40 1.00e-40 input[0]" in monitor.frames[0]


def test_distributed_tensors_are_read_by_shard() -> None:
    distributed = pytest.importorskip("torch.distributed")
    if not distributed.is_available():
        pytest.skip("this PyTorch has no torch.distributed")
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    store = distributed.HashStore()
    distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        mesh = init_device_mesh("cpu", (1,))
        shard = distribute_tensor(torch.tensor([1.0, NAN]), mesh, [Shard(0)])
        found, text = watch(Call(lambda x: x), shard)
        assert found.nan_count == 1
        assert "     nan      nan input[0] (shard 0/1)" in text
    finally:
        distributed.destroy_process_group()


def test_containers_that_hold_each_other_end() -> None:
    loop: list[Any] = [torch.ones(1)]
    loop += [loop] * 3
    found, _ = watch(Call(lambda x: {"same": x}), loop)
    assert found is None


@pytest.mark.parametrize(
    "mask",
    [
        torch.tensor([[0.0, -INF], [0.0, 0.0]]),
        torch.tensor([[0.0, torch.finfo(torch.float32).min], [0.0, 0.0]]),
    ],
)
@pytest.mark.parametrize("name", ["attention_mask", "other"])
def test_masks_are_no_fault(mask: Any, name: str) -> None:
    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.softmax = nn.Softmax(dim=-1)
            self.score = Call(lambda x, **kwargs: x + kwargs[name])

        def forward(self, x: Any, mask: Any) -> Any:
            return self.softmax(self.score(x, **{name: mask}))

    found, text = watch(Attention(), torch.randn(2, 2), mask)
    assert found is None, found
    assert text == ""


def test_scores_that_were_masked_outside_of_modules_are_no_fault() -> None:
    def masked(x: Any) -> Any:
        return x.masked_fill(torch.tensor([True, False, False]), -INF)

    assert (
        watch(Chain(nn.Linear(3, 3), nn.Softmax(-1), between=masked), torch.ones(2, 3))[0] is None
    )


def test_scores_that_were_all_masked_outside_of_modules_are_told() -> None:
    between = lambda x: x.masked_fill(torch.ones(3, dtype=torch.bool), -INF)  # noqa: E731
    model = Chain(nn.Linear(3, 3), nn.Softmax(-1), between=between)
    found, _ = watch(model, torch.ones(2, 3))
    assert (found.origin.value, found.cell) == ("between", "input[0]")
    assert any("masked altogether" in hint for hint in found.hints)


def test_a_row_that_is_masked_altogether_is_a_fault_of_softmax() -> None:
    x = torch.tensor([[-INF, -INF, -INF], [0.0, 1.0, -INF]])
    found, _ = watch(Chain(nn.Identity(), nn.Softmax(-1)), x)
    assert (found.module, found.cell, found.nan_count) == ("parts.1", "output", 3)
    assert any("masked altogether" in hint for hint in found.hints)


def test_a_monitor_of_fake_tensors_finds_no_values() -> None:
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode(), NumericsMonitor(nn.Linear(4, 4)) as monitor:
        monitor.model(torch.ones(1, 4)).sum().backward()
    assert (monitor.batch, monitor.first_bad) == (1, None)
    assert any("no values" in frame for frame in monitor.frames)


class Unread(io.StringIO):
    """A pipe whose reader is gone."""

    def write(self, text: str) -> int:
        raise BrokenPipeError(32, "Broken pipe")


def test_a_report_that_cannot_be_written_does_not_hide_the_culprit(prose: Prose) -> None:
    with (
        pytest.raises(NumericsError) as refused,
        NumericsMonitor(nn.Sequential(nn.Linear(2, 2)), out=Unread()) as monitor,
    ):
        monitor.model(torch.full((1, 2), NAN))
    prose(refused.value)


def test_numbers_that_stay_bad_are_not_told_in_every_batch() -> None:
    out, lengths = io.StringIO(), []
    with NumericsMonitor(nn.Linear(2, 2), out=out, on_bad="report") as monitor:
        for _ in range(6):
            monitor.model(torch.full((1, 2), NAN))
            lengths.append(len(out.getvalue()))
    assert lengths[0] < lengths[2] == lengths[5]


def test_plus_infinity_under_the_name_of_a_mask_is_a_fault() -> None:
    found, _ = watch(
        Call(lambda attention_mask: attention_mask * 0 + 1), attention_mask=torch.tensor([1.0, INF])
    )
    assert found is not None
