"""fastscan() on real tensors and arrays."""

from __future__ import annotations

import copy
import math
import pickle
import sys
import warnings
from typing import Any

import pytest

from builders.prose import Prose
from postmortem import ScanResult, fastscan

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::UserWarning")]

FLOATS = [
    name
    for name in (
        "float64 float32 float16 bfloat16 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz"
    ).split()
    if hasattr(torch, name)
]


def by_torch(tensor: Any) -> dict[str, float]:
    """The recipe that people use, in double precision."""
    wide = tensor.detach().to(torch.float64).flatten()
    size = wide.abs()
    finite = size[size.isfinite()]
    return {
        "nan_count": int(wide.isnan().sum()),
        "inf_count": int(wide.isinf().sum()),
        "zero_count": int((wide == 0).sum()),
        "abs_max_finite": float(finite.max()) if finite.numel() else math.nan,
        "numel": tensor.numel(),
    }


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("shape", [(), (0, 3), (16,), (1000,), (37, 53), (2, 3, 4, 5)])
def test_equal_to_torch(name: str, shape: tuple[int, ...]) -> None:
    torch.manual_seed(1)
    tensor = torch.randn(shape, dtype=torch.float32).to(getattr(torch, name))
    if tensor.numel() > 20 and "float8" not in name:
        tensor.view(-1)[7] = math.nan
        tensor.view(-1)[5] = 0
        tensor.view(-1)[11] = math.inf
    result = fastscan(tensor)
    assert isinstance(result, ScanResult)
    found = {key: getattr(result, key) for key in by_torch(tensor)}
    assert str(found) == str(by_torch(tensor))
    assert result.dtype == name
    assert result.is_finite == (result.first_nonfinite is None)
    if tensor.numel() > 20 and "float8" not in name:
        assert result.first_nonfinite == 7


@pytest.mark.parametrize(
    "view",
    [
        lambda t: t.t(),
        lambda t: t[::2, 1::3],
        lambda t: t.flip(0),
        lambda t: t[:, None].expand(-1, 7, -1),
        lambda t: t.unfold(0, 5, 1),
        lambda t: t.as_strided((20, 20), (3, 2), 5),
        lambda t: t[3],
        lambda t: t[:, 3],
        lambda t: t[1:1],
    ],
)
def test_views(view: Any) -> None:
    base = torch.randn(40, 41)
    base[11, 13] = math.nan
    base[17, 4] = -math.inf
    seen = view(base)
    copy = fastscan(seen.contiguous())
    result = fastscan(seen)
    names = ("numel", "nan_count", "inf_count", "first_nonfinite", "abs_min", "abs_max")
    assert [str(getattr(result, n)) for n in names] == [str(getattr(copy, n)) for n in names]


def test_conjugates_negatives_parameters_and_gradients() -> None:
    z = torch.randn(9, dtype=torch.complex64)
    assert fastscan(z.conj()).abs_max == fastscan(z).abs_max
    assert fastscan(z.conj().imag).abs_max == fastscan(z.imag).abs_max
    weight = torch.nn.Parameter(torch.randn(4, 4))
    (weight.sum() * 2).backward()
    assert fastscan(weight).numel == 16
    assert fastscan(weight.grad).abs_max == 2.0
    assert fastscan(weight * 2).numel == 16  # requires grad, and is no leaf


def test_a_list_gives_a_list_in_its_order() -> None:
    tensors = [torch.full((n,), float(n)) for n in range(300)] + [torch.randn(1 << 20)]
    results = fastscan(tensors)
    assert [r.numel for r in results] == [*range(300), 1 << 20]
    assert [r.abs_max for r in results[1:300]] == [float(n) for n in range(1, 300)]
    assert fastscan(()) == []
    mixed = fastscan((torch.ones(2), memoryview_array()))
    assert [r.numel for r in mixed] == [2, 3]


def memoryview_array() -> Any:
    numpy = pytest.importorskip("numpy")
    return numpy.arange(3.0)


