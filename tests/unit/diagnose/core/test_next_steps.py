"""What a reader is told to do next, where the evidence decides which advice is of any use."""

from copy import deepcopy
from typing import Any

import pytest

from builders.facts import facts_of
from postmortem.diagnose import rule

AARCH64_ZEROS = {
    "process": {"machine": "aarch64"},
    "signal": {"name": "SIGILL", "code": "ILL_ILLOPC", "address": 0xFFFF80001000},
    "fault": {
        "pc": {"value": 0xFFFF80001000, "mapped": True, "kind": "module", "path": "/opt/libc.so"},
        "instruction": {"code": "00000000"},
    },
}
AARCH64_UNKNOWN = AARCH64_ZEROS | {
    "fault": AARCH64_ZEROS["fault"] | {"instruction": {"code": "00a0c004"}}  # SVE
}


def steps(raw: dict[str, Any], name: str) -> str:
    known = facts_of(deepcopy(raw))  # it takes the dictionaries apart
    outcome = rule.run(rule.load(), known, remedies={})
    return "\n".join(next(d for d in outcome.diagnoses if d.id == name).next_steps)


def killed(sender: int, ppid: int) -> dict[str, Any]:
    signal = {"name": "SIGQUIT", "code": "SI_USER", "sender_pid": sender, "sender_uid": 0}
    return {"process": {"ppid": ppid}, "signal": signal}


def test_zeros_in_place_of_code_are_no_matter_of_the_processor() -> None:
    told = steps(AARCH64_ZEROS, "illegal_instruction")
    assert "cpuinfo" not in told
    assert "/opt/libc.so" in told


def test_extensions_are_looked_up_under_the_name_that_the_processor_gives_them() -> None:
    assert "grep -m1 Features /proc/cpuinfo" in steps(AARCH64_UNKNOWN, "illegal_instruction")


@pytest.mark.parametrize(
    ("sender", "ppid", "has", "lacks"),
    [
        (900, 900, "ps -p 900", "PR_SET_PDEATHSIG"),
        (900, 1, "PR_SET_PDEATHSIG", "docker events"),
        (0, 1, "docker events", "ps -p"),
    ],
)
def test_who_sent_a_signal_is_looked_for_where_it_can_be_found(
    sender: int, ppid: int, has: str, lacks: str
) -> None:
    told = steps(killed(sender, ppid), "killed_by_signal")
    assert has in told
    assert lacks not in told
