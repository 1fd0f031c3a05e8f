"""A known bug of a library: where it is, what must be seen, and what helps."""

from postmortem.records import record


@record
class KnownBug:
    """One record of ``knowledge/bugs``.

    Each of `messages`, `text`, `frames`, `modules`, `signals` and `variables` that is not empty
    must hold; at least one is not empty.
    """

    id: str
    family: str
    """The file that it stands in: ``"nccl"``."""
    library: str
    title: str
    cause: str
    affected: tuple[str, ...]
    """Ranges, one of which holds the version: ``">=2.13, <2.16.5"``."""
    reference: str
    """URL of the tracker or of the release notes."""
    fixed_in: str
    """In words: ``"2.16.5"``, ``"not known"``."""
    work_around: tuple[str, ...]
    confidence: str
    """The most that can be said of it: ``"certain"``, ``"likely"`` or ``"possible"``."""
    role: str = "contributing"
    machine: str = "any"
    """``"x86_64"``, ``"aarch64"`` or ``"any"``."""
    telling: bool = False
    """What must be seen is so rare that the bug is named though the version is not known."""
    messages: tuple[str, ...] = ()
    """Ids of known lines, one of which was written."""
    text: tuple[str, ...] = ()
    """Words, one of which was written."""
    frames: tuple[str, ...] = ()
    """Functions that stand in one stack, all of them; ``"file.py function"`` for Python."""
    modules: tuple[str, ...] = ()
    """Beginnings of file names; code of one of them stands in that stack."""
    signals: tuple[str, ...] = ()
    """One of them ended the process, and the stack is that of the thread that got it."""
    variables: tuple[str, ...] = ()
    """``"CUDA_LAUNCH_BLOCKING=1"``, all of them; without a value any but an empty one or 0."""