def test_a_list_of_all_that_can_be_in_one() -> None:
    """Small tensors are scanned one by one; from the first that is not, all others together."""
    numpy = pytest.importorskip("numpy")
    small = [torch.full((16,), float(i + 1)) for i in range(300)]  # more than room is kept for
    large = torch.full((40_000,), 301.0)
    foreign = numpy.full(3, 302.0, "f4")
    for extra in ([], [large], [foreign], [foreign, large], [large, foreign, small[0].bfloat16()]):
        for at in (0, 150, 300):
            given = [*small[:at], *extra, *small[at:]]
            for _ in range(2):  # the second time in the room of the first results
                found = fastscan(given)
                assert [r.abs_max for r in found] == [float(t.max()) for t in given]
                assert [r.numel for r in found] == [len(t) for t in given]
                assert {r.first_nonfinite for r in found} == {None}
    with pytest.raises(TypeError):
        fastscan([*small, "text"])


def test_subclasses_are_unwrapped_or_named() -> None:
    class Mine(torch.Tensor):
        pass

    assert fastscan(torch.ones(3).as_subclass(Mine)).numel == 3
    refused = {
        "meta": torch.empty(3, device="meta"),
        "sparse": torch.eye(3).to_sparse(),
        "nested": torch.nested.nested_tensor([torch.ones(2)], layout=torch.jagged),
        "quantised": torch.quantize_per_tensor(torch.randn(3), 0.1, 0, torch.qint8),
    }
    for kind, tensor in refused.items():
        with pytest.raises(TypeError, match=kind):
            fastscan(tensor)
        with pytest.raises(TypeError, match=kind):
            fastscan([torch.ones(1), tensor])


@pytest.mark.filterwarnings("ignore")  # of PyTorch, that these are in beta
@pytest.mark.parametrize("kind", ["coo", "csr", "csc", "bsr", "quantised"])
def test_what_a_refusal_advises_can_be_done(kind: str) -> None:
    eye = torch.eye(4)
    tensor = {
        "coo": lambda: eye.to_sparse(),
        "csr": lambda: eye.to_sparse_csr(),
        "csc": lambda: eye.to_sparse_csc(),
        "bsr": lambda: eye.to_sparse_bsr((2, 2)),
        "quantised": lambda: torch.quantize_per_tensor(eye, 0.1, 0, torch.qint8),
    }[kind]()
    with pytest.raises(TypeError) as caught:
        fastscan(tensor)
    for advice in str(caught.value).partition(": scan ")[2].split(" or "):
        assert fastscan(eval(advice, {"tensor": tensor})).is_finite


def test_fake_tensors_are_refused() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode() as mode:
        fake = mode.from_tensor(torch.ones(3))
    with pytest.raises(TypeError, match="FakeTensor"):
        fastscan(fake)


def test_the_local_shard_of_a_dtensor_is_scanned() -> None:
    distributed = pytest.importorskip("torch.distributed")
    if not distributed.is_available():
        pytest.skip("this PyTorch has no torch.distributed")
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        mesh = init_device_mesh("cpu", (1,))
        tensor = torch.randn(8, 4)
        tensor[3, 2] = math.nan
        sharded = distribute_tensor(tensor, mesh, [Shard(0)])
        assert fastscan(sharded).first_nonfinite == 14
        assert fastscan(torch.nn.Parameter(sharded)).nan_count == 1
    finally:
        distributed.destroy_process_group()


def test_inside_vmap_it_is_refused() -> None:
    def inner(x: Any) -> Any:
        with pytest.raises(TypeError, match=r"torch\.func"):
            fastscan(x)
        return x

    torch.func.vmap(inner)(torch.ones(3, 2))


def test_numpy_arrays(prose: Prose) -> None:
    numpy = pytest.importorskip("numpy")
    array = numpy.arange(12.0).reshape(3, 4)
    array[2, 1] = numpy.nan
    assert fastscan(array).first_nonfinite == 9
    assert fastscan(array[::-1, ::2]).numel == 6
    assert fastscan(array.T).first_nonfinite == 5
    assert fastscan(numpy.float32(3)).abs_max == 3.0
    records = numpy.zeros(5, dtype=[("a", "i1"), ("b", "<f4")])
    assert fastscan(records["b"]).zero_count == 5
    for bad in (numpy.array(["a"]), numpy.zeros(2, "longdouble"), numpy.zeros(2, "i4, f4")):
        with pytest.raises(TypeError) as raised:
            fastscan(bad)
        prose(raised.value)


