"""Which library a mapped file is, in plain words; the table is `modules.toml` beside this file.

One library has many names: conda's ``lib/libstdc++.so.6.0.33``, auditwheel's
``torch.libs/libgomp-a34b3233.so.1``, Debian's ``libc-2.31.so``, an interpreter without libpython
(``bin/python3.11``), the extension module ``_C.cpython-311-x86_64-linux-gnu.so``.
"""

import re
from functools import lru_cache
from pathlib import PurePosixPath

from postmortem.knowledge.lookup import NameTable, load_table
from postmortem.knowledge.symbols import symbol
from postmortem.patterns import Pattern
from postmortem.records import record

EXTENSION, PROGRAM, VDSO = "your extension", "your program", "kernel (vdso)"

_INTERPRETER = Pattern(r"python(?:\d+(?:\.\d+)*t?d?)?(?:-dbg|-debug)?(?:\.real)?", re.ASCII)
_HASH = Pattern(r"-[0-9a-f]{8,40}(?=\.|$)", re.ASCII)
_VERSION = Pattern(r"-\d+(?:\.\d+)+$", re.ASCII)
_TAG = Pattern(r"\.(?:cpython-[\w-]+|abi3)(?=\.so$)", re.ASCII)
_GENERATED = Pattern(r"/[a-z2-7]{2}/c[a-z2-7]{51}(?:\.main|\.kernel)?\.(?:py|so|cpp)$", re.ASCII)
_NO_FILES = ("/dev/", "/memfd:", "/SYSV", "anon_inode:", "[heap]", "[stack")
_PACKAGES = ("/site-packages/", "/dist-packages/")


@record
class ModuleKind:
    """Which part of the process a file is: ``("NCCL", "NCCL, collectives between GPUs")``."""

    area: str
    label: str


@record
class _Tables:
    libraries: NameTable[ModuleKind]
    packages: NameTable[ModuleKind]
    namespaces: NameTable[str]


@lru_cache(maxsize=1)
def _tables() -> _Tables:
    table = load_table("modules.toml")

    def kinds(key: str) -> NameTable[ModuleKind]:
        return NameTable(
            (row["names"], ModuleKind(str(row["area"]), str(row["label"]))) for row in table[key]
        )

    namespaces = (
        ("*\n".join(str(row["names"]).split()) + "*", str(row["area"]))
        for row in table["namespace"]
    )
    return _Tables(kinds("library"), kinds("package"), NameTable(namespaces))


@lru_cache(maxsize=4096)
def module_kind(path: str | None, executable: str | None = None) -> ModuleKind:
    """Return what a mapped file is; `executable` is the process's main program."""
    if not path:
        return ModuleKind("unknown", "no module: made at run time, or a lost stack")
    path = path.removesuffix(" (deleted)")
    if path.startswith(_NO_FILES):
        return ModuleKind("unknown", "memory without a file: code made at run time, or a device")
    name = PurePosixPath(path).name
    if "vdso" in name or name == "linux-gate.so.1" or path == "[vsyscall]":
        return ModuleKind(VDSO, "code that the kernel lends to every process")
    if _INTERPRETER.fullmatch(name):
        return ModuleKind("CPython", "the Python interpreter")
    return _tables().libraries.get(stem(name)) or _by_folder(path, name, executable)


def is_generated(path: str) -> bool:
    """Return whether torch.compile wrote a file: its folder and name are made of a hash.

    torch/_inductor/codecache.py: base32 of SHA-256 with a leading "c", in a folder of its second
    and third letter; since PyTorch 2.6 ".main" may follow. TORCHINDUCTOR_CACHE_DIR moves it.
    """
    return _GENERATED.search(path) is not None


def _by_folder(path: str, name: str, executable: str | None) -> ModuleKind:
    if "/lib-dynload/" in path:
        return ModuleKind("CPython", "an extension module of the standard library")
    if "/.triton/" in path or "/triton/cache/" in path:
        return ModuleKind("Triton", "a launcher that Triton compiled for this program")
    if "/torchinductor_" in path or is_generated(path):
        return ModuleKind("PyTorch", "code that torch.compile made")
    if "/torch_extensions/" in path:
        return ModuleKind(EXTENSION, f"an extension that PyTorch compiled: {stem(name)}")
    package = _package(path)
    if package is not None:
        known = _tables().packages.get(package)
        return known or ModuleKind(EXTENSION, f"native code of the Python package {package}")
    if path == executable or (".so" not in name and "/lib/" not in path):
        return ModuleKind(PROGRAM, "the main program")
    return ModuleKind(EXTENSION, "a library that is not part of Python, PyTorch or the system")


def stem(file_name: str) -> str:
    """Return a library's name without version, hash of a wheel, and extension suffix."""
    name = file_name
    for end in (".so", ".cpython-", ".abi3"):
        at = name.find(end)
        # "libsome.software" is no library: the suffix ends the name or a dot follows
        if at > 0 and (end != ".so" or name[at + 3 : at + 4] in ("", ".")):
            name = name[:at]
    return _VERSION.sub("", _HASH.sub("", name, count=1))


def short_name(path: str | None) -> str | None:
    """Return the file name as people say it: no folders, no hash of a wheel, no tag of CPython."""
    if not path:
        return None
    name = _HASH.sub("", PurePosixPath(path.removesuffix(" (deleted)")).name, count=1)
    return _TAG.sub("", name)


@lru_cache(maxsize=8192)
def area_of(function: str, path: str | None, executable: str | None = None) -> str:
    """Return the area of one frame; inside of PyTorch the function decides between its parts."""
    area = module_kind(path, executable).area
    if area == "PyTorch":
        return _tables().namespaces.get(symbol(function).bare) or area
    return area


def _package(path: str) -> str | None:
    for marker in _PACKAGES:
        _, found, rest = path.partition(marker)
        if found:
            head = rest.partition("/")[0]
            return head.removesuffix(".libs") if "/" in rest else stem(head)
    return None
