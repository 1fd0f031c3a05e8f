"""Every check of a machine, the most important first."""

from collections.abc import Iterator

from postmortem.diagnose.machine import cores, host, tools
from postmortem.diagnose.machine.check import Check
from postmortem.facts.machine import Machine


def checks(machine: Machine) -> Iterator[Check]:
    """Yield every check, the most important first."""
    yield tools.native(machine)
    yield tools.gdb(machine)
    yield cores.core_limit(machine)
    yield cores.core_pattern(machine)
    if machine.core_space is not None:
        yield cores.core_space(machine.core_space)
    yield cores.coredump_filter(machine)
    yield cores.suid_dumpable(machine)
    yield host.ptrace(machine)
    yield host.shared_memory(machine)
    for tool in machine.tools:
        yield tools.tool(machine, tool)
    for symbols in machine.symbols:
        yield tools.symbols(machine, symbols)
    yield tools.debuginfod(machine)
    yield tools.lief(machine)
    yield tools.torch(machine)
    yield tools.cuda(machine)
    yield host.libraries(machine)
    yield host.processor(machine)
    yield host.container(machine)
