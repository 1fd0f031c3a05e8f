"""The verdict on a machine: whether a crash here leaves evidence."""

from collections.abc import Sequence

from postmortem.diagnose.machine.check import CORE_CHECKS, NEEDED_CHECKS, Check


def headline(found: Sequence[Check]) -> str:
    """Return what is lacking, the worst first."""
    missing = [check.name for check in found if check.status == "missing"]
    warnings = [check.name for check in found if check.status == "warning"]
    if needed := [name for name in missing if name in NEEDED_CHECKS]:
        return f"postmortem core cannot work here: no {' and no '.join(needed)}"
    if stopped := [name for name in missing if name in CORE_CHECKS]:
        others = [name for name in missing if name not in CORE_CHECKS]
        also = f"; also missing: {', '.join(others)}" if others else ""
        return f"a crash here leaves no core to explain ({', '.join(stopped)}){also}"
    if missing:
        return f"a crash here leaves a core; missing to explain it well: {', '.join(missing)}"
    if warnings:
        return f"a crash here leaves evidence; it could be better: {', '.join(warnings)}"
    return "this machine is ready: a crash leaves a core, and it can be explained in full"
