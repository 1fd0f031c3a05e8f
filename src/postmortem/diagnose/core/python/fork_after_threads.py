"""A forked child used what only the parent's threads could have kept working.

What it means
    fork copies one thread only. Locks that other threads held stay locked for ever, thread
    pools (OpenMP, MKL, gRPC) exist on paper only, and a CUDA context cannot be used. A child
    that touches any of these before exec may crash or hang.
How to be sure
    Functions of fork stand on the crashed stack; or the process is a forked multiprocessing
    child with a single thread that died inside a library with a thread pool.
What to do
    Start children with spawn or forkserver, or fork before the first thread and the first use
    of CUDA.
"""

from postmortem.diagnose.core.citing import cite_frame, cite_python
from postmortem.diagnose.core.crash import Crash
from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.owners import Owner, file_name, owner
from postmortem.diagnose.core.stacks import plain
from postmortem.diagnose.names import short
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, Role, rule
from postmortem.facts.threads import Thread, Threads
from postmortem.patterns import Pattern

_IN_FORK = Pattern(
    r"^(run_(pre|post)?fork_handlers|fork|_?Fork|reclaim_stacks|PyOS_AfterFork_Child|os_fork\w*|"
    r"run_at_forkers|fork_exec|subprocess_fork_exec)$"
)
_FORKED_CHILD = Pattern(r"multiprocessing/popen_fork\.py$")
_BARRIER = Pattern(
    r"^(gomp_(team_)?barrier_wait\w*|gomp_team_start|__kmp_(fork|join)_barrier\w*|"
    r"__kmp_hyper_barrier_\w+|__kmp_wait_\w+)"
)
_WAITED = (
    FaultKind.KILLED_BY_PROCESS,
    FaultKind.KILLED_BY_KERNEL,
    FaultKind.TERMINAL_QUIT,
    FaultKind.SENT_BY_ITSELF,
    FaultKind.SNAPSHOT,
)
_STEPS = (
    'multiprocessing.set_start_method("spawn"), or multiprocessing_context="spawn" for a '
    "DataLoader",
    "if it must fork: do it before the first thread, the first tensor operation and the first "
    "use of CUDA; OMP_NUM_THREADS=1 as a test",
)
_POOLS = (Owner.OPENMP, Owner.MATH, Owner.CUDA, Owner.CUDA_DRIVER, Owner.NCCL)
_POOL_NAMES = Pattern(r"TaskThreadPool|c10::ThreadPool|thread_?pool|grpc_|omp_|GOMP_|__kmp")


@rule(
    "https://man7.org/linux/man-pages/man2/fork.2.html",
    "https://docs.python.org/3/library/multiprocessing.html#contexts-and-start-methods",
    "https://github.com/pytorch/pytorch/issues/75147",
    role=Role.CONTRIBUTING,
)
def fork_after_threads(crash: Crash) -> Findings:
    crashed = crash.crashed
    if crash.kind in _WAITED:
        yield from _waits_for_nobody(crash.threads)
    if not (crash.kind.is_fault or crash.kind in (FaultKind.ABORT, FaultKind.RERAISED)):
        return
    in_fork = next(
        (i for i, frame in enumerate(crashed.frames) if _IN_FORK.match(plain(frame.function))), None
    )
    # fork() itself must still be running: Python's child code returns from it, so a frame of it
    # on the stack means its handlers, or the moments right after.
    pool = _in_pool(crashed) if len(crash.threads) == 1 and _is_forked_child(crashed) else None
    if in_fork is None and pool is None:
        return
    index = in_fork if in_fork is not None else pool
    assert index is not None
    frame = crashed.frames[index]
    name = short(frame.function) if frame.function != "??" else file_name(frame.module)
    if in_fork is not None:
        title = f"the process died in the middle of a fork ({name})"
        cause = (
            "a fork handler, or code right after fork, met state that belonged to threads of the "
            "parent"
        )
    else:
        title = f"a forked child with one thread died inside a thread pool ({name})"
        cause = (
            "the child was forked and has none of the parent's threads, but used a library that "
            "relies on them"
        )
    yield Finding(
        title=title,
        cause=cause,
        confidence=Confidence.LIKELY if in_fork is not None else Confidence.POSSIBLE,
        next_steps=_STEPS,
        evidence=(cite_frame(crashed, index), *cite_python(crashed)),
    )


def in_team(thread: Thread) -> int | None:
    """Return the frame in which a thread waits for the others of an OpenMP team."""
    names = [plain(frame.function) for frame in thread.frames[:6]]
    return next((i for i, name in enumerate(names) if _BARRIER.match(name)), None)


def _waits_for_nobody(threads: Threads) -> Findings:
    """Yield what it means that the only thread stands in the barrier of a team."""
    if len(threads) != 1:
        return
    only = threads.items[0]
    index = in_team(only)
    if index is None:
        return
    yield Finding(
        title="the only thread waits for ever for OpenMP threads that a fork did not copy",
        cause="the process has one thread, and that one waits in a barrier for the others of its "
        "OpenMP team. Threads of a team do not end by themselves: the process was forked after "
        "they had started, and a fork copies only the thread that calls it",
        confidence=Confidence.LIKELY,
        next_steps=_STEPS,
        evidence=(
            Evidence("threads of the process", "1"),
            cite_frame(only, index),
            *cite_python(only),
        ),
        role=Role.ROOT,
    )


def _is_forked_child(thread: Thread) -> bool:
    return any(
        frame.kind == "python" and _FORKED_CHILD.search(frame.file or "") is not None
        for frame in thread.frames
    )


def _in_pool(thread: Thread) -> int | None:
    for index, frame in enumerate(thread.frames[:12]):
        if owner(frame) in _POOLS or _POOL_NAMES.search(frame.function):
            return index
    return None
