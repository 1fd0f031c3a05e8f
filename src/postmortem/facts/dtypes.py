"""Ranges of floating-point types: what is near the edge of one."""

from postmortem.records import record


@record
class FloatRange:
    """The finite magnitudes that a type can hold."""

    largest: float
    smallest_normal: float
    saturates: bool = False
    """Whether casts give the largest value where others give Inf."""


# OCP 8-bit Floating Point Specification 1.0, table 2; IEEE 754-2019. The exponent of bfloat16 is
# that of float32.
RANGES = {
    "float16": FloatRange(65504.0, 2.0**-14),
    "bfloat16": FloatRange(3.3895313892515355e38, 2.0**-126),
    "float32": FloatRange(3.4028234663852886e38, 2.0**-126),
    "float64": FloatRange(1.7976931348623157e308, 2.0**-1022),
    "float8_e4m3fn": FloatRange(448.0, 2.0**-6, True),
    "float8_e4m3fnuz": FloatRange(240.0, 2.0**-7, True),
    "float8_e5m2": FloatRange(57344.0, 2.0**-14, True),
    "float8_e5m2fnuz": FloatRange(57344.0, 2.0**-15, True),
}
