"""The decoder against objdump: it may know less, it must never say anything else."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

_native = pytest.importorskip("postmortem._native")

# fmt: off
X86_NAMES = [
    "r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9",
    "r8", "rax", "rcx", "rdx", "rsi", "rdi", "orig_rax", "rip", "cs",
    "eflags", "rsp", "ss", "fs_base", "gs_base", "ds", "es", "fs", "gs",
]
# fmt: on
LINE = re.compile(r"^\s*([0-9a-f]+):\t((?:[0-9a-f]{2} )+|[0-9a-f]{8} )\s*\t?(.*)$")
STRING = re.compile(
    r"^(?:repn?z? |rep |lock |bnd |notrack |cs |ds |addr32 )*(?:movs|cmps|stos|lods|scas)"
)
# Their stack or string operands are not written in brackets.
IMPLIED = re.compile(r"^(?:repz |bnd |notrack |rex\S* )*(?:push|pop|call|ret|leave)")
HINT = re.compile(r"\b(?:lea|nopw?|nopl|prefetch\w*|bnd\w+|clflush\w*|clwb|invlpg|ud[01])\b")


def disassemble(
    tool: str, path: Path, arguments: tuple[str, ...] = (), *, once: bool = False
) -> Iterator[tuple[int, bytes, str]]:
    """Yield address, code and text of each instruction, or of each code the first."""
    command = [tool, "-d", "--insn-width=16", "-w", *arguments, str(path)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    seen: set[str] = set()
    for line in run.stdout.splitlines():
        if once:
            code = line.partition("\t")[2].partition("\t")[0]
            if code in seen:
                continue
            seen.add(code)
        match = LINE.match(line)
        if match:
            text = re.sub(r"\s*(<[^>]*>)?\s*(#.*|//.*)?$", "", match[3])
            yield int(match[1], 16), bytes.fromhex(match[2]), text


def memory_operand(text: str) -> str | None:
    """The memory operand of a line of Intel syntax, in our words."""
    match = re.search(r"(?:([fg]s):|[cdes]s:)?\[([^\]]*)\]", text)
    if match:
        inside = re.sub(r"\*1(?=[+\-]|$)", "", match[2])
        inside = re.sub(r"[+-]0x0$", "", inside)
        return (f"{match[1]}:" if match[1] else "") + inside
    match = re.search(r"\b(?:([fg]s)|[cdes]s):(0x[0-9a-f]+)", text)
    if match:
        return (f"{match[1]}:" if match[1] else "") + match[2]
    return None


def library(*names: str) -> Path:
    for folder in ("/usr/lib/x86_64-linux-gnu", "/lib/x86_64-linux-gnu", "/usr/lib64", "/lib64"):
        for name in names:
            if (Path(folder) / name).exists():
                return Path(folder) / name
    pytest.skip(f"none of {names} is here")


@pytest.mark.parametrize("name", ["libc.so.6", "libm.so.6"])
def test_x86_operands_are_those_of_objdump(name: str) -> None:
    if shutil.which("objdump") is None:
        pytest.skip("no objdump")
    registers = [0] * 27
    known = unknown = 0
    wrong: list[tuple[str, str, str | None, str | None]] = []
    for pc, code, text in disassemble("objdump", library(name), ("-M", "intel"), once=True):
        if text.startswith(("(bad)", ".byte", "rex")) or "ymmword ptr [rip" in text:
            continue
        expected = memory_operand(text)
        rows = _native.decode_instruction("x86_64", code, pc, registers)
        got = rows[0]["operand"]
        if HINT.search(text):
            if got is not None:
                wrong.append((code.hex(), text, expected, got))
            continue
        if STRING.match(text) or IMPLIED.match(text):
            if expected and not STRING.match(text) and got != expected and got is not None:
                wrong.append((code.hex(), text, expected, got))
            continue
        if got is None:
            unknown += expected is not None
        elif got == expected:
            known += 1
        else:
            wrong.append((code.hex(), text, expected, got))
    assert wrong[:20] == []
    assert known > 1000
    assert unknown < known / 4


def test_rip_relative_addresses_count_the_immediate() -> None:
    if shutil.which("objdump") is None:
        pytest.skip("no objdump")
    run = subprocess.run(
        ["objdump", "-d", "-w", "-M", "intel", "--insn-width=16", str(library("libc.so.6"))],
        capture_output=True,
        text=True,
        check=True,
    )
    checked = 0
    for line in run.stdout.splitlines():
        if "[rip" not in line:
            continue
        match = LINE.match(line)
        target = re.search(r"\[rip[+-]0x[0-9a-f]+\].*#\s*([0-9a-f]+)\b", line)
        if not match or not target or HINT.search(match[3]):
            continue
        code = bytes.fromhex(match[2])
        row = _native.decode_instruction("x86_64", code, int(match[1], 16), [0] * 27)[0]
        if row["operand_address"] is not None:
            assert row["operand_address"] == int(target[1], 16), line
            checked += 1
    assert checked > 1000


def test_aarch64_operands_are_those_of_objdump() -> None:
    tool = shutil.which("aarch64-linux-gnu-objdump")
    path = Path("/usr/aarch64-linux-gnu/lib/libc.so.6")
    if tool is None or not path.exists():
        pytest.skip("no aarch64 binutils and libc")
    wrong: list[tuple[str, str, str | None]] = []
    known = 0
    registers = [0] * 34
    pattern = re.compile(r"^(ld|st|cas|swp|prf|dc\b)\w*")
    for pc, code, text in disassemble(tool, path, once=True):
        rows = _native.decode_instruction("aarch64", code[3::-1], pc, registers)
        got = rows[0]["operand"]
        if got is None:
            continue
        if not pattern.match(text) or text.startswith("prf"):
            wrong.append((code.hex(), text, got))
            continue
        expected = aarch64_operand(text)
        if expected is None or expected == got:
            known += expected is not None
        else:
            wrong.append((code.hex(), text, got))
        load = not text.startswith(("st", "cas", "swp", "ldadd", "ldset", "ldclr", "ldeor", "dc"))
        if (rows[0]["access"] == "read") != load:
            wrong.append((code.hex(), text, rows[0]["access"]))
    assert wrong[:20] == []
    assert known > 1000


def aarch64_operand(text: str) -> str | None:
    match = re.search(r"\[([^\]]*)\](!?)(, .*)?", text)
    if not match:
        return None
    parts = [p.strip() for p in match[1].split(",")]
    if len(parts) == 1:
        return parts[0]
    if parts[1].startswith("#"):
        value = int(parts[1][1:], 0)
        return parts[0] + (f"{'-' if value < 0 else '+'}{abs(value):#x}" if value else "")
    index = parts[1]
    if len(parts) > 2:
        kind, _, amount = parts[2].partition(" ")
        if kind in ("uxtw", "sxtw"):
            index = f"{kind}({index})"
        if amount and amount != "#0":
            index += f"*{1 << int(amount[1:])}"
    return f"{parts[0]}+{index}"


@pytest.mark.parametrize(
    ("code", "operand", "access", "feature"),
    [
        ("488b04d1", "rcx+rdx*8", "read", None),
        ("4889442410", "rsp+0x10", "write", None),
        ("64488b042528000000", "fs:0x28", "read", None),
        ("62f17c48100f", "rdi", "read", "AVX-512"),
        ("62f17c48114f01", "rdi+0x40", "write", "AVX-512"),
        ("c5fd6f07", "rdi", "read", "AVX"),
        ("c5fdef07", "rdi", "read", "AVX2"),
        ("c4e2fdb80f", "rdi", "read", "FMA"),
        ("0f0b", None, None, "trap"),
        ("cc", None, None, "trap"),
        ("f4", None, None, "privileged"),
        ("488d0401", None, None, None),
        ("c4e27b4b0411", None, None, "AMX"),
        ("f30fb8c1", None, None, "POPCNT"),
        ("f2480f38f1c1", None, None, "SSE4.2"),
        ("83390a", "rcx", "read", None),
        ("f00fb10f", "rdi", "write", None),
        ("e800000000", "rsp-0x8", "write", None),
        ("c3", "rsp", "read", None),
        ("f3aa", "rdi", "write", None),
        ("", None, None, None),
        ("48", None, None, None),
        ("488b84", None, None, None),
    ],
)
def test_x86_words(code: str, operand: str | None, access: str | None, feature: str | None) -> None:
    row = _native.decode_instruction("x86_64", bytes.fromhex(code), 0x1000, [0] * 27)[0]
    assert (row["operand"], row["access"], row["feature"]) == (operand, access, feature)


def test_x86_address_from_registers() -> None:
    registers = [0] * 27
    registers[X86_NAMES.index("r13")] = 0x7000
    registers[X86_NAMES.index("r9")] = 3
    registers[X86_NAMES.index("fs_base")] = 0x100000
    (row,) = _native.decode_instruction(
        "x86_64", bytes.fromhex("4b8b44cdf0"), 0, registers
    )  # mov rax, [r13+r9*8-0x10]
    assert (row["operand"], row["operand_address"]) == ("r13+r9*8-0x10", 0x7008)
    (row,) = _native.decode_instruction("x86_64", bytes.fromhex("64488b042528000000"), 0, registers)
    assert row["operand_address"] == 0x100028
    both = _native.decode_instruction("x86_64", bytes.fromhex("f3a4"), 0, registers)
    assert [r["operand"] for r in both] == ["rdi", "rsi"]


@pytest.mark.parametrize(
    ("word", "operand", "access", "feature"),
    [
        (0xF9400820, "x1+0x10", "read", None),  # ldr x0, [x1, #16]
        (0x00000001, None, None, "trap"),  # udf #1
        (0x00000000, None, None, None),  # udf #0: zeroed memory
        (0xD4200020, None, None, "trap"),  # brk #1: clang's __builtin_trap
        (0xD4207D00, None, None, "trap"),  # brk #1000: gcc's
        (0xD4200000, None, None, None),  # brk #0: a debugger's
        (0xD43E0000, None, None, None),  # brk #0xf000: __builtin_debugtrap
        (0xA9BF7BFD, "sp-0x10", "write", None),  # stp x29, x30, [sp, #-16]!
        (0x04200000, None, None, "SVE"),
        (0xF8627820, "x1+x2*8", "read", None),
        (0xD50B7421, "x1", "write", None),  # dc zva, x1
    ],
)
def test_aarch64_words(
    word: int, operand: str | None, access: str | None, feature: str | None
) -> None:
    code = word.to_bytes(4, "little")
    row = _native.decode_instruction("aarch64", code, 0, [0] * 34)[0]
    assert (row["operand"], row["access"], row["feature"]) == (operand, access, feature)
