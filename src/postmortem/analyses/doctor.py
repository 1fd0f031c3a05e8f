"""``postmortem doctor``: what this machine lacks for good evidence."""

from postmortem.diagnose.machine.check import CORE_CHECKS, NEEDED_CHECKS
from postmortem.diagnose.machine.checks import checks
from postmortem.facts.machine import Machine
from postmortem.present.doctor.report import doctor_blocks, doctor_highlights
from postmortem.present.headline.doctor import headline
from postmortem.report.contract import fill
from postmortem.report.contract.doctor import Doctor
from postmortem.report.model import Report


def analyse(*, gdb: str | None = None) -> Report:
    """Return the report on this machine; `gdb` is the one asked for, if any."""
    from postmortem.readers.machine import read_machine

    return report_on(read_machine(gdb=gdb))


def report_on(machine: Machine) -> Report:
    """Return the report on a machine's facts; failed if a crash leaves nothing to explain."""
    found = tuple(checks(machine))
    names = (*CORE_CHECKS, *NEEDED_CHECKS)
    return Report(
        kind="doctor",
        inputs=(),
        verdict=headline(found),
        failed=any(check.name in names and check.status == "missing" for check in found),
        diagnoses=(),
        blocks=doctor_blocks(found),
        body=fill(Doctor, checks=found, snapshot=None, since=None, changes=()),
        highlights=doctor_highlights(found),
    )