def test_numpy_arrays_in_foreign_byte_order() -> None:
    numpy = pytest.importorskip("numpy")
    for kind in ("f2", "f4", "f8", "i2", "c8"):
        array = numpy.array([[3, 0], [256, 1]], dtype=f">{kind}")
        if kind[0] != "i":
            array[1, 1] = numpy.inf
        for seen in (array, array[::-1].T, array[1]):
            assert fastscan(seen) == fastscan(seen.astype(f"<{kind}"))
    records = numpy.zeros(5, dtype=[("a", "i1"), ("b", ">f4")])
    records["b"][3] = 2
    assert fastscan(records["b"]).abs_max == 2.0


def test_masked_values_are_not_counted() -> None:
    numpy = pytest.importorskip("numpy")
    masked = numpy.ma.masked_invalid([1.0, numpy.nan, 2.0])
    with pytest.raises(TypeError, match=r"masked array: scan array\.compressed\(\)"):
        fastscan(masked)
    assert fastscan(masked.compressed()).is_finite
    tensor = torch.masked.masked_tensor(torch.tensor([1.0, math.nan]), torch.tensor([True, False]))
    with pytest.raises(TypeError, match=r"masked tensor: scan (.*)$") as caught:
        fastscan(tensor)
    advice = str(caught.value).partition(": scan ")[2]
    assert fastscan(eval(advice, {"tensor": tensor})).is_finite


def test_a_subclass_of_an_array_that_lies_about_its_shape() -> None:
    numpy = pytest.importorskip("numpy")

    class Lies(numpy.ndarray):  # type: ignore[misc]
        shape = (1 << 20, 1 << 20)

    assert fastscan(numpy.ones((3, 4)).view(Lies)).numel == 12


def test_what_has_the_array_interface_only() -> None:
    numpy = pytest.importorskip("numpy")

    class Image:
        def __init__(self, array: Any) -> None:
            self.array = array
            self.__array_interface__ = array.__array_interface__

        __array_interface__: Any = None

    assert fastscan(Image(numpy.array([1.0, math.nan]))).nan_count == 1


def test_a_tensor_whose_memory_is_freed_is_refused(prose: Prose) -> None:
    """FSDP frees flat parameters between their uses; their views keep an offset to nothing."""
    flat = torch.ones(1000)
    views = [flat, flat[3:], flat.view(10, 100)[:, 7], torch.nn.Parameter(flat[900:])]
    flat.untyped_storage().resize_(0)
    for view in views:
        for given in (view, [view], [torch.ones(3), view]):
            with pytest.raises(TypeError) as raised:
                fastscan(given)
            prose(raised.value)
    assert fastscan(flat[:0]).numel == 0
    flat.untyped_storage().resize_(4000)
    flat.fill_(2.0)
    assert [fastscan(view).abs_max for view in views] == [2.0] * 4


def test_errors_of_a_subclass_are_named() -> None:
    class Opaque(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, *_: Any) -> Any:
            raise NotImplementedError("of no use")

    made = torch.Tensor._make_wrapper_subclass(Opaque, (3,))
    for tensor in (made, torch.nn.LazyLinear(3).weight):
        with pytest.raises(TypeError, match=type(tensor).__name__):
            fastscan(tensor)


def test_what_gives_tensors_is_asked_for_as_a_list(prose: Prose) -> None:
    layer = torch.nn.Linear(2, 2)
    for given in (layer.parameters(), {torch.ones(1)}, [[torch.ones(1)]]):
        with pytest.raises(TypeError) as raised:
            fastscan(given)
        prose(raised.value)
    with pytest.raises(TypeError, match=r"list\(x\.values\(\)\)"):
        fastscan(layer.state_dict())
    with pytest.raises(TypeError, match=r"not bytes$"):
        fastscan(b"abc")


def test_what_has_dlpack(prose: Prose) -> None:
    class Box:
        def __init__(self, tensor: Any) -> None:
            self.tensor = tensor

        def __dlpack__(self, **words: Any) -> Any:
            return self.tensor.__dlpack__(**words)

    assert fastscan(Box(torch.arange(6.0))).abs_max == 5.0
    with pytest.raises(TypeError) as raised:
        fastscan(3)
    prose(raised.value)

    class Refuses:
        def __dlpack__(self, **_: Any) -> Any:
            raise BufferError("it is read elsewhere")

    with pytest.raises(TypeError, match="Refuses through DLPack: it is read elsewhere"):
        fastscan(Refuses())


