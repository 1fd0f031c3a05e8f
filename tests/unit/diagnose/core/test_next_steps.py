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


def unmapped(index: int) -> dict[str, Any]:
    address = {"value": 0x562B00001000, "mapped": False}
    instruction = {"access": "read", "operand": "rdx+rax*4", "operand_address": 0x562B00001000}
    return {
        "signal": {"name": "SIGSEGV", "code": "SEGV_MAPERR", "address": 0x562B00001000},
        "fault": {"address": address, "operand": address, "instruction": instruction},
        "thread": {"registers": {"rdx": 0x561B00001000, "rax": index}},
    }


@pytest.mark.parametrize("index", [0, 0x400000000])
def test_only_an_index_that_moves_the_address_is_suspected(index: int) -> None:
    known = facts_of(unmapped(index))
    found = rule.run(rule.load(), known, remedies={}).diagnoses
    assert [("rax=" in d.cause) for d in found if d.id == "bad_pointer"] == [index != 0]


@pytest.mark.parametrize(("outer", "python"), [("main", 0), ("PyObject_Vectorcall", 2)])
def test_no_traceback_is_looked_for_in_a_plain_program(outer: str, python: int) -> None:
    names = ("abort", "std::terminate()", "std::thread::~thread()", outer)
    frames = [f"#{i}  0x00007f000000{i}000 in {name} ()" for i, name in enumerate(names)]
    raw = {"signal": {"name": "SIGABRT", "code": "SI_TKILL"}, "bt": "\n".join(frames)}
    assert steps(raw, "uncaught_exception").count("Python") == python


@pytest.mark.parametrize(("outer", "python"), [("main", False), ("PyObject_Vectorcall", True)])
def test_nothing_of_python_is_tried_in_a_plain_program(outer: str, python: bool) -> None:
    frames = [f"#{i}  0x00007f000000{i}000 in {name} ()" for i, name in enumerate(("get", outer))]
    told = steps({**unmapped(0), "bt": "\n".join(frames)}, "bad_pointer")
    assert ("PYTHONMALLOC" in told) == python


@pytest.mark.parametrize(
    ("inner", "own"), [("sum () at a.c:8", "sum (a.c:8)"), ("memmove ()", "main (a.c:20)")]
)
def test_the_function_that_fails_itself_passes_nothing_on(inner: str, own: str) -> None:
    bt = f"#0  0x00007f0000001000 in {inner}\n#1  0x00007f0000002000 in main () at a.c:20"
    told = steps({**unmapped(0), "bt": bt}, "bad_pointer")
    assert own in told
    assert ("passes on" in told) == own.startswith("main")
