"""Every row of what explains what: a pair that it joins, and a look-alike that it leaves alone."""

from typing import Any

import pytest

from postmortem.diagnose.incident.events import EFFECTS, Event, EventType
from postmortem.diagnose.incident.explains import TABLE
from postmortem.diagnose.incident.graph import solve
from postmortem.readers.signatures import Signatures
from postmortem.report.model import Confidence

T = EventType
_CUT = "RuntimeError: [enforce fail at inline."
_ILLEGAL = "an illegal memory access was encountered"


def event(kind: EventType, source: str = "logs", **fields: Any) -> Event:
    what = fields.pop("what", str(kind))
    (found,) = Signatures.load("process text").matches([f"{what} {fields.get('cause', '')}"])
    return Event(kind, what, source, matches=found, **fields)


JOINED: list[tuple[str, Event, Event, Confidence]] = [
    (
        "memory-kill",
        event(T.KILLED_FOR_MEMORY, pid=7, signal="SIGKILL"),
        event(T.KILLED, pid=7, ranks=(3,), signal="SIGKILL"),
        Confidence.CERTAIN,
    ),
    (
        "crash-ends-process",
        event(T.CRASHED, "core", pid=7, ranks=(2,), signal="SIGSEGV"),
        event(T.CRASHED, pid=7, ranks=(2,), signal="SIGSEGV"),
        Confidence.CERTAIN,
    ),
    (
        "watchdog-ends-process",
        event(T.WATCHDOG, "core", pid=7, ranks=(2,), signal="SIGABRT"),
        event(T.CRASHED, pid=7, ranks=(2,), signal="SIGABRT"),
        Confidence.CERTAIN,
    ),
    # a log without pids: the recorded process wrote what stands there
    (
        "call-refused",
        event(T.STORAGE, "strace", pid=7, errnos=("ENOSPC",), wrote=(f"{_CUT}…\n", "\n")),
        event(T.RAISED, what=f"{_CUT}cc:672] . unexpected pos 192 vs 84"),
        Confidence.LIKELY,
    ),
    (
        "call-refused",
        event(T.STORAGE, "strace", pid=7, errnos=("EDQUOT",)),
        event(T.RAISED, what="RuntimeError: basic_ios::clear: iostream error", ranks=(0,)),
        Confidence.LIKELY,
    ),
    # whatever it says, it was raised by what reads a checkpoint
    (
        "file-damaged",
        event(T.DAMAGED, "scan", path="/ckpt/step-9.pt"),
        event(T.RAISED, what="OSError: [Errno 22] Invalid argument", loads=True),
        Confidence.LIKELY,
    ),
    (
        "file-damaged",
        event(T.DAMAGED, "scan", path="/ckpt/step-9.pt", confidence=Confidence.POSSIBLE),
        event(T.RAISED, what="EOFError: Ran out of input in 'ckpt/step-9.pt'"),
        Confidence.LIKELY,
    ),
    (
        "no-room",
        event(T.FULL, "doctor", path="/ckpt", errnos=("ENOSPC",)),
        event(T.RAISED, what="RuntimeError: basic_ios::clear: iostream error", ranks=(0,)),
        Confidence.LIKELY,
    ),
    (
        "call-refused",
        event(T.STORAGE, "logs", ranks=(0, 1), host="n1"),
        event(T.RAISED, what="OSError: [Errno 5] Input/output error", ranks=(0,), errnos=("EIO",)),
        Confidence.LIKELY,
    ),
    (
        "no-room",
        event(T.FULL, "doctor", path="/dev/shm", errnos=("ENOSPC",)),
        event(T.CRASHED, "core", signal="SIGBUS", pid=7),
        Confidence.LIKELY,
    ),
    (
        "crash-ends-process",
        event(T.CRASHED, ranks=(2,), pid=7, order=2),
        event(T.FAILED, ranks=(2,)),
        Confidence.LIKELY,
    ),
    (
        "call-refused",
        event(T.STORAGE, "strace", pid=7, errnos=("ENOSPC",)),
        event(T.EXITED, "strace", pid=7),
        Confidence.CERTAIN,
    ),
    (
        "child-lost",
        event(T.CRASHED, "core", pid=71, role="DataLoader worker", ranks=(2,)),
        event(T.RAISED, pid=7, ranks=(2,), children=(70, 71)),
        Confidence.CERTAIN,
    ),
    # the error names the signal that the child of the rank died of
    (
        "child-lost",
        event(T.CRASHED, "core", pid=71, role="child java", ranks=(2,), signal="SIGABRT"),
        event(T.RAISED, pid=7, ranks=(2,), what="'java' died with <Signals.SIGABRT: 6>."),
        Confidence.LIKELY,
    ),
    # one rank's process, whose host two programs call otherwise
    (
        "held-up",
        event(T.STUCK, "hang", pid=7, ranks=(2,), host="a"),
        event(T.NOT_IN_COLLECTIVE, pid=7, ranks=(2,), host="b"),
        Confidence.CERTAIN,
    ),
    # the rank lost the other end of what it read from
    (
        "child-lost",
        event(T.CRASHED, "core", pid=71, role="DataLoader worker", ranks=(2,), signal="SIGSEGV"),
        event(T.RAISED, pid=7, ranks=(2,), errnos=("ECONNRESET",)),
        Confidence.LIKELY,
    ),
    (
        "memory-kill",
        event(T.KILLED_FOR_MEMORY, pid=71, role="child", ranks=(2,), belongs=True),
        event(T.RAISED, pid=7, ranks=(2,), what="ValueError: no rows"),
        Confidence.LIKELY,
    ),
    (
        "call-refused",
        event(T.STORAGE, "strace", pid=7, errnos=("ENOSPC",), path="/s/ckpt.pt"),
        event(T.RAISED, pid=7, ranks=(1,), errnos=("ENOSPC",)),
        Confidence.CERTAIN,
    ),
    (
        "call-refused",
        event(T.REFUSED, "strace", pid=7, errnos=("ENOENT",), path="/a/b/vocab.json"),
        event(
            T.RAISED,
            ranks=(1,),
            errnos=("ENOENT",),
            what="FileNotFoundError: [Errno 2] No such file or directory: 'b/vocab.json'",
        ),
        Confidence.LIKELY,
    ),
    (
        "numbers",
        event(T.NON_FINITE, "scan", names=("layer.2.weight",)),
        event(T.NON_FINITE, ranks=(0,), names=("layer.2",)),
        Confidence.LIKELY,
    ),
    (
        "gpu-lost",
        event(T.DEVICE_LOST, ranks=(5,), host="node3"),
        event(T.RAISED, ranks=(5,)),
        Confidence.LIKELY,
    ),
    (
        "hardware",
        event(T.HARDWARE, "doctor", host="node3", breaks="disk"),
        event(T.RAISED, ranks=(5,), host="node3.cluster", errnos=("EIO",)),
        Confidence.LIKELY,
    ),
    (
        "kernel-failed",
        event(T.KERNEL_FAILED, "gpu_core", pid=7, says=_ILLEGAL),
        event(T.RAISED, pid=7, ranks=(1,), what=f"RuntimeError: CUDA error: {_ILLEGAL}"),
        Confidence.CERTAIN,
    ),
    (
        "kernel-failed",
        event(T.KERNEL_FAILED, "gpu_core", says=_ILLEGAL),
        event(T.RAISED, pid=7, ranks=(1,), what=f"RuntimeError: CUDA error: {_ILLEGAL}"),
        Confidence.LIKELY,
    ),
    (
        "gpu-memory",
        event(T.GPU_MEMORY, "gpu_memory", ranks=(1,)),
        event(T.RAISED, ranks=(1,), what="torch.OutOfMemoryError: CUDA out of memory."),
        Confidence.LIKELY,
    ),
    (
        "gpu-memory",  # of PyTorch before 1.13
        event(T.GPU_MEMORY, "gpu_memory", ranks=(1,)),
        event(T.RAISED, ranks=(1,), what="RuntimeError: CUDA out of memory. Tried to"),
        Confidence.LIKELY,
    ),
    (
        "host-failed",
        event(T.HOST_FAILED, host="node3", ranks=(4, 5)),
        event(T.NOT_IN_COLLECTIVE, ranks=(5,), host="node3"),
        Confidence.LIKELY,
    ),
    (
        "error-ends-process",
        event(T.RAISED, pid=7, ranks=(1,)),
        event(T.EXITED, "strace", pid=7),
        Confidence.CERTAIN,
    ),
    (
        "exit-recorded",
        event(T.EXITED, pid=7, ranks=(2,)),
        event(T.EXITED, "strace", pid=7, confidence=Confidence.POSSIBLE),
        Confidence.CERTAIN,
    ),
    (
        "lost-peer-exits",
        event(T.LOST_PEER, ranks=(0, 1, 3), order=1),
        event(T.EXITED, "strace", pid=8, ranks=(3,)),
        Confidence.LIKELY,
    ),
    (
        "thread-missed",
        event(T.THREAD_DIED, pid=7, ranks=(1,)),
        event(T.STUCK, "hang", pid=7, ranks=(1,)),
        Confidence.CERTAIN,
    ),
    (
        "held-up",
        event(T.STUCK, "hang", pid=7, ranks=(1,)),
        event(T.NOT_IN_COLLECTIVE, ranks=(1,)),
        Confidence.LIKELY,
    ),
    (
        "end-is-missed",
        event(T.CRASHED, "core", pid=7, ranks=(1,), signal="SIGSEGV"),
        event(T.NOT_IN_COLLECTIVE, ranks=(1,), pid=7),
        Confidence.CERTAIN,
    ),
    (
        "peer-missed",
        event(T.RAISED, ranks=(1,), belongs=True),
        event(T.LOST_PEER, ranks=(0, 2), order=1),
        Confidence.CERTAIN,
    ),
]

