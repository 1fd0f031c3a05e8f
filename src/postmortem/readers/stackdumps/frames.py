"""Frames of dumps, one object for all that are equal: thousands of ranks have few of them."""

from typing import Literal

from postmortem.facts.threads import Frame, Trust

MOST_FRAMES = 4096
"""Of one thread; a recursion without end says no more in its next thousand."""
MOST_THREADS = 65_536
LONGEST_NAME = 4096

_C_SOURCE = (".c", ".cc", ".cpp", ".cxx", ".h", ".hpp", ".cu", ".cuh", ".S", ".rs", ".pyx", ".inl")


class Interned:
    """Makes frames; equal ones are the same object for as long as this lives."""

    def __init__(self) -> None:
        self._frames: dict[tuple[str, str | None, int | None, str | None, str], Frame] = {}

    def frame(
        self,
        function: str,
        *,
        kind: Literal["native", "python"],
        file: str | None = None,
        line: int | None = None,
        module: str | None = None,
        inlined: bool = False,
    ) -> Frame:
        """Return the frame of these words."""
        key = (function, file, line, module, f"{kind}{inlined}")
        found = self._frames.get(key)
        if found is None:
            trust = Trust.PYTHON if kind == "python" else Trust.GDB
            found = self._frames[key] = Frame(
                function=function[:LONGEST_NAME] or "??",
                kind=kind,
                file=file,
                line=line,
                module=module,
                inlined=inlined,
                trust=trust,
            )
        return found


def is_python_file(name: str) -> bool:
    """Return whether a file name is that of Python code, ``<frozen importlib._bootstrap>`` too."""
    return name.endswith((".py", ".pyw", ".ipynb")) or (name.startswith("<") and name.endswith(">"))


def is_source_file(name: str) -> bool:
    """Return whether a file name is that of C, C++, CUDA or Cython source."""
    return name.endswith(_C_SOURCE)
