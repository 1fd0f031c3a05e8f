"""The signature of a crash: what 500 cores of one incident have in common.

It is made of the signal, the last words of the C library, the type of the C++ exception, and the
innermost calls of the crashed thread by name. What a name is taken from decides what folds:

- The C and C++ libraries, libffi and CPython are often stripped, and their inner functions depend
  on the CPU (``__memmove_avx512_unaligned``): of them only the library counts, and of CPython
  the functions that extensions call.
- A frame without a name counts by its place in the module, the same in all runs of a build.
- Lines, arguments, addresses, and how the thread was started do not count. Few callers do, so that
  a cut stack, a deep one, and one of another thread fold with the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from postmortem.diagnose.core.recursion import recursion
from postmortem.diagnose.stacks.activity import LIBRARY_FILE, area, kind_of
from postmortem.diagnose.stacks.frame_identity import (
    CPYTHON,
    function_name,
    module_name,
    physical,
    python_name,
)
from postmortem.facts.crash import FAULT_SIGNALS, AbortMessage, CppException, Signal
from postmortem.facts.threads import Frame, Thread, Trust
from postmortem.patterns import Pattern
from postmortem.records import record, replace

VERSION = 2
"""Raised whenever the same core gets another hash."""

_MOST_NATIVE = 5
_MOST_PYTHON = 2
_MOST_FRAMES = 400
_LONGEST_NAME = 60
_LONGEST_MESSAGE = 80
_OPENMP = "OpenMP"
_RUN_TIME = frozenset(
    {"C library", "C++ runtime", "kernel (vdso)", "allocator", "sanitizer", CPYTHON, _OPENMP}
)
_IN_WORDS = {
    "C library": "the C library",
    "C++ runtime": "the C++ runtime",
    "kernel (vdso)": "the kernel's vdso",
    "allocator": "the allocator",
    "sanitizer": "the sanitizer",
    "libffi": "libffi",
    CPYTHON: "CPython",
    _OPENMP: "OpenMP",
}
_API = Pattern(r"Py[A-Z]\w+|_Py_Dealloc")
_VARIES = Pattern(r"0x[0-9a-fA-F]+|\d+")
_PATH = Pattern(r"(?:/[^/\s:'\"`]+)+/")


@record
class Signature:
    """A crash in short: equal hashes have equal summaries."""

    hash: str
    """16 hexadecimal digits (FNV-1a, 64 bits) of what the summary stands for."""
    summary: str
    """``"SIGSEGV in store_at (libext) <- train.step"``."""
    calls: tuple[str, ...] = ()
    """The calls that it is made of, innermost first: ``"native libext store_at"``."""


@record
class _Call:
    key: str
    words: str
    kind: str
    """``"run time"``, ``"native"`` or ``"python"``."""
    own: bool = False
    """Python code that is neither the standard library's nor a package's."""


def crash_signature(
    thread: Thread | None,
    signal: Signal | None,
    *,
    pid: int,
    executable: str | None,
    overflow: bool = False,
    abort_message: AbortMessage | None = None,
    exception: CppException | None = None,
) -> Signature | None:
    """Return the signature of a crash; None where no frame of the thread could be read.

    `thread` is the crashed one as it stood at the failure, in a snapshot the main one; `overflow`
    says that its stack was used up, by whichever of its calls came last.
    """
    frames = physical(thread.frames) if thread is not None else []
    calls = _recursive(frames, executable) if overflow else []
    endless = bool(calls)
    calls = calls or _calls(frames, executable, faulted=_is_fault(signal, pid))
    if thread is None or not calls:
        return None
    said = _said(thread, abort_message, exception)
    who = _signal_words(signal, pid)
    lines = [f"postmortem crash {VERSION}", who, said or "", "endless" if endless else ""]
    keys = tuple(f"{call.kind} {call.key}" for call in calls)
    text = "\n".join([*lines, *keys])
    head = f"{who} ({said})" if said else who
    if endless:
        place = "endless recursion of " + ", ".join(dict.fromkeys(c.words for c in calls[:3]))
    else:
        place = " <- ".join(_told(calls))
    return Signature(f"{_fnv1a(text):016x}", f"{head} in {place}", keys)


def _is_fault(signal: Signal | None, pid: int) -> bool:
    return signal is not None and signal.name in FAULT_SIGNALS and not _is_sent(signal, pid)


def _is_sent(signal: Signal, pid: int) -> bool:
    return signal.sender_pid is not None and signal.sender_pid != pid


def _signal_words(signal: Signal | None, pid: int) -> str:
    if signal is None:
        return "snapshot"
    return f"{signal.name} from another process" if _is_sent(signal, pid) else signal.name


def _said(
    thread: Thread, message: AbortMessage | None, exception: CppException | None
) -> str | None:
    if message is not None and message.text.strip():
        text = message.text.strip().splitlines()[0][:4096]
        return _VARIES.sub("#", _PATH.sub("", text))[:_LONGEST_MESSAGE]
    if exception is not None and exception.tid == thread.tid:
        return exception.type[:_LONGEST_MESSAGE]
    return None


def _calls(frames: Sequence[Frame], executable: str | None, *, faulted: bool) -> list[_Call]:
    """Return the calls that make the signature, innermost first."""
    found: list[_Call] = []
    leading: _Call | None = None
    boilerplate: Frame | None = None
    native = python = 0
    for frame in frames[:_MOST_FRAMES]:
        if frame.trust is Trust.SCAN:
            continue
        if kind_of(frame, executable).noise:
            if frame.kind == "native" and _run_time(frame, executable) is None:
                boilerplate = boilerplate or frame
            continue
        library = _run_time(frame, executable)
        if library == _OPENMP and found:
            break  # the team's threads stand in the same loop, and only one has the caller below
        if library is not None:
            if not found:
                leading = _more_telling(leading, frame, library)
            continue
        call = _call(frame)
        if python and frame.function == "<module>":
            continue  # a thread that runs the same functions has none
        if call.kind == "native" and (python or native >= _MOST_NATIVE):
            continue
        if call.kind == "python" and python >= _MOST_PYTHON:
            if not any(c.own for c in found) and call.own:
                found.append(call)
                break
            continue
        native += call.kind == "native"
        python += call.kind == "python"
        found.append(call)
    if not found and boilerplate is not None:
        # a lambda that was inlined into std::thread's start-up: only the place tells which
        call = _call(boilerplate)
        found.append(replace(call, key=f"{call.key} {boilerplate.module_offset or 0:#x}"))
    # abort() and its way to the kernel say what the signal says
    return [leading, *found] if leading is not None and (faulted or not found) else found


def _more_telling(leading: _Call | None, frame: Frame, library: str) -> _Call:
    """Return the call for the innermost runtime library, with CPython's function for an API."""
    words = _IN_WORDS.get(library, library)
    if leading is None:
        leading = _Call(library, words, "run time")
    if leading.key == library == CPYTHON and "/lib-dynload/" not in (frame.module or ""):
        name = function_name(frame.function)
        if _API.fullmatch(name):
            return _Call(f"{CPYTHON} {name}", f"{name} ({CPYTHON})", "run time")
    return leading