APART: list[tuple[str, Event, Event]] = [
    # what failed read none
    (
        "file-damaged",
        event(T.DAMAGED, "scan", path="/ckpt/step-9.pt"),
        event(T.RAISED, what="OSError: [Errno 22] Invalid argument: 'step-8.pt'"),
    ),
    # the kernel of another host
    (
        "call-refused",
        event(T.STORAGE, "logs", ranks=(2, 3), host="n2"),
        event(T.RAISED, what="OSError: [Errno 5] Input/output error", ranks=(0,), errnos=("EIO",)),
    ),
    # what has no room is not where the error was
    (
        "no-room",
        event(T.FULL, "doctor", path="/ckpt", errnos=("ENOSPC",)),
        event(T.STORAGE, what="no space left in /ckpts", path="/ckpts/a", errnos=("ENOSPC",)),
    ),
    (
        "no-room",
        event(T.FULL, "doctor", path="/tmp", errnos=("ENOSPC",)),
        event(T.CRASHED, "core", signal="SIGBUS", pid=7),
    ),
    # a call of another process in the same recording
    (
        "call-refused",
        event(T.STORAGE, "strace", pid=8, errnos=("ENOSPC",)),
        event(T.EXITED, "strace", pid=7),
    ),
    # another checkpoint that is not whole, and no call that failed for room
    (
        "call-refused",
        event(T.REFUSED, "strace", pid=7, errnos=("EACCES",)),
        event(T.RAISED, what="RuntimeError: basic_ios::clear: iostream error", ranks=(0,)),
    ),
    # two ranks of which the logs tell
    (
        "crash-ends-process",
        event(T.CRASHED, ranks=(1,), pid=7, order=2),
        event(T.FAILED, ranks=(2,)),
    ),
    # the disk got worse, and the error is of a label
    (
        "hardware",
        event(T.HARDWARE, "doctor", host="node3", breaks="disk"),
        event(T.RAISED, ranks=(5,), host="node3", what="ValueError: bad label"),
    ),
    # another process was killed for memory
    (
        "kernel-failed",
        event(T.KERNEL_FAILED, "gpu_core", pid=7, says=_ILLEGAL),
        event(T.RAISED, pid=8, what=f"RuntimeError: CUDA error: {_ILLEGAL}"),
    ),
    (
        "kernel-failed",
        event(T.KERNEL_FAILED, "gpu_core", pid=7, says=_ILLEGAL),
        event(T.RAISED, pid=7, what="torch.OutOfMemoryError: CUDA out of memory"),
    ),
    (
        "gpu-memory",
        event(T.GPU_MEMORY, "gpu_memory", ranks=(1,)),
        event(T.RAISED, ranks=(2,), what="torch.OutOfMemoryError: CUDA out of memory."),
    ),
    (
        "gpu-memory",
        event(T.GPU_MEMORY, "gpu_memory", ranks=(1,)),
        event(T.RAISED, ranks=(1,), what="KeyError: 7"),
    ),
    (
        "memory-kill",
        event(T.KILLED_FOR_MEMORY, pid=8, signal="SIGKILL"),
        event(T.KILLED, pid=7, ranks=(3,), signal="SIGKILL"),
    ),
    # the same rank, another signal: an old core
    (
        "crash-ends-process",
        event(T.CRASHED, "core", ranks=(2,), signal="SIGSEGV"),
        event(T.CRASHED, ranks=(2,), signal="SIGABRT"),
    ),
    # another rank's
    (
        "watchdog-ends-process",
        event(T.WATCHDOG, "core", pid=7, ranks=(1,), signal="SIGABRT"),
        event(T.EXITED, pid=8),
    ),
    # another rank that wrote the same
    (
        "call-refused",
        event(T.STORAGE, "strace", pid=7, ranks=(0,), wrote=(f"{_CUT}…\n",)),
        event(T.RAISED, what=f"{_CUT}cc:672] . unexpected pos 192 vs 84", ranks=(1,)),
    ),
    # what any process may have written
    (
        "call-refused",
        event(T.STORAGE, "strace", pid=7, errnos=("ENOSPC",), wrote=("RuntimeError: …",)),
        event(T.RAISED, what="RuntimeError: no rows"),
    ),
    # a worker of the rank, and not the one that it lost
    (
        "child-lost",
        event(T.CRASHED, "core", pid=99, role="DataLoader worker", ranks=(2,)),
        event(T.RAISED, pid=7, ranks=(2,), children=(70, 71)),
    ),
    # the kernel killed a child of another rank
    (
        "memory-kill",
        event(T.KILLED_FOR_MEMORY, pid=71, role="child", ranks=(1,), belongs=True),
        event(T.RAISED, pid=7, ranks=(2,), what="ValueError: no rows"),
    ),
    # a full disk of another process
    (
        "call-refused",
        event(T.STORAGE, "strace", pid=8, errnos=("ENOSPC",), path="/s/ckpt.pt"),
        event(T.RAISED, pid=7, ranks=(1,), errnos=("ENOSPC",)),
    ),
    # another program's missing file: one error names no file, the other another one
    (
        "call-refused",
        event(T.REFUSED, "strace", pid=8, errnos=("ENOENT",), path="/data/labels"),
        event(T.RAISED, ranks=(0,), what="KeyError: 'labels'"),
    ),
    (
        "call-refused",
        event(T.REFUSED, "strace", pid=8, errnos=("ENOENT",), path="/data/a/vocab.json"),
        event(
            T.RAISED,
            ranks=(0,),
            errnos=("ENOENT",),
            what="FileNotFoundError: [Errno 2] No such file or directory: '/b/vocab.json'",
        ),
    ),
    # bad tensors that no bad module made
    (
        "numbers",
        event(T.NON_FINITE, "scan", names=("head.weight",)),
        event(T.NON_FINITE, ranks=(0,), names=("layer.2",)),
    ),
    # a GPU of another rank
    ("gpu-lost", event(T.DEVICE_LOST, ranks=(4,), host="node3"), event(T.RAISED, ranks=(5,))),
    # another host
    (
        "host-failed",
        event(T.HOST_FAILED, host="node4"),
        event(T.NOT_IN_COLLECTIVE, ranks=(5,), host="node3"),
    ),
    # another process, which surely failed by itself
    ("error-ends-process", event(T.RAISED, pid=7, ranks=(1,)), event(T.EXITED, "strace", pid=8)),
    # numbers of two hosts
    (
        "exit-recorded",
        event(T.EXITED, pid=7, ranks=(2,), host="a"),
        event(T.EXITED, "strace", pid=7, host="b"),
    ),
    # a child of the rank, which may have ended by itself
    (
        "lost-peer-exits",
        event(T.LOST_PEER, ranks=(1,), order=1),
        event(T.EXITED, "strace", pid=8, ranks=(1,), role="child"),
    ),
    # a connection of another rank's
    (
        "child-lost",
        event(T.CRASHED, "core", pid=71, role="DataLoader worker", ranks=(1,), signal="SIGSEGV"),
        event(T.RAISED, pid=7, ranks=(2,), errnos=("ECONNRESET",)),
    ),
    # a thread of another rank than the one that hangs
    (
        "thread-missed",
        event(T.THREAD_DIED, pid=7, ranks=(1,)),
        event(T.STUCK, "hang", pid=8, ranks=(2,)),
    ),
    # the rank that hangs is not the one that is missed
    ("held-up", event(T.STUCK, "hang", pid=7, ranks=(1,)), event(T.NOT_IN_COLLECTIVE, ranks=(2,))),
    # another process of the same host
    (
        "end-is-missed",
        event(T.CRASHED, "core", pid=8, signal="SIGSEGV"),
        event(T.NOT_IN_COLLECTIVE, ranks=(1,), pid=7),
    ),
    # a rank does not lose itself
    ("peer-missed", event(T.RAISED, ranks=(1,)), event(T.LOST_PEER, ranks=(1,), order=1)),
    # the kernel's line is on a process that nobody knows
    ("peer-missed", event(T.CRASHED, order=2), event(T.LOST_PEER, ranks=(0, 2), order=1)),
]


