"""Names of system calls, against the numbers of the kernel's headers where those are installed."""

import re
from pathlib import Path

import pytest

from postmortem.knowledge.syscalls import system_call

HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}


@pytest.mark.parametrize(
    ("number", "machine", "name"),
    [
        (0, "x86_64", "read"),
        (257, "x86_64", "openat"),
        (56, "aarch64", "openat"),
        (437, "aarch64", "openat2"),
        (335, "x86_64", None),
        (-1, "x86_64", None),
        (1 << 40, "aarch64", None),
    ],
)
def test_names(number: int, machine: str, name: str | None) -> None:
    assert system_call(number, machine) == name


@pytest.mark.parametrize("machine", HEADERS)
def test_the_headers_agree(machine: str) -> None:
    if not HEADERS[machine].exists():
        pytest.skip(f"no {HEADERS[machine]} (linux-libc-dev)")
    text = HEADERS[machine].read_text()
    rows = re.findall(r"#define __NR_(\w+)\s+(\d+)$", text, re.MULTILINE)
    assert len(rows) > 200
    # 403 to 423 are of 32-bit machines only
    known = {
        int(number): name
        for name, number in rows
        if int(number) <= 450 and not 403 <= int(number) < 424
    }
    for number, name in known.items():
        if name not in ("syscalls", "arch_specific_syscall"):
            assert system_call(number, machine) in (name, name.removesuffix("64")), number
