"""The processor does not know an instruction.

What it means
    A library was built for a newer processor (AVX2, AVX-512, AMX, SVE) than the one that runs
    it, as when a wheel or container is built on one kind of host and run on another. More
    rarely the program jumped into data, or code in memory is damaged.
How to be sure
    The bytes at the program counter name the extension that they need; compare with the flags
    in /proc/cpuinfo of that host. It dies at the same place on every run, on hosts of that
    kind only.
What to do
    Use a build for that processor, or a host that has the extension. For PyTorch's own kernels
    ATEN_CPU_CAPABILITY=default chooses the plain ones (after import).
"""

from postmortem.diagnose.core.crash import Crash
from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.owners import file_name
from postmortem.diagnose.core.stacks import plain
from postmortem.diagnose.names import short
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, rule
from postmortem.facts.crash import Fault, Instruction
from postmortem.facts.memory import Modules
from postmortem.text import shell_word

_INITIALISERS = {
    "call_init",
    "_dl_init",
    "dl_open_worker",
    "_dl_init_internal",
    "dl_open_worker_begin",
}


@rule(
    "https://github.com/pytorch/pytorch/issues/37577",
    "https://github.com/pytorch/pytorch/issues/116623",
)
def illegal_instruction(crash: Crash, modules: Modules) -> Findings:
    if crash.kind is not FaultKind.ILLEGAL_INSTRUCTION:
        return
    instruction = crash.fault.instruction if crash.fault is not None else None
    feature = instruction.feature if instruction is not None else None
    if feature == "privileged":
        feature = None
    crashed = crash.crashed
    evidence = [crash.cited, *crash.frame()]
    where, at_load = "", False
    if crashed.frames:
        first = crashed.frames[0]
        name = file_name(first.module) if first.function == "??" else short(first.function)
        where = f" in {name}"
        at_load = any(plain(frame.function) in _INITIALISERS for frame in crashed.frames[:12])
    if at_load:
        evidence.append(Evidence("stack", "the library was being loaded (its initialisers ran)"))
    words = crash.words
    if instruction is not None and instruction.is_zeros and crash.fault is not None:
        yield _zeros(where, words, crash.fault, tuple(evidence))
        return
    if instruction is not None and _is_table(instruction, modules):
        yield _table(where, words, tuple(evidence))
        return
    is_known = feature is not None or at_load
    if crash.fault is not None and _is_nobodys(crash.fault) and not is_known:
        yield _nobodys(words, tuple(evidence))
        return
    host = f" of host {crash.process.hostname}" if crash.process.hostname else ""
    needs = f": it needs {feature}" if feature else ""
    yield Finding(
        title=f"illegal instruction{where}{needs}",
        cause=f"{words}. "
        + (
            f"The library was built for a processor with {feature}"
            if feature
            else "Either the code was built for another processor, or what ran there was not code"
        ),
        confidence=Confidence.LIKELY if is_known else Confidence.POSSIBLE,
        next_steps=(
            f"grep -m1 {_FLAGS.get(crash.process.machine, 'flags')} /proc/cpuinfo{host}: "
            f"is {feature or 'the extension'} there?",
            "install a build for that processor (or build it there), or keep the job on hosts "
            "that have the extension",
            "for PyTorch's own kernels only: ATEN_CPU_CAPABILITY=default",
        ),
        evidence=tuple(evidence),
    )


_FLAGS = {"aarch64": "Features"}
"""What the line of /proc/cpuinfo is called, where it is not "flags"."""


def _is_nobodys(fault: Fault) -> bool:
    """Whether the code stands in memory that no file was mapped to."""
    return fault.pc.mapped and fault.pc.path is None and fault.pc.kind != "vdso"


def _is_table(instruction: Instruction, modules: Modules) -> bool:
    """Whether the bytes are addresses of the process's own files: a table, as behind a function."""
    words = [int.from_bytes(instruction.code[at : at + 8], "little") for at in (0, 8)]
    return all(modules.at(word) is not None for word in words)


def _table(where: str, words: str, evidence: tuple[Evidence, ...]) -> Finding:
    return Finding(
        title=f"data was executed as code{where}: a table of addresses",
        cause=f"{words}. The bytes there are addresses of this process's own files: constants that "
        "stand behind or between functions. The code in front of them ran on into them, or a jump "
        "went wrong",
        confidence=Confidence.LIKELY,
        next_steps=(
            "look at the listing in front of the program counter (gdb: x/8i $pc-32): does that "
            "function end without a return or a jump?",
            _WRONG_JUMP,
        ),
        evidence=evidence,
    )


_WRONG_JUMP = "look at the caller in the stack: the pointer that it called, and who sets it"


def _zeros(where: str, words: str, fault: Fault, evidence: tuple[Evidence, ...]) -> Finding:
    """Return what zeros in place of code mean: no processor has the instruction that is missing."""
    path = fault.pc.path
    if path is None:
        cause = "Code made at run time was never written there or is gone, or a jump went wrong"
        steps: tuple[str, ...] = (
            _WRONG_JUMP,
            "a JIT compiler (torch.compile, Triton, Numba)? run once without it",
        )
    else:
        cause = (
            "The program counter is in a file that was mapped as code: a jump went into its "
            "padding, or a part of the file is missing (a copy that was cut short, a full disk)"
        )
        steps = (
            f"cmp -l {shell_word(path)} with the file of another host, or install its package "
            "again",
            _WRONG_JUMP,
        )
    return Finding(
        title=f"zeroed memory was executed{where}",
        cause=f"{words}. {cause}",
        confidence=Confidence.LIKELY,
        next_steps=steps,
        evidence=evidence,
    )


def _nobodys(words: str, evidence: tuple[Evidence, ...]) -> Finding:
    return Finding(
        title="illegal instruction in memory that belongs to no file",
        cause=f"{words}. The code there was made at run time (by a JIT compiler, perhaps for "
        "another processor), or a jump went to data",
        confidence=Confidence.POSSIBLE,
        next_steps=(
            _WRONG_JUMP,
            "a JIT compiler (torch.compile, Triton, Numba)? run once without it, and delete its "
            "cache where hosts of several kinds share one",
        ),
        evidence=evidence,
    )
