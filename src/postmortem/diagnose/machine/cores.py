"""Whether a crash here leaves a core: limits, patterns, room."""

from postmortem.diagnose.machine.check import Check, State
from postmortem.facts.machine import Machine, Space
from postmortem.knowledge.record_hint import CORES_AS_FILES
from postmortem.text import shell_word, size

_SMALL_LIMIT = 64 << 20
_SMALL_SPACE = 4 << 30


def core_limit(machine: Machine) -> Check:
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


def core_pattern(machine: Machine) -> Check:
    why = "decides who gets the core: a file that you can read, or a program that may drop it"
    taker = machine.core_destination
    text = machine.core_pattern.text
    found = f"cores go to {taker.words}" + (f" (core_pattern is {text!r})" if text else "")
    fix = CORES_AS_FILES
    if machine.container:
        fix = f"on the host, because containers share its kernel: {CORES_AS_FILES}"
    if taker.handler == "file":
        if machine.core_pattern.is_one_name:
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
            f"/etc/systemd/coredump.conf; or {CORES_AS_FILES}"
        )
        return Check("core_pattern", "warning", found, why, fix)
    return Check("core_pattern", "warning", found, why, fix)


def core_space(space: Space) -> Check:
    why = "a core is as large as the memory of the process; a full disk cuts it"
    found = f"{size(space.free)} of {size(space.size)} free at {space.path}"
    if space.free >= _SMALL_SPACE:
        return Check("room for cores", "ok", found, why)
    room = f"df -h {shell_word(str(space.path))}"
    fix = f"{room}; point core_pattern at a larger disk: {CORES_AS_FILES}"
    return Check("room for cores", "warning", found, why, fix)


def coredump_filter(machine: Machine) -> Check:
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


def suid_dumpable(machine: Machine) -> Check:
    why = "programs with capabilities or another user's id leave a core only if this is not 0"
    value = machine.suid_dumpable
    found = "not shown by this kernel" if value is None else f"{value} (fs.suid_dumpable)"
    return Check("suid_dumpable", "ok", found + "; ordinary programs are not affected", why)