@pytest.mark.parametrize(("row", "cause", "effect", "sure"), JOINED, ids=[r[0] for r in JOINED])
def test_a_row_joins_its_pair(row: str, cause: Event, effect: Event, sure: Confidence) -> None:
    incident = solve([effect, cause], TABLE)
    assert [(one.row, one.cause, one.effect, one.confidence) for one in incident.links] == [
        (row, 1, 0, sure)
    ]
    assert incident.roots == (() if cause.type in EFFECTS else (1,))


@pytest.mark.parametrize(("row", "cause", "effect"), APART, ids=[r[0] for r in APART])
def test_a_row_leaves_its_look_alike_alone(row: str, cause: Event, effect: Event) -> None:
    assert solve([cause, effect], TABLE).links == ()


def test_every_row_has_a_pair_and_a_look_alike() -> None:
    names = [row.id for row in TABLE]
    assert len(set(names)) == len(names)
    assert {row[0] for row in JOINED} == {row[0] for row in APART} == set(names)


def test_pairs_are_of_the_types_of_their_row() -> None:
    table = {row.id: row for row in TABLE}
    for name, cause, effect, *_ in (*JOINED, *APART):
        assert cause.type in table[name].causes
        assert effect.type in table[name].effects


def test_effects_are_never_roots() -> None:
    lonely = [event(kind, ranks=(0,)) for kind in sorted(EFFECTS)]
    assert solve(lonely, TABLE).roots == ()
