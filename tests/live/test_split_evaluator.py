"""The name of an evaluator whose body the compiler moved away, in a stripped program."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from postmortem import _native

pytestmark = [pytest.mark.cores, pytest.mark.cxx]


def test_the_cold_part_has_a_name_without_its_symbol(
    compiled: Callable[..., Path], crash: Callable[..., Any], tmp_path: Path
) -> None:
    """Debian's python3.14, built by GCC 16, has nearly all of its evaluator there."""
    strip, nm = shutil.which("strip"), shutil.which("nm")
    if strip is None or nm is None:
        pytest.skip("no binutils found (strip, nm)")
    flags = ("-O2", "-freorder-blocks-and-partition", "-rdynamic")
    program = compiled("split_evaluator.cpp", *flags)
    symbols = subprocess.run([nm, program], capture_output=True, text=True, check=True).stdout
    if "_PyEval_EvalFrameDefault.cold" not in symbols:
        pytest.skip("this compiler does not split the function")
    stripped = tmp_path / "stripped"
    subprocess.run([strip, "-o", stripped, program], check=True)
    core = _native.read_core(str(crash([stripped]).core))
    names = [frame["function"] for frame in core["threads"][0]["frames"]]
    assert names[:2] == ["opcode", "_PyEval_EvalFrameDefault.cold"]
