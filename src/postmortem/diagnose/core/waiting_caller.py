"""The Python thread that a worker without Python frames was working for."""

from postmortem.diagnose.core.owners import Owner, owner
from postmortem.diagnose.names import bare
from postmortem.facts.threads import Frame, Thread, Threads
from postmortem.patterns import Pattern

_OUTERMOST = 10
_TEAMS = (
    # an OpenMP worker's start, and what the thread that opened the parallel region waits in
    (
        Pattern(r"^(gomp_thread_start|__kmp_launch_worker|__kmp_launch_thread|__kmp_invoke_\w+)$"),
        Pattern(
            r"^(GOMP_parallel\w*|gomp_(team_end|(team_)?barrier_wait\w*)|__kmpc_fork_call|"
            r"__kmp_(fork_call|join_(barrier|call))|at::internal::invoke_parallel)\b"
        ),
    ),
    # the autograd engine's thread of a device, and the thread that called backward()
    (
        Pattern(r"^torch::autograd::Engine::thread_init$|PythonEngine::thread_init$"),
        Pattern(r"^torch::autograd::(python::Python)?Engine::execute\w*$"),
    ),
    # gloo's thread that reads and writes, and the thread that called a collective
    (
        Pattern(r"^gloo::transport::tcp::Loop::run$"),
        Pattern(r"^(c10d::Work::wait|gloo::transport::tcp::UnboundBuffer::wait\w*)$"),
    ),
)


def waiting_caller(threads: Threads) -> Thread | None:
    """Return the one thread with Python frames that waits for the crashed worker, or None.

    None where the crashed thread has Python frames itself, or where several threads could be meant.
    """
    crashed = threads.crashed
    if crashed is None or any(frame.kind == "python" for frame in crashed.frames):
        return None
    names = [_name(frame) for frame in crashed.frames[-_OUTERMOST:]]
    for start, wait in _TEAMS:
        if not any(start.match(name) for name in names):
            continue
        waiting = [thread for thread in threads.others() if _waits(thread, wait)]
        return waiting[0] if len(waiting) == 1 else None
    return None


def _name(frame: Frame) -> str:
    """The function's name; OpenMP in wheels is stripped, and on its workers starts the thread."""
    nameless = frame.function == "??" and owner(frame) is Owner.OPENMP
    return "gomp_thread_start" if nameless else bare(frame.function)


def _waits(thread: Thread, wait: Pattern) -> bool:
    """Whether the thread waits in such a function that Python code called."""
    for index, frame in enumerate(thread.frames):
        if frame.kind == "python":
            inner = thread.frames[:index]
            return any(wait.match(bare(native.function)) for native in inner)
    return False
