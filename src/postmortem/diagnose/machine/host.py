"""What this machine lets processes do: attach to others, share memory, load libraries."""

from postmortem.diagnose.machine.check import Check
from postmortem.facts.machine import Machine
from postmortem.text import size

_DOCKER_SHM = 64 << 20
_FULL_SHARE = 20


def ptrace(machine: Machine) -> Check:
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


def shared_memory(machine: Machine) -> Check:
    why = "DataLoader workers and NCCL keep batches and buffers there; full, they die of SIGBUS"
    space = machine.shared_memory
    fix = "sudo mount -o remount,size=50% /dev/shm"
    if machine.container:
        fix = "docker run --shm-size=16g … (or --ipc=host); Kubernetes: an emptyDir of Memory there"
    if space is None:
        fix = fix if machine.container else "sudo mount -t tmpfs tmpfs /dev/shm"
        return Check("/dev/shm", "missing", "there is none", why, fix)
    found = f"{size(space.free)} of {size(space.size)} free"
    if space.size <= _DOCKER_SHM:
        return Check("/dev/shm", "warning", f"{found}: Docker's default, too small", why, fix)
    if space.free * _FULL_SHARE < space.size:
        return Check(
            "/dev/shm", "warning", found, why, "ls -l /dev/shm: remove what dead jobs left"
        )
    return Check("/dev/shm", "ok", found, why)


def libraries(machine: Machine) -> Check:
    why = "a wheel that needs newer symbol versions than these fails to load or crashes"
    versions = ", ".join(version for _, _, version in machine.newest_symbol_versions)
    if machine.glibc is None:
        found = f"no glibc here (musl?) {versions}".strip()
        why = "PyTorch's wheels and core files of other machines expect glibc"
        return Check("C and C++ libraries", "warning", found, why)
    found = f"glibc {machine.glibc}" + (f"; newest versions {versions}" if versions else "")
    return Check("C and C++ libraries", "ok", found, why)


def processor(machine: Machine) -> Check:
    why = "SIGILL comes where a binary was built for features that the processor lacks"
    cpu = machine.cpu
    if cpu is None:
        return Check("processor", "warning", "unknown", why)
    features = " ".join(cpu.features) or "no vector features known"
    return Check("processor", "ok", f"{cpu.model or cpu.machine}: {features}", why)


def container(machine: Machine) -> Check:
    why = "containers share the host's kernel: core_pattern and crash handlers are the host's"
    return Check("container", "ok", machine.container or "none seen", why)
