"""Weights of programs that torch.export.save() wrote (.pt2): records of a zip archive.

Since PyTorch 2.8 each weight is a record of raw values, described by
``data/weights/MODEL_weights_config.json``, and constants likewise; before, state and constants are
one archive of torch.save() each, within the archive. Sources: torch/export/pt2_archive/_package.py,
torch/_export/serde/schema.py.
"""

import json
from collections.abc import Iterable

from postmortem.readers.checkpoint.layout import sizes
from postmortem.readers.checkpoint.objects import Storage, Tensor

EARLIER = ("serialized_state_dict.pt", "serialized_constants.pt")
"""Records of the earlier form."""
_CONFIGS = {"data/weights/": "_weights_config.json", "data/constants/": "_constants_config.json"}
_DTYPES = {
    1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "float16", 7: "float32",
    8: "float64", 9: "complex32", 10: "complex64", 11: "complex128", 12: "bool", 13: "bfloat16",
    28: "uint16", 29: "float8_e4m3fn", 30: "float8_e5m2", 31: "float8_e4m3fnuz",
    32: "float8_e5m2fnuz", 33: "float8_e8m0fnu", 34: "uint32", 35: "uint64",
}  # fmt: skip
"""Of schema.ScalarType."""
_STRIDED = 7
"""Of schema.Layout."""


def configs(records: Iterable[str]) -> list[tuple[str, str]]:
    """Return the descriptions among the records, each with the model that it is of."""
    found = []
    for path in records:
        for folder, ending in _CONFIGS.items():
            before, within, name = path.rpartition(folder)
            if within and path.endswith(ending) and "/" not in before.rstrip("/") + name:
                found.append((path, name.removesuffix(ending)))
    return found


def described(text: bytes) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return tensors by name, their storages being records, and records of torch.save() by name.

    Raises ValueError if it is no such description.
    """
    try:
        config = json.loads(text)["config"]
        tensors: dict[str, Tensor] = {}
        pickled: dict[str, str] = {}
        for name, entry in config.items():
            if entry["use_pickle"]:
                pickled[name] = _text(entry["path_name"])
            elif entry.get("tensor_meta") is not None:  # else an object of a class of its own
                tensors[name] = _tensor(_text(entry["path_name"]), entry["tensor_meta"])
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        what = f"{type(error).__name__}: {str(error)[:60]}"
        raise ValueError(f"describes its weights in an unknown way ({what})") from None
    return tensors, pickled


def _tensor(record: str, meta: dict[str, object]) -> Tensor:
    number, layout = meta["dtype"], meta["layout"]
    dtype = _DTYPES.get(number) if isinstance(number, int) else None
    if dtype is None:
        dtype = f"number {str(number)[:20]}"
    elif layout != _STRIDED:
        dtype = f"{dtype} in layout {str(layout)[:20]}"
    shape, strides = _sizes(meta["sizes"]), _sizes(meta["strides"])
    if len(shape) != len(strides):
        raise TypeError("sizes and strides")
    (offset,) = _sizes([meta["storage_offset"]])
    return Tensor(Storage(record, dtype, -1), dtype, offset, shape, strides)


def _sizes(value: object) -> tuple[int, ...]:
    found = sizes([part["as_int"] for part in value] if isinstance(value, list) else None)
    if found is None:
        raise TypeError("no list of sizes")
    return found


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("a record without a name")
    return value
