"""Code that a compiler made while the program ran: it lies in no file and has no names."""

from postmortem.diagnose.core.owners import package
from postmortem.facts.threads import Frame, Thread, Threads
from postmortem.records import record

NUMBA = "numba"
_PACKAGES = {
    "numba": NUMBA,
    "llvmlite": NUMBA,
    "jaxlib": "XLA (JAX)",
    "tensorflow": "XLA (TensorFlow)",
    "torch_xla": "XLA (torch_xla)",
    "numexpr": "numexpr",
    "taichi": "Taichi",
    "tvm": "TVM",
}
_NEAR = 12
"""Frames outwards of the nameless one that are looked at: the compiler's own way of calling it."""


@record
class Compiled:
    """Whose code a nameless frame is."""

    compiler: str
    thread: Thread
    index: int
    """The frame that tells, in `thread`."""


def is_nameless(frame: Frame) -> bool:
    """Return whether a frame's code lies in no file that the process mapped."""
    return frame.kind == "native" and frame.function == "??" and not frame.module


def compiled_by(thread: Thread, start: int = 0) -> Compiled | None:
    """Return who compiled the nameless code at `start`, as far as its callers tell."""
    if start >= len(thread.frames) or not is_nameless(thread.frames[start]):
        return None
    return _told(thread, start + 1, start + 1 + _NEAR)


def compiled_for_worker(threads: Threads, start: int = 0) -> Compiled | None:
    """Return who compiled what a worker of a thread pool runs: the thread that waits for it tells.

    A worker's stack ends in the pool (OpenMP, TBB), and the compiler's frames are on the stack of
    the thread that gave it the work.
    """
    crashed = threads.crashed
    if crashed is None or start >= len(crashed.frames) or not is_nameless(crashed.frames[start]):
        return None
    others = (thread for thread in threads.items if thread.tid != crashed.tid)
    return next((told for thread in others if (told := _told(thread, 0, _NEAR))), None)


def _told(thread: Thread, begin: int, end: int) -> Compiled | None:
    for index, frame in enumerate(thread.frames[begin:end], begin):
        path = frame.module if frame.kind == "native" else frame.file
        bundled = ".libs/" in (path or "")  # OpenMP, say, which runs other libraries' work too
        name = None if bundled else _PACKAGES.get(package(path or "") or "")
        if name is not None:
            return Compiled(name, thread, index)
        if frame.kind == "python":
            return None  # a Python function called it: what lies further out has not
    return None
