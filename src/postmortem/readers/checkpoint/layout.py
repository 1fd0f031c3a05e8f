"""What the header of a checkpoint says, and what is wrong with it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from postmortem.errors import EvidenceError
from postmortem.facts.source import Problem
from postmortem.facts.tensors import MOST_NAN_NUMBERS, TensorPlace


class NotScanned(Exception):
    """A tensor that is as it should be, but of a kind that cannot be scanned."""


def sizes(value: object) -> tuple[int, ...] | None:
    """Return sizes that a header gives (64 at most, none as large as 2**62); else None."""
    if not isinstance(value, (tuple, list)) or len(value) > 64:
        return None
    right = all(type(number) is int and 0 <= number < 1 << 62 for number in value)
    return tuple(value) if right else None


class Layout:
    """The tensors of a file as its header is read."""

    def __init__(self, tensors: list[TensorPlace] | None = None) -> None:
        self.tensors: list[TensorPlace] = tensors or []
        self.problems: list[Problem] = []
        self.nan_numbers: list[str] = []
        """Names of plain numbers that are NaN, `MOST_NAN_NUMBERS` at most."""
        self.damaged = False

    def add(self, other: Layout) -> None:
        """Take what another one says, but not its tensors."""
        self.problems += other.problems
        self.damaged |= other.damaged
        self.nan_numbers += other.nan_numbers[: MOST_NAN_NUMBERS - len(self.nan_numbers)]

    def skip(self, where: str, what: str) -> None:
        """Say that a tensor is left out, which is nobody's fault."""
        self.problems.append(Problem(where, f"{what}: not scanned"))

    def damage(self, where: str, what: str, remedy: str | None = None) -> None:
        """Say that a part of the file is not as it was written."""
        self.damaged = True
        self.problems.append(Problem(where, what, remedy))

    @contextlib.contextmanager
    def part(self, where: str, remedy: str | None = None) -> Iterator[None]:
        """Read a part: what is said of it where it cannot be read, and the rest goes on."""
        try:
            yield
        except NotScanned as reason:
            self.skip(where, str(reason))
        except ValueError as error:
            self.damage(where, str(error), remedy)
        except EvidenceError as error:
            self.damage(where, error.what, error.hint)
