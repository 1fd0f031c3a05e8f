"""What this machine offers for evidence of crashes, read and never judged."""

import ctypes
import importlib
import os
import platform
import re
import resource
import shutil
import sys
from pathlib import Path

from postmortem.errors import DebuggerError, EvidenceError
from postmortem.facts.machine import (
    CoreDestination,
    CorePattern,
    Cpu,
    CudaScan,
    DebugSymbols,
    Machine,
    Space,
    Tool,
)
from postmortem.readers.answers import answer_of
from postmortem.readers.corepattern import container_kind, destination, read_core_pattern
from postmortem.readers.elf import debug_info_of, version_key, versions_provided
from postmortem.readers.files import answer_within

_VERSION_SECONDS = 5.0
_STAT_SECONDS = 2.0
_CUDA_SECONDS = 20.0
_TOOLS = (("strace", "-V"), ("py-spy", "--version"), ("eu-stack", "--version"))
_CPU_FEATURES = ("avx", "avx2", "fma", "avx512f", "avx512_bf16", "amx_bf16", "asimd", "sve", "bf16")


def read_machine(*, gdb: str | None = None) -> Machine:
    """Return what this machine and this Python offer; `gdb` is the one asked for, if any."""
    container = container_kind()
    pattern = read_core_pattern()
    taker = destination(pattern, container=container)
    soft, hard = (_limit(value) for value in resource.getrlimit(resource.RLIMIT_CORE))
    identity, like = _distribution()
    libraries = _library_paths()
    return Machine(
        python=platform.python_version(),
        distribution=identity,
        distribution_like=like,
        conda="CONDA_PREFIX" in os.environ or Path(sys.prefix, "conda-meta").is_dir(),
        root=os.geteuid() == 0,
        gdb=_gdb(gdb),
        core_limit_soft=soft,
        core_limit_hard=hard,
        core_pattern=pattern,
        core_destination=taker,
        core_space=_core_space(pattern, taker),
        shared_memory=_space(Path("/dev/shm")),
        container=container,
        ptrace_scope=_number("/proc/sys/kernel/yama/ptrace_scope"),
        coredump_filter=_number("/proc/self/coredump_filter", base=16),
        suid_dumpable=_number("/proc/sys/fs/suid_dumpable"),
        tools=tuple(find_tool(name, option) for name, option in _TOOLS),
        debuginfod_urls=os.environ.get("DEBUGINFOD_URLS", "").strip() or None,
        symbols=_symbols(libraries),
        lief_version=_package_version("lief"),
        torch_version=_package_version("torch"),
        nvidia_driver=nvidia_driver(),
        cuda_scan=_cuda_scan(),
        native_module=_native_module(),
        cpu=_cpu(),
        glibc=_glibc(),
        newest_symbol_versions=_newest_versions(libraries),
    )


def _limit(value: int) -> int | None:
    return None if value == resource.RLIM_INFINITY else value


def _number(path: str, *, base: int = 10) -> int | None:
    try:
        return int(Path(path).read_text().strip(), base)
    except (OSError, ValueError):
        return None


def _distribution() -> tuple[str, tuple[str, ...]]:
    try:
        fields = platform.freedesktop_os_release()
    except OSError:
        return "linux", ()
    return fields.get("ID", "linux"), tuple(fields.get("ID_LIKE", "").split())


def _gdb(explicit: str | None) -> Tool:
    from postmortem.readers.gdb.find import find_gdb

    try:
        found = find_gdb(explicit)
    except DebuggerError as error:
        return Tool("gdb", problem=error.what)
    return Tool("gdb", found.path, found.version_text)


def find_tool(name: str, option: str = "--version") -> Tool:
    """Return a program from PATH or from beside this Python (a venv that is not activated)."""
    path = shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))
    if path is None:
        return Tool(name, problem="not installed")
    done = answer_of([path, option], seconds=_VERSION_SECONDS)
    if isinstance(done, str):
        return Tool(name, path, problem=done)
    said = (done.stdout or done.stderr).decode(errors="replace").strip().splitlines()
    if done.returncode != 0:
        words = f": {said[0][:80]}" if said else ""
        return Tool(name, path, problem=f"{option} ended with status {done.returncode}{words}")
    version = re.search(r"\d+(\.\d+)+", said[0]) if said else None
    return Tool(name, path, version[0] if version else None)


