"""GPU memory by process through a library with NVML's names: no machine of the tests has a GPU."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from postmortem.watch.gpu import Gpus

SOURCE = """
typedef struct { unsigned pid; unsigned long long used; unsigned gi, ci; } info;
int nvmlInit_v2(void) { return START; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **h) { *h = (void *)(long)(i + 1); return 0; }
int nvmlDeviceGetComputeRunningProcesses_v2(void *h, unsigned *n, info *rows) {
  if (*n < 3) return 7;
  rows[0] = (info){41, 1000 * (long)h, 0, 0};
  rows[1] = (info){42, ~0ull, 0, 0};
  *n = 2;
  return 0;
}
"""


def built(folder: Path, start: int) -> str:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler here")
    source, made = folder / "nvml.c", folder / f"libnvml{start}.so"
    source.write_text(SOURCE)
    command = [compiler, "-shared", "-fPIC", f"-DSTART={start}", "-o", made, source]
    subprocess.run(command, check=True, timeout=60)
    return str(made)


def test_memory_of_all_gpus_by_process(tmp_path: Path) -> None:
    gpus = Gpus(built(tmp_path, 0))
    assert gpus.why_not is None
    assert gpus.by_process() == {41: 3000}  # what is not available is not zero


def test_a_driver_that_does_not_run(tmp_path: Path, golden: Callable[[str, str], None]) -> None:
    gpus = Gpus(built(tmp_path, 9))
    golden("no_driver.txt", f"{gpus.why_not}\n")
    assert gpus.by_process() == {}


def test_no_library(golden: Callable[[str, str], None]) -> None:
    golden("no_library.txt", f"{Gpus('libnothing.so.1').why_not}\n")
