"""NumPy's arrays in pickles, which hold their values themselves.

Two forms: _reconstruct() with a state (protocols 0 to 4, and whatever is not contiguous), and
_frombuffer() (protocol 5). Source: numpy/_core/src/multiarray/methods.c, array_reduce() and
array_setstate(); descriptor.c, arraydescr_reduce().
"""

import struct
from math import prod

from postmortem.facts.tensors import TensorPlace
from postmortem.readers.checkpoint.layout import NotScanned, sizes
from postmortem.readers.checkpoint.numpy_files import dtype_of, fortran_strides
from postmortem.readers.checkpoint.objects import Global, Unknown

_RECONSTRUCT = frozenset(
    {"numpy.core.multiarray._reconstruct", "numpy._core.multiarray._reconstruct"}
)
_FROM_BUFFER = frozenset({"numpy.core.numeric._frombuffer", "numpy._core.numeric._frombuffer"})
MAKERS = _RECONSTRUCT | _FROM_BUFFER
"""What NumPy's pickles call to make an array."""

_SCALARS = frozenset({"numpy.core.multiarray.scalar", "numpy._core.multiarray.scalar"})
_FLOATS = {"float16": "<e", "float32": "<f", "float64": "<d"}
_BYTES = frozenset({"builtins.bytes", "__builtin__.bytes", "builtins.bytearray"})
_EXTENSION = "ml_dtypes."
"""Where bfloat16 and fp8 of JAX come from: pickles name them by class, .npy files as bytes."""
_EXTENSIONS = frozenset(
    {"bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"}
)


def lay_array(name: str, value: Unknown, item_bytes: dict[str, int]) -> TensorPlace:
    """Return the array that one of MAKERS was called for, with its values.

    Raises NotScanned for what holds no numbers of this machine's, ValueError for what is damaged.
    """
    said, kind, fortran, content = _described(value)
    if isinstance(content, list):
        raise NotScanned("an array of Python objects")
    data = _bytes(content)
    if data is None:
        raise ValueError("is an array whose values are not in the pickle")
    dtype, shape = _dtype(kind), sizes(said)
    if shape is None:
        raise ValueError("is an array without a shape")
    wanted = prod(shape) * item_bytes[dtype]
    if wanted != len(data):
        what = f"{dtype} of shape {shape} takes {wanted:,} bytes, the pickle holds {len(data):,}"
        raise ValueError(what)
    strides = fortran_strides(shape) if fortran and len(shape) > 1 else None
    return TensorPlace(name, dtype, shape, 0, strides, held=data)


def is_nan_scalar(value: Unknown) -> bool:
    """Return whether a pickled object is a number of NumPy's that is NaN."""
    parts = value.parts
    if value.name not in _SCALARS or not isinstance(parts, tuple) or len(parts) != 2:
        return False
    data = _bytes(parts[1])
    try:
        form = _FLOATS.get(_dtype(parts[0]))
    except (NotScanned, ValueError):
        return False
    if form is None or data is None or len(data) != struct.calcsize(form):
        return False
    (number,) = struct.unpack(form, data)
    return bool(number != number)


def _described(value: Unknown) -> tuple[object, object, bool, object]:
    """Return shape, data type, whether in Fortran order, and values; nothing of it is checked."""
    if value.name in _RECONSTRUCT:
        state = value.state
        if isinstance(state, tuple) and len(state) == 4:  # before NumPy 1.0: without a version
            state = (0, *state)
        if not isinstance(state, tuple) or len(state) != 5:
            raise ValueError("is an array without its state")
        return state[1], state[2], bool(state[3]), state[4]
    parts = value.parts
    if not isinstance(parts, tuple) or len(parts) < 3:
        raise ValueError("is an array without its parts")
    return parts[2], parts[1], len(parts) > 3 and parts[3] == "F", parts[0]


def _bytes(value: object) -> bytes | bytearray | None:
    """Return bytes as protocols 0 to 5 write them."""
    if isinstance(value, (bytes, bytearray)):
        return value
    if isinstance(value, str):  # Python 2's
        return _latin(value)
    if not isinstance(value, Unknown):
        return None
    parts = value.parts if isinstance(value.parts, tuple) else ()
    if value.name == "_codecs.encode" and len(parts) == 2 and isinstance(parts[0], str):
        return _latin(parts[0]) if parts[1] == "latin1" else None
    if value.name in _BYTES:
        return _bytes(parts[0]) if parts else b""
    return None


def _latin(text: str) -> bytes | None:
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return None


def _dtype(kind: object) -> str:
    """Return the name of a data type that was pickled as dtype(name) and a state."""
    if not isinstance(kind, Unknown) or not isinstance(kind.parts, tuple) or not kind.parts:
        raise ValueError("is an array without a data type")
    name = kind.parts[0]
    order = kind.state[1] if isinstance(kind.state, tuple) and len(kind.state) > 1 else "|"
    if isinstance(name, Global):
        name = name.name.removeprefix(_EXTENSION)
        return name if name in _EXTENSIONS else dtype_of(name)
    return dtype_of(f"{order}{name}")
