"""The table of Xid numbers: whole, and one source with the signatures."""

from postmortem.facts.kernel_log import Fault
from postmortem.knowledge.messages import by_id
from postmortem.knowledge.xids import rows, xid


def test_every_number_is_there_once_and_explained() -> None:
    numbers = [number for number, *_ in rows()]
    assert len(numbers) == len(set(numbers))
    for number in numbers:
        known = xid(number)
        assert known.name
        assert known.cause.endswith(".")
        assert known.next_steps
        assert known.reach in {"process", "gpu", "link", "host"}


def test_a_cause_stands_in_one_place() -> None:
    for number, _, cause, *_ in rows():
        assert (f"xid-{number}" in by_id() or number == 120) != bool(cause), number


def test_programs_are_told_from_hardware() -> None:
    assert {xid(number).fault for number in (13, 31)} == {Fault.PROGRAM}
    assert {xid(number).fault for number in (48, 74, 79, 94, 95, 119, 120)} == {Fault.HARDWARE}
    assert {xid(number).fault for number in (43, 45)} == {Fault.AFTERMATH}
    assert xid(63).fault is Fault.NONE
    assert xid(31337).fault is Fault.UNKNOWN
