"""The CUDA module where no GPU is: it is loaded, says what is missing, and breaks nothing."""

import importlib.util
import math

import pytest

from postmortem.scan import cuda

built = pytest.mark.skipif(
    importlib.util.find_spec("postmortem._cuda") is None, reason="built without nvcc"
)


def test_the_state_is_one_that_doctor_knows() -> None:
    from postmortem.diagnose.machine.tools import CUDA_FIXES

    assert cuda.usable().state in {"usable", *CUDA_FIXES}


@built
def test_it_can_be_loaded_anywhere() -> None:
    found = cuda.usable()
    assert found.runtime >= 12000, found.text
    assert found.architectures


@built
def test_a_device_that_is_not_there_has_a_reason() -> None:
    from postmortem import _cuda

    assert _cuda.prepare(63) is not None
    assert _cuda.prepare(-1) == "no such device"
    with pytest.raises(RuntimeError):
        _cuda.scan_pointer(4096, device=63, stream=0, dtype="float32", shape=[4])


@built
def test_what_no_kernel_takes() -> None:
    from postmortem import _cuda

    with pytest.raises(ValueError, match="no data type"):
        _cuda.scan_pointer(4096, device=0, stream=0, dtype="float7", shape=[4])
    with pytest.raises(ValueError, match="no memory"):
        _cuda.scan_pointer(0, device=0, stream=0, dtype="float32", shape=[4])
    with pytest.raises(ValueError, match="of no array"):
        _cuda.scan_pointer(4096, device=0, stream=0, dtype="float32", shape=[4], strides=[])
    assert _cuda.scan_pointer(4097, device=0, stream=0, dtype="float32", shape=[4]) is None


@built
def test_an_empty_tensor_needs_no_device() -> None:
    from postmortem import _cuda

    pending = _cuda.scan_pointer(0, device=0, stream=0, dtype="float32", shape=[0, 3])
    assert pending is not None
    assert pending.ready()
    count, *counts, first = pending()[:6]
    assert (count, counts, first) == (0, [0, 0, 0, 0], -1)
    assert all(math.isnan(number) for number in pending()[6:])
