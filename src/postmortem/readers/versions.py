"""Versions of libraries, from what is read anyway: paths of modules, the head of each log.

Nothing is run or imported to learn one. What ``*.dist-info`` folders beside a mapped library say
is what is installed there now, and is marked so.
"""

import os
import re
from collections.abc import Iterable, Iterator

from postmortem.facts.memory import Module
from postmortem.facts.versions import LibraryVersion, Versions
from postmortem.patterns import Pattern

_PACKAGES = {
    "torch": "torch", "pytorch": "torch", "numpy": "numpy", "protobuf": "protobuf", "mkl": "mkl",
    "nccl": "nccl", "libnccl2": "nccl", "ucx": "ucx", "libfabric": "libfabric", "glibc": "glibc",
    "libc": "glibc", "python": "cpython", "cpython": "cpython", "cublas": "cublas",
    "libcublas": "cublas",
}  # fmt: skip
_NVIDIA = Pattern(r"(?:nvidia-(nccl|cublas)|lib(ucx))-cu\d\d", re.ASCII)

# "libnccl.so.2.27.5", "libc-2.31.so", "libcuda.so.535.104.05"
_FILES = (
    ("nccl", Pattern(r"libnccl\.so\.(\d+\.\d+\.\d+)$")),
    ("glibc", Pattern(r"(?:libc|ld|libpthread)-(\d+\.\d+)\.so$")),
    ("cublas", Pattern(r"libcublas\.so\.(\d+\.\d+\.\d+(?:\.\d+)?)$")),
    ("driver", Pattern(r"libcuda\.so\.(\d+\.\d+(?:\.\d+)?)$")),
)
# Conda's package cache and environment modules: ".../nccl-2.27.5-h1/lib/", "/nccl/2.27.5-1/"
_FOLDER = Pattern(r"/(nccl|ucx|libfabric)[-/](\d+\.\d+\.\d+)[^/]*/")
_OF_FOLDER = {"nccl": "libnccl", "ucx": "libuc", "libfabric": "libfabric"}
_NAMES = ("libc-", "ld-", "libpthread-", "libcuda.", "libcublas.", *_OF_FOLDER.values())
_SITE = ("/site-packages/", "/dist-packages/")
_MOST_FOLDERS = 2
_MOST_ENTRIES = 5000

# A log's own prefix ("[rank0]: ", "3: ", "node1: ") may stand before each of these.
_PREFIX = r"^(?:\[[\w:. -]{1,40}\]:? |[\w.-]{1,40}: )?[ \t]{0,8}"
_LISTED = Pattern(
    _PREFIX + r"(?:\[pip3?\] )?([A-Za-z][\w.-]{0,60})==(\d[\w.+!-]{0,60})[ \t]*$", re.ASCII | re.M
)
_TABLE = Pattern(
    _PREFIX + r"(?:\[conda\] )?(torch|pytorch|numpy|protobuf|mkl|nccl|nvidia-nccl-cu1[123]"
    r"|nvidia-cublas-cu1[123]|libucx-cu1[123]|ucx|libfabric)  [ \t]{0,80}"
    r"(\d[\w.+!-]{0,60})(?:[ \t]|$)",
    re.ASCII | re.M,
)
_SAID = (
    ("torch", r"(?:PyTorch|torch) version: v?(\d[\w.+-]{0,60})", "orch version: "),
    ("torch", r"torch: v?(\d+\.\d+\.\d+[\w.+-]{0,40})[ \t]*$", "torch: "),
    ("cpython", r"Python version: (\d+\.\d+\.\d+\w{0,8})", "Python version: "),
    ("glibc", r"Libc version: glibc-(\d+\.\d+)", "Libc version: "),
    ("glibc", r"[Pp]ython platform: Linux-\S{1,200}-with-glibc(\d+\.\d+)", "ython platform: "),
    ("driver", r"N(?:vidia|VIDIA) driver version: (\d+\.\d+[\d.]{0,8})", " driver version: "),
    ("ucx", r"UCX version(?: is)? (\d+\.\d+\.\d+)", "UCX version"),
    ("libfabric", r"libfabric: (\d+\.\d+\.\d+)", "libfabric: "),
)
_ANYWHERE = (
    ("driver", r"Driver Version: (\d{3}\.\d+[\d.]{0,8})", "Driver Version: "),
    ("driver", r"Kernel Module(?: for \w+)?  (\d{3}\.\d+[\d.]{0,8})", "Kernel Module"),
    ("numpy", r"cannot be run in\s{1,80}NumPy (\d+\.\d+[\w.]{0,20})", "cannot be run in"),
)
# Lines of a log are many: no expression is tried without a word that it needs.
_LINES = tuple((name, Pattern(_PREFIX + text, re.ASCII | re.M), word) for name, text, word in _SAID)
_WORDS = tuple((name, Pattern(text, re.ASCII), word) for name, text, word in _ANYWHERE)
_MACHINE = Pattern(
    r"(?:^|\n)[^\n]{0,60}(?:Architecture: {1,40}|OS: [^\n(]{1,80}\(|NVIDIA UNIX "
    r"|[Pp]ython platform: [^\n]{0,120}-)(x86_64|aarch64)\b",
    re.ASCII,
)
_OF_MACHINE = ("Architecture: ", "OS: ", "NVIDIA UNIX ", "ython platform: ")
_VARIABLE = Pattern(
    r"\b(CUDA_LAUNCH_BLOCKING|(?:NCCL|UCX|FI_EFA|TORCH_NCCL|TORCH_GLOO)_[A-Z0-9_]{2,60})"
    r"(?:=| set by environment to )([\w.,:^/-]{1,60})",
    re.ASCII,
)
_MOST = 64


