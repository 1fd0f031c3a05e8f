"""Whose code a frame is: the library that it lies in, in plain words."""

import re
from enum import StrEnum

from postmortem.facts.process import Process
from postmortem.facts.threads import Frame
from postmortem.knowledge.modules import VDSO, is_generated, module_kind, stem
from postmortem.patterns import Pattern


class Owner(StrEnum):
    """A group of libraries that a reader knows by one name."""

    GLIBC = "the C library"
    CXX_RUNTIME = "the C++ runtime"
    KERNEL = "the kernel's vdso"
    CPYTHON = "CPython"
    LIBFFI = "libffi"
    PYTORCH = "PyTorch"
    NCCL = "NCCL"
    CUDA_DRIVER = "the CUDA driver"
    CUDA = "the CUDA libraries"
    OPENMP = "OpenMP"
    MATH = "a math library"
    ALLOCATOR = "a replacement allocator"
    GENERATED = "code that torch.compile made"
    PROGRAM = "the program itself"
    EXTENSION = "an extension module or library"


_BY_AREA = {
    "C library": Owner.GLIBC,
    "C++ runtime": Owner.CXX_RUNTIME,
    VDSO: Owner.KERNEL,
    "CPython": Owner.CPYTHON,
    "CUDA driver": Owner.CUDA_DRIVER,
    "NCCL": Owner.NCCL,
    "CUDA runtime/libraries": Owner.CUDA,
    "OpenMP": Owner.OPENMP,
    "BLAS": Owner.MATH,
    "allocator": Owner.ALLOCATOR,
    "PyTorch": Owner.PYTORCH,
}
# Where the table's area is another group's, or wider.
_BY_NAME = {
    "libffi": Owner.LIBFFI,
    "libtriton": Owner.PYTORCH,
    "libgfortran": Owner.EXTENSION,
    "libquadmath": Owner.EXTENSION,
}
_BY_FUNCTION: tuple[tuple[Owner, Pattern], ...] = (
    # glibc chooses these at run time; debuggers with line information name no module for them.
    (Owner.GLIBC, Pattern(r"^_*(mem|str|wcs|wmem)\w+_(avx|sse|evex|ssse|erms|asimd|sve)\w*$")),
    (Owner.PYTORCH, Pattern(r"^(c10d?|at|torch|THP)(::|\w*_)")),
    (Owner.CPYTHON, Pattern(r"^_?Py[A-Z_]\w*")),
    (Owner.LIBFFI, Pattern(r"^ffi_call")),
)


def owner(frame: Frame, process: Process | None = None) -> Owner | None:
    """Return whose code a frame is; None when neither module nor name tells."""
    if frame.kind == "python":
        return Owner.CPYTHON
    if frame.module:
        return module_owner(frame.module, process)
    return next((kind for kind, pattern in _BY_FUNCTION if pattern.search(frame.function)), None)


def module_owner(path: str, process: Process | None = None) -> Owner:
    """Return whose code a module is, by its path."""
    if "/torchinductor_" in path or is_generated(path):
        return Owner.GENERATED
    known = _BY_NAME.get(stem(file_name(path))) or _BY_AREA.get(module_kind(path).area)
    if known is not None:
        return known
    if "/torch/lib/" in path or "/torch/_C" in path:
        return Owner.PYTORCH
    if process is not None and process.executable == path:
        return Owner.PROGRAM
    return Owner.EXTENSION


_PACKAGE = Pattern(r"/(?:site|dist)-packages/([^/]+)")


def package(path: str) -> str | None:
    """Return the name of the Python package that a module belongs to, from its path."""
    found = _PACKAGE.search(path)
    if found is None:
        return None
    return re.split(r"\.libs$|[.](?:cpython|abi3|so)", found.group(1))[0]


_TAG = Pattern(r"\.(?:cpython-\d+\w*(?:-[\w-]+)?|abi3)(?=\.so)")


def module_name(path: str | None) -> str:
    """Return the last part of a module's path without the tag of the interpreter's version."""
    return _TAG.sub("", file_name(path))


def file_name(path: str | None) -> str:
    """Return the last part of a module's path, or ``"an unknown module"``."""
    return path.rsplit("/", 1)[-1] if path else "an unknown module"
