"""Whether what explains crashes is installed: readers, debuggers, symbols, the module for GPUs."""

from postmortem.diagnose.machine.check import Check
from postmortem.diagnose.machine.packages import LIBC_SYMBOLS, family, install, symbol_server
from postmortem.facts.machine import DebugSymbols, Machine, Tool


def native(machine: Machine) -> Check:
    why = "reads the core itself: signal, stacks, memory; nothing works without it"
    if machine.native_module is None:
        return Check("native reader", "ok", "loaded", why)
    fix = "pip install --force-reinstall torch-postmortem"
    return Check("native reader", "missing", machine.native_module, why, fix)


def gdb(machine: Machine) -> Check:
    why = "gives arguments and locals of native functions, and a second opinion on their stacks"
    tool = machine.gdb
    if tool.usable:
        return Check("gdb", "ok", f"{tool.version} ({tool.path})", why)
    fix = f"{install(machine, 'gdb')}; or pip install 'torch-postmortem[gdb]'"
    if machine.conda:
        fix = f"conda install -c conda-forge gdb; or {fix}"
    return Check("gdb", "missing", tool.problem or "not installed", why, fix)


def tool(machine: Machine, tool: Tool) -> Check:
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


def symbols(machine: Machine, symbols: DebugSymbols) -> Check:
    name = f"debug symbols of {symbols.name}"
    why = "give source lines and arguments in frames of that library"
    if symbols.path is None:
        found = f"{symbols.name} was not found, or is linked statically"
        return Check(name, "warning", found, why)
    if symbols.at is not None:
        where = "in the binary itself" if symbols.at == symbols.path else symbols.at
        return Check(name, "ok", where, why)
    if symbols.name == "libc" and (command := LIBC_SYMBOLS.get(family(machine) or "")):
        fix = command if machine.root else f"sudo {command}"
    elif machine.debuginfod_urls:
        fix = f"none if {machine.debuginfod_urls} has them: gdb can ask that server"
    else:
        fix = f"export DEBUGINFOD_URLS={symbol_server(machine)}"
        if symbols.name == "Python":
            fix += "; or a Python built with CFLAGS=-g (pyenv does)"
    return Check(name, "warning", f"none for {symbols.path}", why, fix)


def debuginfod(machine: Machine) -> Check:
    why = "a server that has debug symbols of the distribution's libraries; asked only on request"
    if machine.debuginfod_urls:
        return Check("debuginfod", "ok", machine.debuginfod_urls, why)
    if machine.symbols and all(row.at for row in machine.symbols):
        return Check("debuginfod", "ok", "not set, and not needed for what was checked", why)
    fix = f"export DEBUGINFOD_URLS={symbol_server(machine)}"
    return Check("debuginfod", "warning", "DEBUGINFOD_URLS is not set", why, fix)


def lief(machine: Machine) -> Check:
    why = "reads what binaries were linked against, for diagnoses of mixed libraries"
    if machine.lief_version:
        return Check("lief", "ok", machine.lief_version, why)
    return Check("lief", "missing", "not installed", why, "pip install 'lief>=0.16'")


def torch(machine: Machine) -> Check:
    why = "not needed to explain cores; scans of live tensors use it"
    found = machine.torch_version or "not installed in this Python, and not needed"
    return Check("torch", "ok", found, why)


CUDA_FIXES = {
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


def cuda(machine: Machine) -> Check:
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
    return Check("CUDA module", "warning", found, why, CUDA_FIXES.get(cuda.state))