def library_of(package: str) -> str | None:
    """Return the library that a package is of: ``"nvidia-nccl-cu12"`` is ``"nccl"``."""
    name = package.lower().replace("_", "-")
    found = _NVIDIA.fullmatch(name)
    return (found[1] or found[2]) if found else _PACKAGES.get(name)


def versions_in(text: str, where: str) -> Versions:
    """Return what a piece of a log tells: pip freeze, collect_env, error texts, settings."""
    found: dict[tuple[str, str], LibraryVersion] = {}

    def add(library: str | None, version: str, at: int, *, sure: bool = True) -> None:
        if library is not None and len(found) < _MOST:
            line = text.count("\n", 0, at) + 1
            found.setdefault(
                (library, version), LibraryVersion(library, version, f"{where}:{line}", sure)
            )

    for name, pattern, word in (*_LINES, *_WORDS):
        for match in pattern.finditer(text) if word in text else ():
            add(name, match[1], match.start(1))
    for pattern in (_LISTED, _TABLE):
        for match in pattern.finditer(text):
            library = library_of(match[1])
            # NCCL prints the one that it loaded; a list says only what is installed
            add(library, match[2], match.start(1), sure=library not in ("nccl", "cublas"))
    machine = _MACHINE.search(text) if any(word in text for word in _OF_MACHINE) else None
    return Versions(_unlisted(found.values()), machine[1] if machine else None, _variables(text))


def _unlisted(found: Iterable[LibraryVersion]) -> tuple[LibraryVersion, ...]:
    """Leave out what a list says of a library that names its version itself."""
    rows = tuple(found)
    own = {row.library for row in rows if row.sure}
    return tuple(row for row in rows if row.sure or row.library not in own)


def _variables(text: str) -> tuple[tuple[str, str], ...]:
    pairs = dict.fromkeys((m[1], m[2]) for m in _VARIABLE.finditer(text))
    return tuple(pairs)[:_MOST]


def joined(parts: Iterable[Versions]) -> Versions:
    """Return what several files tell together."""
    items: dict[tuple[str, str], LibraryVersion] = {}
    machines: set[str] = set()
    variables: dict[tuple[str, str], None] = {}
    for part in parts:
        for item in part.items:
            items.setdefault((item.library, item.version), item)
        if part.machine:
            machines.add(part.machine)
        variables.update(dict.fromkeys(part.variables))
    machine = machines.pop() if len(machines) == 1 else None
    return Versions(_unlisted(items.values()), machine, tuple(variables))


def of_modules(modules: Iterable[Module], python: str | None, machine: str) -> Versions:
    """Return what a core tells: names of files, the interpreter, packages beside its libraries."""
    items = [LibraryVersion("cpython", python, "the interpreter")] if python else []
    folders: dict[str, set[str]] = {}
    for module in modules:
        items += _of_path(module.path)
        for marker in _SITE:
            head, found, rest = (module.disk_path or "").partition(marker)
            if found:
                proven = folders.setdefault(head + marker, set())
                if module.status == "ok":
                    proven.add(rest.removeprefix("nvidia/").partition("/")[0].partition(".")[0])
    known = {item.library for item in items}
    for folder, proven in list(folders.items())[:_MOST_FOLDERS]:
        items += (one for one in _installed(folder, proven) if one.library not in known)
    unique = {(item.library, item.version): item for item in reversed(items)}
    return Versions(tuple(reversed(unique.values())), machine)


def _of_path(path: str) -> Iterator[LibraryVersion]:
    plain = path.removesuffix(" (deleted)")
    name = plain.rpartition("/")[2]
    if not name.startswith(_NAMES):
        return
    for library, pattern in _FILES:
        found = pattern.search(plain)
        if found:
            yield LibraryVersion(library, found[1], plain)
    folder = _FOLDER.search(plain)
    if folder and name.startswith(_OF_FOLDER[folder[1]]):
        yield LibraryVersion(folder[1], folder[2], plain)


def _installed(folder: str, proven: set[str]) -> Iterator[LibraryVersion]:
    """Yield what is installed in a folder of packages, by the names of its dist-info folders.

    `proven` are packages with a file there that is the one that was mapped.
    """
    try:
        with os.scandir(folder) as entries:
            for number, entry in enumerate(entries):
                if number >= _MOST_ENTRIES:
                    return
                stem, found, _ = entry.name.rpartition(".dist-info")
                name, dash, version = stem.partition("-")
                library = library_of(name) if found and dash else None
                if library is not None:
                    where = f"{folder}{entry.name}"
                    yield LibraryVersion(library, version, where, library in proven)
    except OSError:  # a core of another machine, or a folder that is gone
        return
