"""Ranks whose main threads stand in the same place, as classes and as one tree.

Thousands of ranks of one program have few different stacks (STAT, Arnold et al., IPDPS 2007); of a
job that hangs, nearly all stand in one collective, and the few that stand elsewhere are the reason.
"""

from collections.abc import Hashable, Iterable, Sequence

from postmortem.diagnose.stacks.activity import kind_of
from postmortem.diagnose.stacks.frame_identity import place_key, stack_key
from postmortem.diagnose.stacks.names import location, shorten
from postmortem.facts.stackdumps import Doing, RankStack, StackClass, StackClasses
from postmortem.facts.threads import Frame
from postmortem.patterns import Pattern
from postmortem.records import record

_COLLECTIVE_FILE = Pattern(
    r"(?:^|/)torch/distributed/(?:distributed_c10d|rendezvous)\.py$"
    r"|(?:^|/)torch/distributed/_functional_collectives\.py$|(?:^|/)deepspeed/comm/"
    r"|(?:^|/)horovod/.*mpi_ops\.py$"
)
_COLLECTIVE = Pattern(
    r"^c10d::(?:ProcessGroup|Backend|Work|TCPStore|PrefixStore|ops::|Reducer::finalize_backward)"
    r"|^gloo::|^p?nccl[A-Z]\w+$|^P?MPI_(?:All|Bcast|Barrier|Reduce|Gather|Scatter|Wait|Recv|Send)|^hvd_|^horovod::"
)
_DEVICE = Pattern(
    r"^cu(?:da)?(?:Stream|Device|Ctx|Event)Synchronize|^cuda?Memcpy|^hip(?:Stream|Device|Event)Sync"
    r"|^c10::cuda::(?:device_synchronize|CUDAStream::synchronize|memcpy_and_sync)"
)
_DEVICE_FILE = Pattern(r"(?:^|/)torch/(?:cuda|hip|xpu)/(?:__init__|streams)\.py$")
_LOADER_FILE = Pattern(r"(?:^|/)torch/utils/data/dataloader\.py$")
_LOCK = Pattern(
    r"^(?:lock_PyThread_acquire_lock|rlock_acquire|PyThread_acquire_lock|acquire_timed"
    r"|___?pthread_mutex_(?:lock|timedlock)|pthread_mutex_(?:lock|timedlock)|__lll_lock_wait"
    r"|__new_sem_wait|sem_wait|_PyMutex_Lock)"
)
_WAITS = Pattern(
    r"^(?:__(?:GI_+|libc_)?|_)?(?:p?select\d*|p?poll|epoll_p?wait\d*|wait(?:4|id|pid)|recv\w*|accept4?"
    r"|read|pread\d*|readv|connect|(?:clock_)?nanosleep(?:_time64)?|sleep|usleep|pause|flock|fcntl\d*)$"
)
_SHOWN = 6
_IMPORTLIB = "<frozen importlib._bootstrap>"


def doing(frames: Sequence[Frame], *, is_running: bool = False) -> Doing:
    """Return what a stack is about, as far as the other ranks are concerned.

    A thread that runs passes locks and system calls; it does not wait in them.
    """
    if any(map(_is_collective, frames)):
        return Doing.COLLECTIVE
    if any(map(_is_device, frames)):
        return Doing.DEVICE
    if any(f.kind == "python" and f.file == _IMPORTLIB for f in frames):
        return Doing.IMPORT
    if is_running:
        return Doing.OTHER
    inner = frames[: next((i for i, f in enumerate(frames) if f.kind == "python"), len(frames))]
    if any(_LOCK.search(frame.function) for frame in inner):
        return Doing.LOCK
    if any(kind_of(frame, None).wait or _WAITS.search(frame.function) for frame in inner[:4]):
        return Doing.WAIT
    return Doing.OTHER


def waits_for_loader(frames: Iterable[Frame]) -> bool:
    """Return whether a stack is in PyTorch's DataLoader, which waits for what its workers fetch."""
    return any(_LOADER_FILE.search(frame.file or "") for frame in frames)


