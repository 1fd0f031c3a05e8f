"""Whose code a frame is: the library that it lies in, in plain words."""

import re
from enum import StrEnum
from functools import lru_cache

from postmortem.facts.process import Process
from postmortem.facts.threads import Frame
from postmortem.knowledge.modules import is_generated
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


_BY_FILE: tuple[tuple[Owner, Pattern], ...] = (
    (
        Owner.GLIBC,
        Pattern(
            r"lib(c|m|pthread|dl|rt|util|resolv|nss_\w+|anl|thread_db|mvec|c_malloc_debug)"
            r"(-\d[\d.]*)?\.so(\.\d+)*$|ld-[\w.-]*\.so(\.\d+)*$|ld-musl|libc\.musl"
        ),
    ),
    (Owner.CXX_RUNTIME, Pattern(r"lib(stdc\+\+|c\+\+abi|c\+\+|gcc_s|unwind)(?![a-z+])")),
    (Owner.KERNEL, Pattern(r"linux-vdso|linux-gate|\[vdso\]")),
    (Owner.LIBFFI, Pattern(r"libffi\b")),
    (Owner.CPYTHON, Pattern(r"(python|pypy)[\d.]*[a-z]*$|libpython[\d.]+")),
    (Owner.CUDA_DRIVER, Pattern(r"lib(cuda|nvidia-\w[\w-]*)\.so")),
    (Owner.NCCL, Pattern(r"lib(nccl|rccl|nccl-net|nccl-net-\w+)\b")),
    (
        Owner.CUDA,
        Pattern(
            r"lib(cudart|cublas|cublasLt|cudnn|cufft|curand|cusolver|cusparse|cusparseLt|cupti|"
            r"nvrtc|nvJitLink|nvToolsExt|cufile)\w*\b"
        ),
    ),
    (Owner.OPENMP, Pattern(r"lib(gomp|iomp5|omp)\b")),
    (Owner.MATH, Pattern(r"lib(mkl\w*|openblas\w*|blas|cblas|lapack|dnnl)\b")),
    (Owner.ALLOCATOR, Pattern(r"lib(jemalloc|tcmalloc\w*|mimalloc)\b")),
    (Owner.PYTORCH, Pattern(r"lib(torch\w*|c10\w*|shm|caffe2\w*|gloo\w*)\b|libtriton\b")),
)
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
    by_name = _by_file(path.rsplit("/", 1)[-1])
    if by_name is not None:
        return by_name
    if "/lib-dynload/" in path:
        return Owner.CPYTHON
    if "/torchinductor_" in path or is_generated(path):
        return Owner.GENERATED
    if "/torch/lib/" in path or "/torch/_C" in path:
        return Owner.PYTORCH
    if process is not None and process.executable == path:
        return Owner.PROGRAM
    return Owner.EXTENSION


@lru_cache(maxsize=4096)
def _by_file(name: str) -> Owner | None:
    return next((kind for kind, pattern in _BY_FILE if pattern.match(name)), None)


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
