"""Tensors as a pickle of torch.save() describes them, laid over the storages in a file."""

from collections.abc import Callable

from postmortem.facts.tensors import MOST_NAN_NUMBERS, TensorPlace
from postmortem.readers.checkpoint.arrays import MAKERS, lay_array
from postmortem.readers.checkpoint.contents import SAVED_WITHIN, contents_of
from postmortem.readers.checkpoint.layout import Layout, NotScanned
from postmortem.readers.checkpoint.numpy_files import ITEM_BYTES as _NUMPY_BYTES
from postmortem.readers.checkpoint.objects import Storage, Tensor, Unknown
from postmortem.readers.checkpoint.rebuilding import ON_META

ITEM_BYTES = {
    **_NUMPY_BYTES,
    "bfloat16": 2,
    "complex32": 4,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "float8_e4m3fnuz": 1,
    "float8_e5m2fnuz": 1,
    "float8_e8m0fnu": 1,
    "float4_e2m1fn_x2": 1,
}

StoragePlace = Callable[[Storage], tuple[int, int, str | None]]
"""Gives offset and size in bytes of a storage, and the record to be unpacked if it is packed (the
offset is then 0); raises ValueError or NotScanned."""


def lay(layout: Layout, value: object, file: str, place: StoragePlace, within: str = "") -> None:
    """Add the tensors, and the numbers that are NaN, below a value that a pickle was followed to.

    `within` names the value.
    """
    seen: set[tuple[object, ...]] = set()
    for path, found in contents_of(value):
        name = f"{within}.{path}" if within and path else within or path
        if isinstance(found, float):
            if len(layout.nan_numbers) < MOST_NAN_NUMBERS:
                layout.nan_numbers.append(name)
            continue
        where = f"{file}: {name}"
        try:
            if not isinstance(found, Tensor):
                layout.tensors.append(_laid_unknown(name, found))
                continue
            key = (found.storage.key, found.dtype, found.offset, found.shape, found.strides)
            if key in seen:  # tied weights
                continue
            seen.add(key)
            layout.tensors.append(_laid(name, found, *place(found.storage)))
        except NotScanned as reason:
            layout.skip(where, str(reason))
        except ValueError as error:
            layout.damage(where, str(error))


def _laid_unknown(name: str, found: Unknown) -> TensorPlace:
    if found.name in MAKERS:
        return lay_array(name, found, ITEM_BYTES)
    parts = found.parts
    on = parts[0] if isinstance(parts, tuple) and parts else None
    if SAVED_WITHIN in (found.name, on.name if isinstance(on, Unknown) else None):
        raise NotScanned("a tensor that pickle.dump() wrote, not torch.save()")
    if found.name == ON_META:
        raise NotScanned("was saved from the meta device, without values")
    raise ValueError("how it lies on its storage cannot be read")


def _laid(name: str, tensor: Tensor, begin: int, size: int, packed: str | None) -> TensorPlace:
    item = ITEM_BYTES.get(tensor.dtype or "")
    if item is None or tensor.dtype is None:
        raise NotScanned(f"its data type {tensor.dtype} is not known here")
    if tensor.offset < 0 or any(n < 0 for n in (*tensor.shape, *tensor.strides)):
        raise ValueError("a size of it is negative")
    last = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.strides, strict=True))
    if 0 not in tensor.shape and (tensor.offset + last + 1) * item > size:
        reach = (tensor.offset + last + 1) * item
        raise ValueError(f"it reaches {reach:,} bytes into its record of {size:,}")
    begin += tensor.offset * item
    # Of a packed record what lies side by side is unpacked and scanned piece by piece.
    strides = None if packed is not None and _is_contiguous(tensor) else tensor.strides
    return TensorPlace(name, tensor.dtype, tensor.shape, begin, strides, packed=packed)


def _is_contiguous(tensor: Tensor) -> bool:
    expected = 1
    for size, stride in reversed(list(zip(tensor.shape, tensor.strides, strict=True))):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True
