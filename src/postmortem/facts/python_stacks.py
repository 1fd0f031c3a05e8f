"""What the interpreter says of the threads of a process: its own chain of frames."""

from functools import lru_cache

from postmortem.facts.threads import Frame, Trust
from postmortem.records import record


@record
class PythonFrame:
    """A call of a Python function, as the interpreter's frame chain has it."""

    function: str
    file: str | None = None
    line: int | None = None
    evaluators: int = 0
    """Evaluator calls that end between this frame and its caller; 0: the same one goes on."""
    locals: tuple[tuple[str, str], ...] = ()

    def frame(self) -> Frame:
        """Return it as a frame of the thread; threads at the same line share it."""
        return _frame(self.function, self.file, self.line, self.locals)


@lru_cache(maxsize=1024)
def _frame(
    function: str, file: str | None, line: int | None, local: tuple[tuple[str, str], ...]
) -> Frame:
    return Frame(
        function=function, kind="python", file=file, line=line, trust=Trust.PYTHON, locals=local
    )


@record
class PythonStack:
    """What the interpreter says of one thread."""

    frames: tuple[PythonFrame, ...]
    """Innermost first."""
    idle: int = 0
    """Evaluator calls in front of the first frame that run none."""
    skipped_at: int | None = None
    """Index of the first frame behind a gap in the middle of a very long stack."""
    stopped: str | None = None
    """Why the chain of frames ended early; None when it reached the outermost frame."""