def classes(stacks: Iterable[RankStack], workers: Iterable[RankStack] = ()) -> StackClasses:
    """Return the classes of ranks; of several stacks of one rank the last counts.

    A rank that dumps of one tool show in different places has moved: it is not stuck.
    """
    last: dict[str, tuple[RankStack, int]] = {}
    seen: dict[tuple[str, str, bool], list[int]] = {}
    numbers: dict[tuple[Doing, Hashable], int] = {}
    known: dict[tuple[object, ...], int] = {}
    for stack in stacks:
        # Equal frames are one object: most stacks of a large job are told apart by that alone.
        same = (stack.is_running, *map(id, stack.thread.frames))
        number = known.get(same)
        if number is None:
            what = doing(stack.thread.frames, is_running=stack.is_running is True)
            key = (what, _key(stack.thread.frames, what))
            number = known[same] = numbers.setdefault(key, len(numbers))
        last[stack.label] = (stack, number)
        # What one tool leaves out another shows: only like is compared with like.
        has_native = any(frame.kind == "native" for frame in stack.thread.frames)
        seen.setdefault((stack.label, stack.tool, has_native), []).append(number)
    members: dict[int, list[RankStack]] = {}
    for stack, number in last.values():
        members.setdefault(number, []).append(stack)
    doings = [what for what, _ in numbers]
    found = [
        StackClass(tuple(sorted(rows, key=_order)), doings[number])
        for number, rows in members.items()
    ]
    found.sort(key=lambda one: (len(one.members), _order(one.members[0])))
    return StackClasses(
        items=tuple(found),
        moved=tuple(
            dict.fromkeys(
                label
                for (label, *_), places in seen.items()
                if len(set(places)) > 1 or last[label][0].goes_on
            )
        ),
        samples=_samples(seen),
        workers=tuple(workers),
    )


def _samples(seen: dict[tuple[str, str, bool], list[int]]) -> int:
    most: dict[str, int] = {}
    for (label, *_), places in seen.items():
        most[label] = max(most.get(label, 0), len(places))
    return min(most.values(), default=0)


@record
class TreeLine:
    """One line of the tree of all stacks, the outermost call first."""

    depth: int
    call: str
    """``train_step (train.py:31)``; several calls that nobody leaves are joined by ``→``."""
    ranks: tuple[int, ...]
    labels: tuple[str, ...]


def tree(found: StackClasses) -> tuple[TreeLine, ...]:
    """Return the calls that classes share as one tree, which branches where they part."""
    paths = [(list(reversed(_visible(one))), one) for one in found]
    lines: list[TreeLine] = []

    def grow(rows: list[tuple[list[Frame], StackClass]], depth: int) -> None:
        while rows:
            key = _call(rows[0][0])
            together = [row for row in rows if _call(row[0]) == key]
            rows = [row for row in rows if _call(row[0]) != key]
            if key is None:
                continue
            calls: list[str] = []
            while key is not None and all(_call(path) == key for path, _ in together):
                calls.append(_call_words(together[0][0][0]))
                together = [(path[1:], one) for path, one in together]
                key = _call(together[0][0])
            members = [member for _, one in together for member in one.members]
            lines.append(
                TreeLine(
                    depth,
                    _chain(calls),
                    tuple(sorted(m.rank for m in members if m.rank is not None)),
                    tuple(m.label for m in members),
                )
            )
            grow(together, depth + 1)

    grow(sorted(paths, key=lambda row: -len(row[1].members)), 0)
    return tuple(lines)


def _key(frames: Sequence[Frame], what: Doing) -> Hashable:
    return stack_key(frames[_collective_at(frames) :] if what is Doing.COLLECTIVE else frames, None)


def _collective_at(frames: Sequence[Frame]) -> int:
    """Return where the collective was called: how far it has come inside is chance."""
    python = [i for i, f in enumerate(frames) if f.kind == "python" and _is_collective(f)]
    if python:
        return python[0]
    return max((i for i, frame in enumerate(frames) if _is_collective(frame)), default=0)


def _visible(one: StackClass) -> Sequence[Frame]:
    frames = one.thread.frames
    if one.doing is Doing.COLLECTIVE:
        frames = frames[_collective_at(frames) :]
    python = [frame for frame in frames if frame.kind == "python"]
    return [frame for frame in python if not kind_of(frame, None).noise] or python or frames


def _call(path: Sequence[Frame]) -> Hashable | None:
    return place_key(path[0]) if path else None


def _chain(calls: Sequence[str]) -> str:
    """Join calls that nobody leaves; of a long row its ends."""
    if len(calls) > _SHOWN:
        left = len(calls) - _SHOWN + 1
        calls = [*calls[:2], f"{left} more", *calls[2 + left :]]
    return " → ".join(calls)


def _call_words(frame: Frame) -> str:
    name = frame.function if frame.kind == "python" else shorten(frame.function)
    where = location(frame.file, frame.line)
    return f"{name} ({where})" if where else name


def _is_collective(frame: Frame) -> bool:
    if frame.kind == "python":
        return frame.file is not None and _COLLECTIVE_FILE.search(frame.file) is not None
    return _COLLECTIVE.search(frame.function) is not None


def _is_device(frame: Frame) -> bool:
    if frame.kind == "python":
        in_file = frame.file is not None and _DEVICE_FILE.search(frame.file) is not None
        return in_file and frame.function in ("synchronize", "wait", "wait_event")
    return _DEVICE.search(frame.function) is not None


def _order(stack: RankStack) -> tuple[int, str]:
    return (stack.rank if stack.rank is not None else 1 << 40, stack.label)
