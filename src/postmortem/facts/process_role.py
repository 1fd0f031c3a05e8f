"""What part a Python process had in its program: the trainer itself, or a child that works for it.

A worker's core lies beside its parent's, with the same command line when it was forked; the parent
only prints that a worker died.
"""

from postmortem.facts.process import Process
from postmortem.facts.threads import Threads
from postmortem.patterns import Pattern

# Outermost functions of children, by the end of their files' names.
_FUNCTIONS = (
    ("_worker_loop", "torch/utils/data/_utils/worker.py", "DataLoader worker"),
    ("_process_worker", "concurrent/futures/process.py", "ProcessPoolExecutor worker"),
    ("worker", "multiprocessing/pool.py", "multiprocessing.Pool worker"),
    ("_bootstrap", "multiprocessing/process.py", "multiprocessing child"),
)
_SERVANTS = (
    ("from multiprocessing.resource_tracker import", "resource tracker of multiprocessing"),
    ("from multiprocessing.forkserver import", "fork server of multiprocessing"),
)
AGENT = "torchrun agent"
"""Of a launcher: it serves no program, its ranks do."""
_AGENT = Pattern(r"(^|/)torchrun$|^torch\.distributed\.(run|launch)$|/torch/distributed/run\.py$")


def process_role(process: Process, threads: Threads) -> str | None:
    """Return the part of a child or a launcher: ``"DataLoader worker"``; None for a plain program.

    Python frames tell for sure; without them only the command lines of started children do.
    """
    main = threads.main
    frames = [f for f in main.frames if f.kind == "python"] if main is not None else []
    for frame in frames:  # the innermost tells: what a worker forks keeps the worker's frames
        name = frame.function.rpartition(".")[2]
        for function, file, role in _FUNCTIONS:
            if name == function and f"/{frame.file}".endswith(f"/{file}"):
                return role
    if main is not None and main.name == "pt_data_worker":  # set by PyTorch since 2.3
        return "DataLoader worker"
    words = process.argv[1:8]
    if "--multiprocessing-fork" in words:
        return "multiprocessing child"
    for start, role in _SERVANTS:
        if any(word.startswith(start) for word in words):
            return role
    if process.rank is None and any(_AGENT.search(word) for word in process.argv[:4]):
        return AGENT
    return None
