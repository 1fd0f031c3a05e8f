"""What the native scan cannot take by itself: other libraries' arrays, and tensors without memory.

The native function reads plain tensors through DLPack's exchange API where PyTorch has it. All else
comes here: it is unwrapped, or a `TypeError` names its kind.
"""

import importlib
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from postmortem import _scan
from postmortem._scan import ScanResult

_LAYOUTS = {
    "torch.sparse_coo": "sparse",
    "torch.sparse_csr": "sparse",
    "torch.sparse_csc": "sparse",
    "torch.sparse_bsr": "sparse",
    "torch.sparse_bsc": "sparse",
    "torch._mkldnn": "MKL-DNN",
    "torch.jagged": "nested",
}
_NO_TENSORS = (str, bytes, bytearray, memoryview)
_trusted: dict[type, bool] = {}


class Unreadable(TypeError):
    """A value that fastscan cannot read."""

    def __init__(self, what: str, why: str = "") -> None:
        """Say what it is, and why or what to do instead."""
        super().__init__(f"fastscan cannot read {what}" + (f": {why}" if why else ""))
        self.what = what


def install() -> None:
    """Have the native scan ask here for all that it does not know."""
    _scan.on_other(scan_other)


def scan_other(value: Any) -> ScanResult:
    """Return the scan of whatever is no plain tensor in memory; raises TypeError if it has none."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return _scan_torch(torch, value)
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
        return _scan_numpy(numpy, value)
    if hasattr(type(value), "__dlpack__"):
        return _scan_dlpack(value)
    if hasattr(type(value), "__array_interface__"):
        numpy = importlib.import_module("numpy")
        return _scan_numpy(numpy, numpy.asarray(value))
    several = ""
    if isinstance(value, Mapping):
        several = ": give a list of its values, list(x.values())"
    elif isinstance(value, Iterable) and not isinstance(value, _NO_TENSORS):
        several = ": if it gives tensors, make a list of them"
    raise TypeError(f"fastscan needs a tensor or an array, not {_named(value)}{several}")


def _scan_torch(torch: Any, tensor: Any) -> ScanResult:
    kind = type(tensor)
    if kind in (torch.Tensor, torch.nn.Parameter) and kind not in _trusted:
        capsule = getattr(kind, "__dlpack_c_exchange_api__", None)  # PyTorch 2.10 and later
        _trusted[kind] = capsule is not None and _scan.trust_type(kind, capsule)
        if _trusted[kind]:
            result: ScanResult = _scan.fastscan(tensor)
            return result
    try:
        plain = _plain(torch, tensor)
        freed = _is_freed(plain)
    except (NotImplementedError, RuntimeError, ValueError) as error:  # of a subclass's own code
        raise Unreadable(_named(tensor), str(error)) from error
    if freed:
        raise Unreadable(
            "a tensor whose memory was freed, as FSDP does with parameters between their uses",
            "scan it where it is gathered",
        )
    if plain.device.type != "cpu":
        from postmortem.scan.cuda import scan_on_device

        return scan_on_device(plain)
    return _scan_pointer(plain)


def _plain(torch: Any, tensor: Any) -> Any:
    """Return the tensor that holds the values: the local shard, or what a wrapper wraps."""
    for _ in range(8):
        local = getattr(tensor, "_local_tensor", None)  # DTensor, also in older versions
        if local is None and type(tensor).__name__ == "AsyncCollectiveTensor":
            local = tensor.wait()
        if local is None:
            break
        tensor = local
    refused = _refused(torch, tensor)
    if refused is not None:
        raise Unreadable(*refused)
    return tensor.detach()


def _is_freed(tensor: Any) -> bool:
    """Return whether the storage has no memory: the address is then the offset in the storage."""
    if not tensor.numel() or tensor.device.type not in ("cpu", "cuda"):
        return False
    offset = tensor.storage_offset() * tensor.element_size()
    return bool(tensor.data_ptr() == offset)


def _refused(torch: Any, tensor: Any) -> tuple[str, str] | None:
    """Say what a tensor is that has no values to be read, and why or what to scan instead."""
    name = _named(tensor)
    if isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin):
        return name, "it gets its shape and values with the first batch"
    if name == "torch.masked.maskedtensor.core.MaskedTensor":
        return "a masked tensor", "scan tensor.get_data()[tensor.get_mask()]"
    if tensor.device.type == "meta":
        fake = "FakeTensor" in type(tensor).__name__
        none = "it has a shape and no values"
        return (name, none) if fake else ("a meta tensor", "it has no values")
    if "FakeTensor" in type(tensor).__name__:
        return name, "it has a shape and no values"
    if tensor.is_nested:
        return "a nested tensor", "scan its parts, tensor.unbind()"
    kind = _LAYOUTS.get(str(tensor.layout))
    if kind is not None:
        how = "tensor.values()" if kind == "sparse" else "tensor.to_dense()"
        if tensor.layout is torch.sparse_coo:
            how = "tensor.coalesce().values()"
        return f"a {kind} tensor", f"scan {how}"
    if tensor.is_quantized:
        return "a quantised tensor", "scan tensor.int_repr() or tensor.dequantize()"
    functorch = getattr(torch._C, "_functorch", None)
    if functorch is not None and functorch.is_functorch_wrapped_tensor(tensor):
        return "a tensor inside torch.func (vmap, grad)", "scan what the function returns"
    if hasattr(type(tensor), "__tensor_flatten__"):
        parts, _ = tensor.__tensor_flatten__()
        return name, f"scan its parts ({', '.join(map(str, parts))})"
    return None


def _scan_pointer(tensor: Any) -> ScanResult:
    """Scan a tensor in this machine's memory where there is no exchange API."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    shape = tuple(tensor.shape)
    try:
        return _scan.scan_memory(
            tensor.data_ptr() if tensor.numel() else 0,
            dtype=dtype,
            shape=shape,
            strides=None if tensor.is_contiguous() else tuple(tensor.stride()),
        )
    except ValueError as error:
        raise Unreadable(f"{dtype} tensors", str(error)) from None
    except RuntimeError as error:  # a tensor without storage
        raise Unreadable(_named(tensor), str(error)) from None


