"""One command under one fault, from the fault's making to its end."""

import os
import secrets
from collections.abc import Sequence

from postmortem.emulate.fault import Fault
from postmortem.emulate.guard import Guard
from postmortem.emulate.namespaces import links
from postmortem.emulate.tree import MARK
from postmortem.run.once import complain
from postmortem.run.supervise import Supervisor


def run_under(fault: Fault, command: Sequence[str]) -> int:
    """Run a command under a fault and return its status (128 + N where signal N ended it).

    What it leaves running is ended after it: no fault outlives the command. Raises CannotEmulate
    before anything is started, CommandError where the command cannot be.
    """
    outside, mark = links("self"), secrets.token_hex(8)
    fault.enter()
    guard = Guard(fault, mark, outside)
    status = None
    try:
        supervisor = Supervisor(
            [*fault.prefix, *command],
            {**os.environ, **fault.variables, MARK: mark},
            None,
            cgroup=fault.cgroup,
            limits=fault.limits,
            helpers=frozenset((guard.pid,)),
            started=guard.started,
        )
        status = supervisor.run().status
    finally:
        said = guard.finish()
        if status is not None:
            _tell(fault, [*said, *fault.told()])
    return status


def _tell(fault: Fault, said: Sequence[str]) -> None:
    """Say in one line of standard error what the command met, or that it met nothing."""
    words = "; ".join(said) or fault.happened
    complain(f"emulated: {words}" if words else f"nothing was emulated: {fault.missed}")