def _core_space(pattern: CorePattern, taker: CoreDestination) -> Space | None:
    folders = {
        "systemd": "/var/lib/systemd/coredump",
        "apport": "/var/lib/apport",
        "abrt": "/var/spool/abrt",
    }
    if taker.handler == "file":
        fixed = (pattern.text or "").split("%", 1)[0]
        return _space(Path(fixed).parent if fixed.startswith("/") else Path.cwd())
    if taker.reachable and taker.handler in folders:
        return _space(Path(folders[taker.handler]))
    return None


def _space(folder: Path) -> Space | None:
    usage = answer_within(_STAT_SECONDS, lambda: os.statvfs(folder))
    if usage is None:
        return None
    return Space(str(folder), usage.f_bavail * usage.f_frsize, usage.f_blocks * usage.f_frsize)


def _library_paths() -> dict[str, str]:
    """Return the files that this Python gets for libc, libstdc++ and libpython.

    libstdc++ is loaded to learn which one that is: RPATHs and conda make guessing wrong.
    """
    # no libstdc++ here (musl, a slim image), or no dlopen (a static Python)
    answer_within(_VERSION_SECONDS, lambda: ctypes.CDLL("libstdc++.so.6"))
    try:
        maps = Path("/proc/self/maps").read_text(errors="surrogateescape")
    except OSError:
        return {}
    found: dict[str, str] = {}
    for line in maps.splitlines():
        path = line[73:].strip() if len(line) > 73 else ""
        for kind in ("libc.so", "libc-2", "libstdc++.so", "libpython"):
            if Path(path).name.startswith(kind):
                found.setdefault("libc" if kind.startswith("libc") else kind.split(".")[0], path)
    return found


def _symbols(libraries: dict[str, str]) -> tuple[DebugSymbols, ...]:
    python = libraries.get("libpython") or str(Path(sys.executable).resolve())
    wanted = {"libc": libraries.get("libc"), "Python": python}
    wanted["libstdc++"] = libraries.get("libstdc++")
    return tuple(DebugSymbols(name, path, _debug_info(path)) for name, path in wanted.items())


def _debug_info(path: str | None) -> str | None:
    if path is None:
        return None
    try:
        return debug_info_of(path)
    except EvidenceError:
        return None


def _newest_versions(libraries: dict[str, str]) -> tuple[tuple[str, str, str], ...]:
    rows: list[tuple[str, str, str]] = []
    for name, families in (("libstdc++", ("GLIBCXX", "CXXABI")), ("libc", ("GLIBC",))):
        path = libraries.get(name)
        if path is None:
            continue
        try:
            versions = versions_provided(path)
        except EvidenceError:
            continue
        for family in families:
            own = [v for v in versions if re.fullmatch(rf"{family}_[\d.]+", v)]
            if own:
                rows.append((path, family, max(own, key=version_key)))
    return tuple(rows)


def _package_version(name: str) -> str | None:
    from importlib import metadata

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def nvidia_driver(path: Path = Path("/proc/driver/nvidia/version")) -> str | None:
    """Return the version of the loaded NVIDIA kernel driver, None if there is none."""
    try:
        text = path.read_text(errors="replace")
    except OSError:
        return None
    # "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build …"
    found = re.search(r"Kernel Module.*?\s(\d+\.\d+(?:\.\d+)?)\s", text)
    return found[1] if found else "of unknown version"


def _cuda_scan() -> CudaScan:
    # In a thread of its own: a driver in trouble can keep whoever asks it for minutes.
    from postmortem.scan import cuda

    found = answer_within(_CUDA_SECONDS, cuda.usable)
    return found or CudaScan("broken", f"gave no answer within {_CUDA_SECONDS:.0f} s")


def _native_module() -> str | None:
    try:
        importlib.import_module("postmortem._native")
    except ImportError as error:
        return str(error)
    return None


def _cpu() -> Cpu:
    machine = platform.machine()
    try:
        text = Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:
        return Cpu(machine)
    return cpu_from(text, machine)


def cpu_from(cpuinfo: str, machine: str) -> Cpu:
    """Return the first processor's model and the features that vector code asks for."""
    model = re.search(r"^model name\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    flags = re.search(r"^(?:flags|Features)\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    present = set(flags[1].split()) if flags else set()
    features = tuple(name for name in _CPU_FEATURES if name in present)
    return Cpu(machine, model[1].strip() if model else None, features)


def _glibc() -> str | None:
    try:
        text = os.confstr("CS_GNU_LIBC_VERSION")
    except (OSError, ValueError):  # musl knows no such name
        return None
    return text.removeprefix("glibc ") if text else None
