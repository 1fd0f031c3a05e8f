"""A GPU or network device cannot be used.

What it means
    A call on a file of a device (/dev/nvidia*, /dev/infiniband/*, /dev/dri, /dev/kfd) failed:
    ENXIO or ENODEV: no device, or no driver, is behind it (a GPU fell off the bus, a driver was
    not loaded); EIO: the device does not answer; EACCES or EPERM: the file's bits, or the
    cgroup of a container or batch job, do not allow it. Libraries turn this into "no CUDA-
    capable device is detected" or silently use the CPU.

How to be sure
    nvidia-smi (or ibstat) on the same host as the same user; dmesg for NVRM and Xid lines.

What to do
    Give the job the device (--gres=gpu:1, docker run --gpus all, --device /dev/infiniband); a
    device that fell off the bus needs a reset or a reboot of the host.
"""

from postmortem.diagnose.rule import Confidence, Findings, rule
from postmortem.diagnose.strace.calls import named, quoted, times
from postmortem.diagnose.strace.severity import of_calls, worst
from postmortem.facts.syscall_logs import Logs
from postmortem.facts.syscalls import FailedCalls, Failures

_PREFIXES = ("/dev/nvidia", "/dev/infiniband/", "/dev/dri/", "/dev/kfd", "/dev/gdrdrv", "/dev/knem")
_USES = frozenset({"open", "openat", "openat2", "ioctl", "mmap", "read", "write"})
_MEANING = {
    "ENXIO": "no device is behind that file",
    "ENODEV": "no device, or no driver for it",
    "EIO": "the device does not answer",
    "EACCES": "the user, or the job's cgroup, may not use it",
    "EPERM": "the job's cgroup may not use it",
    "EBUSY": "somebody else has it",
}


@rule(
    "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/troubleshooting.html"
)
def device_not_usable(failures: Failures, logs: Logs) -> Findings:
    errnos = ("ENXIO", "ENODEV", "EIO", "EACCES", "EPERM", "EBUSY")
    groups = worst(logs, tuple(g for g in failures.of(*errnos) if _is_device(g)))
    if not groups:
        return
    group = groups[0]
    gpu = "nvidia" in (group.target.path or "")
    yield of_calls(
        logs,
        groups,
        Confidence.LIKELY,
        title=f"the device cannot be used: {group.first.syscall} of {named(group.target, 35)}: "
        f"{group.errno}",
        cause=f"{times(logs, group)} on {group.target.words} gave {group.errno}: "
        f"{_MEANING[group.errno]}",
        next_steps=(
            "nvidia-smi ; dmesg -T | grep -i 'NVRM\\|Xid'"
            if gpu
            else "ibstat ; lsmod ; dmesg -T | tail",
            f"ls -l {quoted(group.target)} ; id : as the job, in its container",
            "in a container: docker run --gpus all, or --device; in a batch job: ask for "
            "the device",
        ),
    )


def _is_device(group: FailedCalls) -> bool:
    """Return whether a device was used; CUDA also tries to make its files, which root alone may."""
    used = group.first.syscall in _USES
    return used and (group.target.path or "").startswith(_PREFIXES)
