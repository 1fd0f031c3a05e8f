"""What each fact about a machine means for the evidence of a crash, and what mends it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from postmortem.facts.machine import DebugSymbols, Machine, Space, Tool
from postmortem.records import record
from postmortem.text import shell_word

State = Literal["ok", "warning", "missing"]

FILE_PATTERN = "sudo sysctl -w kernel.core_pattern=/tmp/core.%e.%p.%t"
_SMALL_LIMIT = 64 << 20
_SMALL_SPACE = 4 << 30
_DOCKER_SHM = 64 << 20
_FULL_SHARE = 20

_DEBIAN, _FEDORA, _ALPINE, _SUSE, _ARCH = "apt-get", "dnf", "apk", "zypper", "pacman"
_FAMILIES = {
    "debian": _DEBIAN,
    "ubuntu": _DEBIAN,
    "fedora": _FEDORA,
    "rhel": _FEDORA,
    "centos": _FEDORA,
    "amzn": _FEDORA,
    "alpine": _ALPINE,
    "suse": _SUSE,
    "opensuse": _SUSE,
    "arch": _ARCH,
}
_INSTALL = {
    _DEBIAN: "apt-get install {}",
    _FEDORA: "dnf install {}",
    _ALPINE: "apk add {}",
    _SUSE: "zypper install {}",
    _ARCH: "pacman -S {}",
}
_LIBC_SYMBOLS = {
    _DEBIAN: "apt-get install libc6-dbg",
    _FEDORA: "dnf debuginfo-install glibc",
    _ALPINE: "apk add musl-dbg",
    _SUSE: "zypper install glibc-debuginfo",
}
_DEBUGINFOD = {
    "debian": "https://debuginfod.debian.net",
    "ubuntu": "https://debuginfod.ubuntu.com",
    "fedora": "https://debuginfod.fedoraproject.org",
    "arch": "https://debuginfod.archlinux.org",
    "opensuse": "https://debuginfod.opensuse.org",
}


@record
class Check:
    """One finding: what is there, why it matters for evidence, and the command that mends it."""

    name: str
    status: State
    found: str
    why: str
    fix: str | None = None
    fatal: bool = False
    """Without it `postmortem core` cannot work."""


def checks(machine: Machine) -> Iterator[Check]:
    """Yield every check, the most important first."""
    yield _native(machine)
    yield _gdb(machine)
    yield _core_limit(machine)
    yield _core_pattern(machine)
    if machine.core_space is not None:
        yield _core_space(machine.core_space)
    yield _coredump_filter(machine)
    yield _suid_dumpable(machine)
    yield _ptrace(machine)
    yield _shared_memory(machine)
    for tool in machine.tools:
        yield _tool(machine, tool)
    for symbols in machine.symbols:
        yield _symbols(machine, symbols)
    yield _debuginfod(machine)
    yield _lief(machine)
    yield _torch(machine)
    yield _cuda(machine)
    yield _libraries(machine)
    yield _processor(machine)
    yield _container(machine)


def install(machine: Machine, package: str) -> str:
    """Return the command that installs a package on this distribution."""
    command = _INSTALL.get(_family(machine) or "", "install the package {}").format(package)
    return command if machine.root or command.startswith("install") else f"sudo {command}"


def _family(machine: Machine) -> str | None:
    names = (machine.distribution, *machine.distribution_like)
    bare = (name.split("-", 1)[0] for name in names)
    return next((_FAMILIES[name] for name in bare if name in _FAMILIES), None)


def size(count: int) -> str:
    """Return a number of bytes for people: ``1.5 GiB``."""
    value = float(count)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "bytes" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def _native(machine: Machine) -> Check:
    why = "reads the core itself: signal, stacks, memory; nothing works without it"
    if machine.native_module is None:
        return Check("native reader", "ok", "loaded", why)
    fix = "pip install --force-reinstall torch-postmortem"
    return Check("native reader", "missing", machine.native_module, why, fix, fatal=True)


def _gdb(machine: Machine) -> Check:
    why = "gives arguments and locals of native functions, and a second opinion on their stacks"
    tool = machine.gdb
    if tool.usable:
        return Check("gdb", "ok", f"{tool.version} ({tool.path})", why)
    fix = f"{install(machine, 'gdb')}; or pip install 'torch-postmortem[gdb]'"
    if machine.conda:
        fix = f"conda install -c conda-forge gdb; or {fix}"
    return Check("gdb", "missing", tool.problem or "not installed", why, fix)


def _core_limit(machine: Machine) -> Check:
    soft, hard = machine.core_limit_soft, machine.core_limit_hard
    why = "a process that crashes under a limit of 0 leaves no core; under a small one, a cut one"
    found = f"soft {_bytes(soft)}, hard {_bytes(hard)}"
    fix = "ulimit -c unlimited (in the shell or job script that starts the training)"
    if hard is not None and hard < _SMALL_LIMIT:
        inside = "docker run --ulimit core=-1 …" if machine.container else None
        raised = (
            inside or "echo '* hard core unlimited' | sudo tee /etc/security/limits.d/core.conf"
        )
        fix = f"{raised}; then log in again, and: ulimit -c unlimited (Slurm: --propagate=CORE)"
    if soft is None:
        return Check("core limit", "ok", found, why)
    if machine.core_destination.handler == "postmortem":
        return Check("core limit", "ok", f"{found}; postmortem's handler needs none", why)
    state: State = "missing" if soft == 0 else "warning"
    return Check("core limit", state, found, why, fix)


def _bytes(limit: int | None) -> str:
    return "unlimited" if limit is None else size(limit)


def _core_pattern(machine: Machine) -> Check:
    why = "decides who gets the core: a file that you can read, or a program that may drop it"
    taker = machine.core_destination
    text = machine.core_pattern.text
    found = f"cores go to {taker.words}" + (f" (core_pattern is {text!r})" if text else "")
    fix = FILE_PATTERN
    if machine.container:
        fix = f"on the host, because containers share its kernel: {FILE_PATTERN}"
    if taker.handler == "file":
        overwritten = "%" not in (text or "") and not machine.core_pattern.uses_pid
        if overwritten:
            found += "; the ranks of a job that share a folder overwrite each other's core"
            return Check("core_pattern", "warning", found, why, fix)
        return Check("core_pattern", "ok", found, why)
    if not taker.reachable:
        return Check("core_pattern", "missing", found, why, fix)
    if taker.handler == "postmortem":
        return Check("core_pattern", "ok", found, why)
    if taker.handler == "systemd":
        found += "; it drops cores above its ProcessSizeMax and ExternalSizeMax"
        fix = (
            "set ProcessSizeMax=infinity and ExternalSizeMax=infinity in "
            f"/etc/systemd/coredump.conf; or {FILE_PATTERN}"
        )
        return Check("core_pattern", "warning", found, why, fix)
    return Check("core_pattern", "warning", found, why, fix)


def _core_space(space: Space) -> Check:
    why = "a core is as large as the memory of the process; a full disk cuts it"
    found = f"{size(space.free)} of {size(space.size)} free at {space.path}"
    if space.free >= _SMALL_SPACE:
        return Check("room for cores", "ok", found, why)
    fix = (
        f"df -h {shell_word(str(space.path))}; point core_pattern at a larger disk: {FILE_PATTERN}"
    )
    return Check("room for cores", "warning", found, why, fix)


def _coredump_filter(machine: Machine) -> Check:
    why = "decides which memory goes into the core (bit 0: stacks and heap, 4: library headers)"
    mask = machine.coredump_filter
    fix = "echo 0x33 > /proc/self/coredump_filter (in the shell that starts the training)"
    if mask is None:
        found = "cannot be read: this kernel or sandbox does not show it"
        return Check("coredump_filter", "warning", found, why)
    if not mask & 1:
        found = f"{mask:#x}: stacks and heap are left out"
        return Check("coredump_filter", "missing", found, why, fix)
    if not mask & 0x10:
        found = f"{mask:#x}: library headers are left out, so builds cannot be compared"
        return Check("coredump_filter", "warning", found, why, fix)
    return Check("coredump_filter", "ok", f"{mask:#x}", why)


def _suid_dumpable(machine: Machine) -> Check:
    why = "programs with capabilities or another user's id leave a core only if this is not 0"
    value = machine.suid_dumpable
    found = "not shown by this kernel" if value is None else f"{value} (fs.suid_dumpable)"
    return Check("suid_dumpable", "ok", found + "; ordinary programs are not affected", why)


def _ptrace(machine: Machine) -> Check:
    why = "stacks of live processes (a hang, gcore) need the right to attach to them"
    scope = machine.ptrace_scope
    if scope is None:
        return Check("ptrace scope", "ok", "this kernel has no Yama restriction", why)
    meaning = {
        0: "a user may attach to all own processes",
        1: "only to child processes, or as root",
        2: "only as root",
        3: "nobody may attach, until the next boot",
    }.get(scope, "unknown value")
    found = f"{scope}: {meaning}"
    if scope == 0 or (machine.root and scope < 3):
        return Check("ptrace scope", "ok", found, why)
    if scope >= 3:
        fix = "boot with kernel.yama.ptrace_scope below 3 in /etc/sysctl.d"
        return Check("ptrace scope", "missing", found, why, fix)
    fix = "sudo sysctl -w kernel.yama.ptrace_scope=0"
    if machine.container:
        fix = f"docker run --cap-add=SYS_PTRACE …, and on the host: {fix}"
    return Check("ptrace scope", "warning", found, why, fix)


def _shared_memory(machine: Machine) -> Check:
    why = "DataLoader workers and NCCL keep batches and buffers there; full, they die of SIGBUS"
    space = machine.shared_memory
    fix = "sudo mount -o remount,size=50% /dev/shm"
    if machine.container:
        fix = "docker run --shm-size=16g … (or --ipc=host); Kubernetes: an emptyDir of Memory there"
    if space is None:
        return Check("/dev/shm", "missing", "there is none", why, fix)
    found = f"{size(space.free)} of {size(space.size)} free"
    if space.size <= _DOCKER_SHM:
        return Check("/dev/shm", "warning", f"{found}: Docker's default, too small", why, fix)
    if space.free * _FULL_SHARE < space.size:
        return Check(
            "/dev/shm", "warning", found, why, "ls -l /dev/shm: remove what dead jobs left"
        )
    return Check("/dev/shm", "ok", found, why)


def _tool(machine: Machine, tool: Tool) -> Check:
    why, fix = {
        "strace": ("records the system calls that failed", install(machine, "strace")),
        "py-spy": ("shows Python stacks of live processes", "pip install py-spy"),
        "eu-stack": (
            "shows native stacks of live processes within a second",
            install(machine, "elfutils"),
        ),
    }[tool.name]
    if tool.usable:
        return Check(tool.name, "ok", f"{tool.version or 'installed'} ({tool.path})", why)
    return Check(tool.name, "missing", tool.problem or "not installed", why, fix)


def _symbols(machine: Machine, symbols: DebugSymbols) -> Check:
    name = f"debug symbols of {symbols.name}"
    why = "give source lines and arguments in frames of that library"
    if symbols.path is None:
        found = f"{symbols.name} was not found, or is linked statically"
        return Check(name, "warning", found, why)
    if symbols.at is not None:
        where = "in the binary itself" if symbols.at == symbols.path else symbols.at
        return Check(name, "ok", where, why)
    if symbols.name == "libc" and (command := _LIBC_SYMBOLS.get(_family(machine) or "")):
        fix = command if machine.root else f"sudo {command}"
    elif machine.debuginfod_urls:
        fix = f"none if {machine.debuginfod_urls} has them: gdb can ask that server"
    else:
        fix = f"export DEBUGINFOD_URLS={_server(machine)}"
        if symbols.name == "Python":
            fix += "; or a Python built with CFLAGS=-g (pyenv does)"
    return Check(name, "warning", f"none for {symbols.path}", why, fix)


def _server(machine: Machine) -> str:
    names = (machine.distribution, *machine.distribution_like)
    own = (_DEBUGINFOD[name] for name in names if name in _DEBUGINFOD)
    return next(own, "https://debuginfod.elfutils.org")


def _debuginfod(machine: Machine) -> Check:
    why = "a server that has debug symbols of the distribution's libraries; asked only on request"
    if machine.debuginfod_urls:
        return Check("debuginfod", "ok", machine.debuginfod_urls, why)
    if machine.symbols and all(row.at for row in machine.symbols):
        return Check("debuginfod", "ok", "not set, and not needed for what was checked", why)
    fix = f"export DEBUGINFOD_URLS={_server(machine)}"
    return Check("debuginfod", "warning", "DEBUGINFOD_URLS is not set", why, fix)


def _lief(machine: Machine) -> Check:
    why = "reads what binaries were linked against, for diagnoses of mixed libraries"
    if machine.lief_version:
        return Check("lief", "ok", machine.lief_version, why)
    return Check("lief", "missing", "not installed", why, "pip install 'lief>=0.16'")


def _torch(machine: Machine) -> Check:
    why = "not needed to explain cores; scans of live tensors use it"
    found = machine.torch_version or "not installed in this Python, and not needed"
    return Check("torch", "ok", found, why)


_CUDA_FIXES = {
    "not built": "put CUDA 12 or later's nvcc on PATH, then: pip install --force-reinstall "
    "--no-deps --no-binary torch-postmortem -C cmake.define.POSTMORTEM_CUDA=ON torch-postmortem",
    "cannot be loaded": "pip install --force-reinstall --no-deps torch-postmortem",
    "no driver": "install NVIDIA's driver; in a container: docker run --gpus all",
    "old driver": "install a newer NVIDIA driver, or build with the nvcc of an older CUDA 12",
    "no device": "nvidia-smi -L; check CUDA_VISIBLE_DEVICES",
    "broken": "nvidia-smi; dmesg | grep -i -e nvrm -e xid",
}


def _version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


def _cuda(machine: Machine) -> Check:
    """Say how tensors on GPUs are scanned. Where no GPU is, nothing is amiss."""
    why = "scans tensors on the GPU in one pass; else PyTorch's operations do it, more slowly"
    cuda = machine.cuda_scan
    driver = machine.nvidia_driver
    here = f"NVIDIA driver {driver}" if driver else "no NVIDIA driver is loaded here"
    if cuda.state == "usable":
        code = ", ".join(f"sm_{number}" for number in cuda.architectures.split())
        built = f"built with CUDA {_version(cuda.runtime)} for {code}"
        return Check("CUDA module", "ok", f"{built}; {here}; devices: {cuda.devices}", why)
    found = "not built" if cuda.state == "not built" else f"built, {cuda.state}"
    if cuda.state == "old driver":
        found += f" (it knows CUDA {_version(cuda.driver)}, built with {_version(cuda.runtime)})"
    elif cuda.state in ("broken", "cannot be loaded"):
        found += f" ({cuda.text})"
    found += f"; {here}"
    if driver is None and cuda.state in ("not built", "no driver"):
        return Check("CUDA module", "ok", found, why)
    return Check("CUDA module", "warning", found, why, _CUDA_FIXES.get(cuda.state))


def _libraries(machine: Machine) -> Check:
    why = "a wheel that needs newer symbol versions than these fails to load or crashes"
    versions = ", ".join(version for _, _, version in machine.newest_symbol_versions)
    if machine.glibc is None:
        found = f"no glibc here (musl?) {versions}".strip()
        why = "PyTorch's wheels and core files of other machines expect glibc"
        return Check("C and C++ libraries", "warning", found, why)
    found = f"glibc {machine.glibc}" + (f"; newest versions {versions}" if versions else "")
    return Check("C and C++ libraries", "ok", found, why)


def _processor(machine: Machine) -> Check:
    why = "SIGILL comes where a binary was built for features that the processor lacks"
    cpu = machine.cpu
    if cpu is None:
        return Check("processor", "warning", "unknown", why)
    features = " ".join(cpu.features) or "no vector features known"
    return Check("processor", "ok", f"{cpu.model or cpu.machine}: {features}", why)


def _container(machine: Machine) -> Check:
    why = "containers share the host's kernel: core_pattern and crash handlers are the host's"
    return Check("container", "ok", machine.container or "none seen", why)