def _scan_numpy(numpy: Any, array: Any) -> ScanResult:
    """Scan an array or a scalar of NumPy."""
    if isinstance(array, numpy.ma.MaskedArray):
        raise Unreadable("a masked array", "scan array.compressed()")
    array = numpy.asarray(array)  # a subclass may say what it likes of its shape
    dtype = array.dtype
    name = str(dtype.name)
    if name == "float128" or dtype.kind not in "biufcV":
        raise Unreadable(f"NumPy arrays of {dtype}")
    if not dtype.isnative and dtype.names is None:
        array = array.astype(dtype.newbyteorder("="))
    elif any(stride % dtype.itemsize for stride in array.strides):
        array = array.copy()  # a field of records
    try:
        return _scan.scan_memory(
            array.__array_interface__["data"][0],
            dtype=name,
            shape=array.shape,
            strides=tuple(stride // dtype.itemsize for stride in array.strides),
        )
    except ValueError as error:
        raise Unreadable(f"NumPy arrays of {dtype}", str(error)) from None


def _scan_dlpack(value: Any) -> ScanResult:
    try:
        capsule = value.__dlpack__()
    except BufferError as error:  # what DLPack asks for where an array cannot be given
        raise Unreadable(f"{_named(value)} through DLPack", str(error)) from error
    result = _scan.scan_capsule(capsule)
    if result is None:
        raise Unreadable(f"{_named(value)} through DLPack", "no known data type")
    return result


def _named(value: Any) -> str:
    kind = type(value)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return f"{module}{kind.__qualname__}"
