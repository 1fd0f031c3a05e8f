"""What this machine offers for evidence of crashes: limits, debuggers, symbols, space."""

from postmortem.records import record


@record
class CorePattern:
    """The kernel's setting of where cores go (core(5))."""

    text: str | None
    """None when /proc does not show it."""
    uses_pid: bool = False
    """``core_uses_pid``: add the pid where the pattern has no %p."""

    @property
    def is_one_name(self) -> bool:
        """Whether all processes that share a folder leave their core under the same name."""
        return "%" not in (self.text or "") and not self.uses_pid


@record
class CoreDestination:
    """Who takes the core of a process that crashes now."""

    handler: str
    """``"file"``, ``"systemd"``, ``"apport"``, ``"abrt"``, ``"wsl"``, ``"postmortem"``,
    ``"pipe"`` (another program), ``"socket"`` or ``"none"``."""
    words: str
    """Fits after "cores go to"."""
    program: str | None = None
    reachable: bool = False
    """Whether a core can be expected where we can read it."""


@record
class Space:
    """A file system with its room, in bytes."""

    path: str
    free: int
    size: int


@record
class Tool:
    """A program, where it was found, and what it says of its version."""

    name: str
    path: str | None = None
    version: str | None = None
    problem: str | None = None
    """Why it cannot be used although it is there, or why it was not found."""

    @property
    def usable(self) -> bool:
        """Whether it is there and works."""
        return self.path is not None and self.problem is None


@record
class DebugSymbols:
    """Whether source lines can be had for one binary."""

    name: str
    path: str | None
    """The binary; None when it is not on this machine."""
    at: str | None = None
    """Where the DWARF lies: the binary itself or its separate debug file; None if nowhere."""


@record
class Cpu:
    """The processor."""

    machine: str
    model: str | None = None
    features: tuple[str, ...] = ()
    """Of those that matter for vector code: ``avx2``, ``avx512f``, ``asimd``, ``sve`` …."""


@record
class CudaScan:
    """Whether our own CUDA extension can be used, and what stands in the way."""

    state: str
    """usable, not built, cannot be loaded, no driver, old driver, no device or broken."""
    text: str = ""
    """What the CUDA runtime or the loader says."""
    driver: int = 0
    """The CUDA version that the driver knows: 13000 is 13.0; 0 where there is none."""
    runtime: int = 0
    """The CUDA version that the extension was built with."""
    devices: int = 0
    architectures: str = ""
    """The compute capabilities of its code: "75 80 90"."""


@record
class Machine:
    """All that `postmortem doctor` looks at."""

    python: str
    distribution: str
    """``ID`` of os-release; ``"conda"`` is told by `conda`."""
    distribution_like: tuple[str, ...]
    conda: bool
    root: bool
    gdb: Tool
    core_limit_soft: int | None
    """RLIMIT_CORE in bytes; None is unlimited."""
    core_limit_hard: int | None
    core_pattern: CorePattern
    core_destination: CoreDestination
    core_space: Space | None
    """Where cores would land, if that is a folder of this machine."""
    shared_memory: Space | None
    """/dev/shm."""
    container: str | None
    ptrace_scope: int | None
    """Yama's setting; None when the kernel has no Yama."""
    coredump_filter: int | None
    """The bit mask of this process, which children inherit (core(5))."""
    suid_dumpable: int | None
    tools: tuple[Tool, ...] = ()
    """strace, py-spy, eu-stack."""
    debuginfod_urls: str | None = None
    symbols: tuple[DebugSymbols, ...] = ()
    lief_version: str | None = None
    torch_version: str | None = None
    nvidia_driver: str | None = None
    cuda_scan: CudaScan = CudaScan("not built")
    native_module: str | None = None
    """Why our native reader cannot be loaded; None when it can."""
    cpu: Cpu | None = None
    glibc: str | None = None
    newest_symbol_versions: tuple[tuple[str, str, str], ...] = ()
    """Library, family, newest version that it defines: ``("libstdc++.so.6", "GLIBCXX", …)``."""