def _run_time(frame: Frame, executable: str | None) -> str | None:
    """Return the runtime library that a frame is in, None for a frame that tells by its name."""
    if frame.kind == "python":
        return None
    name = area(frame, executable)
    if name in _RUN_TIME:
        return name
    return "libffi" if (module_name(frame.module) or "").startswith("libffi") else None


def _call(frame: Frame) -> _Call:
    if frame.kind == "python":
        name = python_name(frame.file, frame.function)
        own = bool(frame.file) and not LIBRARY_FILE(frame.file or "")
        return _Call(name, _short(name), "python", own)
    module = module_name(frame.module)
    if frame.function != "??":
        name = function_name(frame.function)
        return _Call(
            f"{module} {name}", f"{_short(name)} ({module})" if module else _short(name), "native"
        )
    if module is None:
        return _Call("no module", "an address outside of all files", "native")
    if frame.module_offset is None:
        return _Call(f"{module} ??", f"nameless code ({module})", "native")
    place = f"{module}+{frame.module_offset:#x}"
    return _Call(place, place, "native")


def _told(calls: Sequence[_Call]) -> Iterator[str]:
    """Yield the calls that say most: the innermost ones, and the user's own Python function."""
    if calls[0].kind == "run time":
        yield calls[0].words
    native = next((c for c in calls if c.kind == "native"), None)
    if native is not None:
        yield native.words
    python = [c for c in calls if c.kind == "python"]
    if python:
        yield next((c for c in python if c.own), python[0]).words


def _recursive(frames: Sequence[Frame], executable: str | None) -> list[_Call]:
    """Return the functions of a recursion that fills the stack, by name: it ends anywhere in it."""
    found = recursion(tuple(frames))
    if found is None:
        return []
    wanted = set(found.functions)
    calls: dict[str, _Call] = {}
    for frame in frames[:_MOST_FRAMES]:
        if frame.function not in wanted or kind_of(frame, executable).noise:
            continue
        if _run_time(frame, executable) is None:
            call = _call(frame)
            calls.setdefault(call.key, call)
    return [calls[key] for key in sorted(calls)]


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"…{name[-_LONGEST_NAME + 1 :]}"


def _fnv1a(text: str) -> int:
    """Return the 64-bit FNV-1a hash (draft-eastlake-fnv); hashlib costs 7 ms to import."""
    value = 0xCBF29CE484222325
    for byte in text.encode("utf-8", "backslashreplace"):
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value
