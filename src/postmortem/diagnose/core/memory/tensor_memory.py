"""A PyTorch kernel on the CPU touched memory that its tensors do not have.

What it means
    The code of an operator failed on the elements of a tensor. Kernels trust the tensor: its
    pointer, sizes and strides. Either the memory behind it is gone or shorter (from_blob,
    frombuffer, as_strided, set_, shared memory of another process), or an index tensor holds
    what the kernel does not check, or something overwrote the tensor.
How to be sure
    The innermost frames are a kernel's. Read each input of the operator just before, as by
    x.clone(): a crash there names the tensor.
What to do
    Find the operator's inputs in the Python line and where their memory came from. Check index
    tensors with min() and max().
"""

from postmortem.diagnose.core.crash import Crash
from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.owners import Owner, owner
from postmortem.diagnose.core.waiting_caller import waiting_caller
from postmortem.diagnose.names import bare
from postmortem.diagnose.rule import Confidence, Finding, Findings, Role, rule
from postmortem.facts.threads import Thread
from postmortem.patterns import Pattern

_KERNEL = Pattern(
    r"\bat::(native|vec|internal|parallel_for|TensorIterator\w*)\b|\bc10::function_ref\b|"
    r"\btorch::jit::|\bonednn\b|\bdnnl::|\bfbgemm\b"
)
_WITHIN = 6
_FIRST_MAPPING = 1 << 32
"""Programs that are position-independent have nothing below; an offset into a tensor fits in."""
_OPERATOR = (
    Pattern(r"\bTHPVariable_(\w+)"),
    Pattern(r"\bat::_ops::(\w+)::"),
    Pattern(r"\bat::native::(\w+)$"),
)


@rule(
    "https://docs.pytorch.org/docs/stable/generated/torch.as_strided.html",
    "https://docs.pytorch.org/docs/stable/generated/torch.frombuffer.html",
    role=Role.CONTRIBUTING,
)
def tensor_memory(crash: Crash) -> Findings:
    signal = crash.signal
    crashed = crash.crashed
    if not crash.kind.is_memory_fault or crash.kind is FaultKind.BAD_CALL:
        return
    index = _kernel(crashed)
    if index is None:
        return
    asked = waiting_caller(crash.threads)
    operator = _operator(crashed) or (_operator(asked) if asked is not None else None)
    named = f" of {operator}" if operator else ""
    if owner(crashed.frames[index]) is Owner.GENERATED:
        named = " that torch.compile made"
    title = f"the CPU kernel{named} touched memory that its tensors do not have"
    cause = (
        f"the kernel{named} computes addresses from a tensor's pointer, sizes and strides: "
        "the memory behind it was freed or is shorter (from_blob, frombuffer, as_strided, set_, "
        "shared memory), or an index tensor points outside. A bug of the kernel looks the same"
    )
    if signal.address is not None and signal.address < _FIRST_MAPPING:
        title = f"the CPU kernel{named} used a tensor whose storage is most likely empty"
        cause = (
            f"the address {signal.address:#x} is an offset, not a pointer: the tensor's storage "
            "has no memory, but its sizes say that it has. Storages are emptied by "
            "untyped_storage().resize_(0), as FSDP does with parameters that are not in use"
        )
    yield Finding(
        title=title,
        cause=cause,
        confidence=Confidence.LIKELY if crash.kind is FaultKind.UNMAPPED else Confidence.POSSIBLE,
        next_steps=(
            "before the operator, clone() each of its inputs: the crash moves to the tensor whose "
            "memory is bad",
            "which inputs come from numpy, frombuffer, from_blob, as_strided or another process? "
            "their owner must live as long as the tensor",
            "index tensors (embedding, gather, index_select, scatter): check min() and max()"
            if owner(crashed.frames[index]) is not Owner.GENERATED
            else "TORCH_COMPILE_DISABLE=1: does the same step fail without torch.compile?",
        ),
        evidence=(crash.cited, *crash.frame(index)),
    )


def _kernel(thread: Thread) -> int | None:
    """Return the innermost kernel frame, where nothing but kernels and copies stands inside it."""
    for index, frame in enumerate(thread.frames[:_WITHIN]):
        if frame.kind == "python":
            return None
        if owner(frame) is Owner.GENERATED:
            return index
        if owner(frame) is Owner.PYTORCH:
            return index if _KERNEL.search(frame.function) else None
        if owner(frame) not in (Owner.GLIBC, Owner.MATH):
            return None
    return None


def _operator(thread: Thread) -> str | None:
    for pattern in _OPERATOR:
        for frame in thread.frames[:64]:
            found = pattern.search(bare(frame.function))
            if found is not None:
                return found.group(1).removesuffix("_kernel")
    return None
