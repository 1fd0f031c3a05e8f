"""The crash is in a worker of a PyTorch DataLoader.

What it means
    The dataset's own code, or a library that it calls (image and video decoders, tokenisers),
    crashed in a process that only loads data. The trainer itself is well; it ends, or hangs,
    because a worker is gone, and only says "DataLoader worker (pid …) is killed by signal".
How to be sure
    torch/utils/data/_utils/worker.py stands on the main thread's stack.
What to do
    Run once with num_workers=0: the same sample then fails in the main process, in a debugger
    if need be. The Python line of the dataset names the sample's index.
"""

from postmortem.diagnose.core.citing import cite_python
from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, Role, Topic, rule
from postmortem.facts.process import Process
from postmortem.facts.threads import Threads


@rule(
    "https://pytorch.org/docs/stable/data.html#multi-process-data-loading",
    "https://github.com/pytorch/pytorch/issues/8976",
    role=Role.CONTEXT,
    topic=Topic.PROCESS,
)
def dataloader_worker(kind: FaultKind, process: Process, threads: Threads) -> Findings:
    if process.role != "DataLoader worker" or kind in (FaultKind.SNAPSHOT, FaultKind.UNKNOWN):
        return
    main = threads.main
    evidence = [*cite_python(main, threads)] if main is not None else []
    evidence.append(Evidence(where="process", what=f"{process.role}, pid {process.pid}"))
    yield Finding(
        title="this is a DataLoader worker: the trainer only says that a worker was killed",
        cause="the process loads data for a trainer, which cannot know why its worker is gone",
        confidence=Confidence.CERTAIN,
        next_steps=(
            "run once with num_workers=0: the same sample then fails in the main process",
            'the trainer\'s log has "DataLoader worker (pid …) is killed by signal" at this '
            "moment; what comes after it there is a consequence",
        ),
        evidence=tuple(evidence),
    )