def test_flushing_denormals_hides_none() -> None:
    tensor = torch.full((100,), 1e-41)
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor cannot flush subnormals")
    try:
        result = fastscan(tensor)
    finally:
        torch.set_flush_denormal(False)
    assert (result.subnormal_count, result.zero_count) == (100, 0)
    assert result.abs_min > 0


@pytest.mark.parametrize("name", [*FLOATS, "int32", "bool", "complex64"])
def test_the_operations_of_torch_say_the_same(name: str) -> None:
    """The way that is taken on devices without kernels of ours, here on the CPU."""
    from postmortem.scan.torch_ops import scan_on_device

    torch.manual_seed(2)
    tensor = (torch.randn(6, 50, dtype=torch.float32) * 3).to(getattr(torch, name))
    if tensor.is_floating_point() and "float8" not in name:
        tensor[2, 3], tensor[4, 1], tensor[0, 0] = math.nan, math.inf, 0
        tensor[1, 1] = torch.finfo(tensor.dtype).smallest_normal / 2
    later = scan_on_device(tensor)
    assert not later.ready
    now = fastscan(tensor)
    for field in (
        "numel nan_count inf_count zero_count subnormal_count first_nonfinite abs_min abs_max"
        " abs_min_nonzero abs_max_finite"
    ).split():
        assert str(getattr(later, field)) == str(getattr(now, field)), field
    assert later.ready
    empty = scan_on_device(torch.empty(0, dtype=tensor.dtype))
    assert math.isnan(empty.abs_max)
    assert empty.numel == 0


def test_numbers_that_never_come_are_an_error() -> None:
    def lost() -> tuple[int, ...]:
        raise RuntimeError("CUDA error: device-side assert triggered")

    result = ScanResult._later("float32", lost)
    assert "not read yet" in repr(result)
    with pytest.raises(RuntimeError, match="device-side assert"):
        _ = result.abs_max
    with pytest.raises(TypeError):
        _ = ScanResult._later("float32", lambda: 3).abs_max  # type: ignore[arg-type, return-value]


def test_a_result_is_made_by_a_scan_only() -> None:
    with pytest.raises(TypeError):
        ScanResult()
    result = fastscan(torch.ones(3))
    with pytest.raises(AttributeError):
        result.abs_max = 4.0  # type: ignore[misc]
    assert repr(result).startswith("ScanResult(abs_min=1, abs_max=1, nan_count=0")


def test_results_are_pickled_copied_and_compared() -> None:
    tensor = torch.tensor([0.0, -3.0, 1e-40, math.nan, math.inf])
    result = fastscan(tensor)
    for other in (pickle.loads(pickle.dumps(result)), copy.deepcopy(result), fastscan(tensor)):
        assert other is not result
        assert other == result
        assert hash(other) == hash(result)
        assert repr(other) == repr(result)
        assert other.subnormal_count == 1
    assert fastscan(torch.empty(0)) == fastscan(torch.empty(0))  # whose extremes are NaN
    differ = [fastscan(tensor[:4]), fastscan(tensor.double()), fastscan(tensor.flip(0)), 3]
    assert all(result != other for other in differ)
    row = (1, 0, 0, 0, 0, -1, 2.0, 2.0, 2.0, 2.0)
    later = [ScanResult._later("float32", lambda: row) for _ in range(3)]
    assert later[0] == fastscan(torch.full((1,), 2.0))
    assert pickle.loads(pickle.dumps(later[1])) == later[2]


def test_nothing_is_kept_alive() -> None:
    import weakref

    tensor = torch.ones(5)
    gone = weakref.ref(tensor)
    before = sys.getrefcount(tensor)
    results = [fastscan(tensor) for _ in range(10)] + fastscan([tensor] * 5)
    assert sys.getrefcount(tensor) == before
    del tensor
    assert gone() is None
    assert len(results) == 15


def test_no_warning_is_raised() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fastscan([torch.ones(3), torch.ones(3, dtype=torch.bfloat16).requires_grad_()])
