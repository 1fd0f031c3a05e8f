"""Scans inside of compiled functions."""

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

from postmortem import fastscan  # noqa: E402
from postmortem.scan.ring import ScanRing, _on_cpu, _on_device  # noqa: E402

FIELDS = (
    "numel nan_count inf_count zero_count subnormal_count first_nonfinite abs_min abs_max "
    "abs_min_nonzero abs_max_finite"
).split()


def fields(result: Any) -> dict[str, str]:
    return {name: str(getattr(result, name)) for name in FIELDS}


def samples() -> list[Any]:
    mixed = torch.randn(40)
    mixed[3], mixed[5], mixed[7], mixed[9] = math.nan, math.inf, 0, 1e-41
    nans = torch.full((3,), math.nan)
    return [mixed, nans, torch.zeros(4), torch.full((2,), -math.inf), torch.empty(0), torch.ones(1)]


@pytest.mark.parametrize("way", [_on_cpu, _on_device])
def test_a_slot_holds_what_fastscan_says(way: Any) -> None:
    for x in samples():
        ring = ScanRing(3)
        assert ring[1] is None
        way(x, ring._rows, 1)
        assert fields(ring[1]) == fields(fastscan(x))
        assert ring[1].dtype == "unknown"  # a row does not say, and it is not its own float64
        assert (ring[0], ring[2]) == (None, None)
        ring.clear()
        assert ring[1] is None
    assert len(ring) == 3


@pytest.mark.slow
@pytest.mark.cxx
@pytest.mark.timeout(300)
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_a_compiled_function_that_scans_has_no_graph_break(backend: str) -> None:
    torch._dynamo.reset()
    ring = ScanRing(4)
    layers = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(4))

    def step(x: Any) -> Any:
        for i, layer in enumerate(layers):
            x = torch.relu(layer(x))
            ring.record(x, i)
        return x.sum()

    compiled = torch.compile(step, backend=backend, fullgraph=True)
    x = torch.randn(5, 8)
    compiled(x).backward()
    seen = x
    for i, layer in enumerate(layers):
        seen = torch.relu(layer(seen))
        result = ring[i]
        assert result is not None, f"the scan of layer {i} was taken for dead code"
        assert result.numel == 40
        assert result.abs_max == pytest.approx(float(seen.abs().max()), rel=1e-5)
    with torch.no_grad():
        layers[2].weight[0, 0] = math.nan
    compiled(x)
    bad = [i for i in range(4) if not ring[i].is_finite]
    assert bad == [2, 3]
