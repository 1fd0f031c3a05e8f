"""The fields of ``kind core`` in the JSON report."""

from postmortem.diagnose.stacks.groups import groups
from postmortem.facts.crash import Fault
from postmortem.present.core.thread_body import ThreadBodies, group_body
from postmortem.present.core.view import CoreView
from postmortem.report.contract import core as shapes
from postmortem.report.contract import fill, unknown
from postmortem.text import address


def core_body(view: CoreView, *, with_locals: bool = False) -> dict[str, object]:
    """Return the fields of a core's report as plain JSON values."""
    executable = view.process.executable
    found = groups(view.threads, executable)
    group_of = {tid: group.id for group in found for tid in group.tids}
    crashed = view.threads.crashed
    bodies = ThreadBodies(view.threads.main_tid, executable, with_locals=with_locals)
    return fill(
        shapes.Core,
        view,
        signal=_signal(view),
        abort_message=None if view.abort_message is None else view.abort_message.text,
        crashed_thread=None if crashed is None else crashed.tid,
        main_thread=view.threads.main_tid,
        registers=None
        if crashed is None
        else {name: address(value) for name, value in (crashed.registers or {}).items()},
        threads=[bodies.of(thread, group_of[thread.tid]) for thread in view.threads],
        groups=[group_body(group) for group in found],
        async_tasks=view.threads.async_tasks,
        greenlets=view.threads.greenlets,
        modules=view.modules.items,
        fault=_fault(view.fault),
    )


def _signal(view: CoreView) -> dict[str, object]:
    """Return the signal; in a snapshot only the explanation, as no signal came."""
    failed = view.signal
    if failed is None:
        return {**unknown(shapes.Signal), "explanation": view.explanation}
    caught = failed if failed.then is not None else None
    signal = failed
    if failed.then is not None and failed.then.number != failed.number:
        signal = failed.then
    return fill(
        shapes.Signal,
        signal,
        address=None if signal.inferred else signal.address,
        explanation=view.explanation,
        caught=None
        if caught is None
        else fill(shapes.Caught, caught, address=None if caught.inferred else caught.address),
    )


def _fault(fault: Fault | None) -> dict[str, object] | None:
    if fault is None:
        return None
    code = fault.instruction
    return fill(
        shapes.Fault,
        fault,
        instruction=None if code is None else fill(shapes.Instruction, code, code=code.code.hex()),
    )
