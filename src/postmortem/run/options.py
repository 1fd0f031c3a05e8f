"""What the user asked of ``postmortem run``."""

from pathlib import Path

from postmortem.records import record


@record
class RunOptions:
    """One call of ``postmortem run``."""

    command: tuple[str, ...]
    sync: bool = False
    """Run again after a failure, each kernel of CUDA waited for."""
    cpu: bool = False
    """Run again after a failure, with the GPUs hidden."""
    strace: str | None = None
    """What the recording of system calls must answer; "" for a first summary."""
    memory: int | None = None
    """Bytes that the command and all that it starts may use."""
    numerics: bool = False
    """The numerics monitor watches the first model that trains in each Python process."""
    repeat: int = 1
    timeout: float | None = None
    fresh: Path | None = None
    """A folder that is emptied before each run."""
    into: Path | None = None
    """Where the folder with the evidence is made; None: here."""
    pack: bool = False
    keep_output: bool = False
    """Keep a copy of what is written to terminals and pipes."""
    redact: bool = True
