"""What arrays of numbers hold, worked out one value at a time from the formats' definitions."""

import math
import struct
from collections.abc import Iterator

STRUCT = {
    "float64": "d",
    "float32": "f",
    "float16": "e",
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint8": "B",
    "uint16": "H",
    "uint32": "I",
    "uint64": "Q",
    "bool": "?",
}
# name: (bits of the fraction, bias); the rest of a byte but the sign is the exponent
EIGHT_BITS = {
    "float8_e5m2": (2, 15),
    "float8_e4m3fn": (3, 7),
    "float8_e5m2fnuz": (2, 16),
    "float8_e4m3fnuz": (3, 8),
}
ITEM = {
    **{name: struct.calcsize(code) for name, code in STRUCT.items()},
    **dict.fromkeys([*EIGHT_BITS, "float8_e8m0fnu", "float4_e2m1fn_x2"], 1),
    "bfloat16": 2,
}
SMALLEST_NORMAL = {
    "float64": 2.0**-1022,
    "float32": 2.0**-126,
    "bfloat16": 2.0**-126,
    "float16": 2.0**-14,
    "float8_e5m2": 2.0**-14,
    "float8_e4m3fn": 2.0**-6,
    "float8_e5m2fnuz": 2.0**-15,
    "float8_e4m3fnuz": 2.0**-7,
    "float4_e2m1fn_x2": 1.0,
}


def values_of(data: bytes, dtype: str) -> list[float]:
    """Return the numbers in bytes, as Python floats or ints."""
    if dtype == "bool":
        return [int(byte != 0) for byte in data]
    if dtype in STRUCT:
        return list(struct.unpack(f"<{len(data) // ITEM[dtype]}{STRUCT[dtype]}", data))
    if dtype == "bfloat16":
        halves = struct.unpack(f"<{len(data) // 2}H", data)
        return [struct.unpack("<f", struct.pack("<I", half << 16))[0] for half in halves]
    if dtype == "float8_e8m0fnu":
        return [math.nan if byte == 0xFF else 2.0 ** (byte - 127) for byte in data]
    if dtype == "float4_e2m1fn_x2":
        four_bits = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
        return [four_bits[code & 7] for byte in data for code in (byte & 15, byte >> 4)]
    return list(_eight_bits(data, dtype))


def _eight_bits(data: bytes, dtype: str) -> Iterator[float]:
    fraction_bits, bias = EIGHT_BITS[dtype]
    for byte in data:
        low = byte & 0x7F
        exponent, fraction = low >> fraction_bits, low & ((1 << fraction_bits) - 1)
        if dtype.endswith("fnuz"):
            special = math.nan if byte == 0x80 else None
        elif dtype == "float8_e4m3fn":
            special = math.nan if low == 0x7F else None
        else:
            top = exponent == 31
            special = None if not top else math.nan if fraction else math.inf
        if special is not None:
            yield special
        elif exponent == 0:
            yield fraction * 2.0 ** (1 - bias - fraction_bits)
        else:
            yield (1 + fraction / (1 << fraction_bits)) * 2.0 ** (exponent - bias)


def facts_of(values: list[float], dtype: str) -> dict[str, object]:
    """Return the fields of a ScanResult, by the plainest way there is."""
    sizes = [abs(value) for value in values if not math.isnan(value)]
    nonzero = [size for size in sizes if size != 0]
    finite = [size for size in sizes if not math.isinf(size)]
    bad = [i for i, value in enumerate(values) if math.isnan(value) or math.isinf(value)]
    normal = SMALLEST_NORMAL.get(dtype, 0.0)
    return {
        "numel": len(values),
        "nan_count": len(values) - len(sizes),
        "inf_count": sum(1 for size in sizes if math.isinf(size)),
        "zero_count": len(sizes) - len(nonzero),
        "subnormal_count": sum(1 for size in nonzero if size < normal),
        "first_nonfinite": bad[0] if bad else None,
        "abs_min": float(min(sizes, default=math.nan)),
        "abs_max": float(max(sizes, default=math.nan)),
        "abs_min_nonzero": float(min(nonzero, default=math.nan)),
        "abs_max_finite": float(max(finite, default=math.nan)),
    }
