"""What stays the same of a stack from one run, thread and machine to the next.

Addresses, lines of library code, compilers' clones, versions of files, the way into the kernel and
the interpreter's trampolines differ where nothing differs for the reader. Inlined calls and tail
calls are left out too: which of them are known depends on the debug information at hand.
"""

from collections.abc import Hashable, Sequence
from functools import lru_cache

from postmortem.diagnose.stacks.activity import LIBRARY_FILE, area, kind_of
from postmortem.facts.threads import Frame
from postmortem.knowledge.frames import C_LIBRARY
from postmortem.knowledge.modules import is_generated, stem
from postmortem.knowledge.symbols import symbol
from postmortem.patterns import Pattern

CPYTHON = "CPython"
GENERATED = "torch.compile"

_PARALLEL_BODY = Pattern(r"\._omp_fn(?:\.\d+)?$")
_CELL = Pattern(r"^<ipython-input-|/ipykernel_\d+/")
_PACKAGES = Pattern(r"^.*/(?:site|dist)-packages/|^.*/lib(?:64)?/python3[\d.]*t?/")
_NO_MODULE = ("[heap]", "[stack", "/dev/zero", "anon_inode:", "/SYSV")


def physical(frames: Sequence[Frame]) -> list[Frame]:
    """Return the frames that have a place on the stack of their own; all if there are no such."""
    return [f for f in frames if not (f.inlined or f.tail_call)] or list(frames)


def call_key(frame: Frame, *, innermost: bool = False) -> Hashable:
    """Return what two frames share when they are calls of the same function."""
    if frame.kind == "python":
        return (frame.file, frame.function)
    if frame.function != "??":
        return (function_name(frame.function), module_name(frame.module))
    if innermost or frame.module is None:
        return ("??", module_name(frame.module))
    return ("??", frame.module, frame.module_offset)


def place_key(frame: Frame, *, innermost: bool = False) -> Hashable:
    """Return what two frames share when they stand in the same place of the user's own code.

    Of library code the function counts, of the user's own Python code the line too.
    """
    if frame.kind == "python" and frame.file and not LIBRARY_FILE(frame.file):
        return (frame.file, frame.function, frame.line)
    return call_key(frame, innermost=innermost)


def stack_key(frames: Sequence[Frame], executable: str | None) -> Hashable:
    """Return what the stacks of two threads share when they stand in the same place.

    The C library's way into the kernel, thread start-up and other boilerplate of the tables do
    not count, nor, between Python frames, the interpreter's calls of itself.
    """
    whole = physical(frames)
    start = 0
    while start < len(whole) - 1 and _enters_kernel(whole[start], executable):
        start += 1
    inner = whole[start:]
    python = next((i for i, f in enumerate(inner) if f.kind == "python"), len(inner))
    keys = [
        place_key(frame, innermost=number == 0)
        for number, frame in enumerate(inner)
        if number == 0 or not _is_boilerplate(frame, executable, called_by_python=number > python)
    ]
    return tuple(keys)


def _enters_kernel(frame: Frame, executable: str | None) -> bool:
    # half of a pool spins and half sleeps in futex: to the reader they stand in the same place
    if frame.kind == "python" or area(frame, executable) != C_LIBRARY:
        return False
    return kind_of(frame, executable).wait


def _is_boilerplate(frame: Frame, executable: str | None, *, called_by_python: bool) -> bool:
    if kind_of(frame, executable).noise:
        return True
    return called_by_python and frame.kind == "native" and area(frame, executable) == CPYTHON


@lru_cache(maxsize=8192)
def function_name(function: str) -> str:
    """Return a native function's name without what compilers and demanglers add to it.

    ``store_at`` for ``store_at(int*, long) [clone .constprop.0]``, and for the body of a parallel
    region in it, ``store_at._omp_fn.0``.
    """
    bare = symbol(function).bare
    return _PARALLEL_BODY.sub("", bare) or bare


@lru_cache(maxsize=4096)
def module_name(path: str | None) -> str | None:
    """Return a library's name without folder, version, wheel's hash and CPython's tag.

    None for code that is in no file.
    """
    if not path or path.startswith(_NO_MODULE):
        return None
    path = path.removesuffix(" (deleted)")
    if is_generated(path):
        return GENERATED
    name = path.removeprefix("/memfd:").rpartition("/")[2]
    return stem(name) or name


@lru_cache(maxsize=8192)
def python_name(file: str | None, function: str) -> str:
    """Return a Python function as ``train.step`` or ``torch._tensor.Tensor.backward``.

    Of the user's own files only the last part counts: jobs run in folders that are named after
    nodes, dates and job numbers.
    """
    name = function.replace("<locals>.", "")
    if not file:
        return name
    if is_generated(file):
        return f"{GENERATED}.{name}"
    if _CELL.search(file):
        return f"<cell>.{name}"
    if file.startswith("<"):
        module = file.strip("<>").removeprefix("frozen ") if "frozen " in file else file[:60]
        return f"{module}.{name}"
    inside = _PACKAGES.sub("", file, count=1)
    parts = inside.removesuffix(".py").split("/")
    if inside == file:
        most = 2 if parts[-1] in ("__init__", "__main__") else 1
        parts = [part for part in parts[-most:] if part] or [file[:60]]
    if parts[-1] == "__init__" and len(parts) > 1:
        parts.pop()
    return f"{'.'.join(parts)}.{name}"
