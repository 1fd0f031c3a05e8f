"""What a pickle is followed to: tensors and their storages, and what else holds them."""

from typing import Any

from postmortem.records import record


class PickleError(Exception):
    """The pickle cannot be followed to its end."""


@record
class Global:
    """A class or function by name."""

    name: str


@record
class Storage:
    """The memory behind tensors: a record of the archive."""

    key: str
    dtype: str | None
    """None for bytes without a type of their own; tensors on it say theirs."""
    numel: int
    begin: int = 0
    """Of a view into it, as PyTorch before 0.4 saved them: in elements."""


@record
class Tensor:
    """A view into a storage; sizes and strides in elements."""

    storage: Storage
    dtype: str | None
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class Unknown:
    """Something that only running the pickle would make; what is inside can still be looked at."""

    def __init__(self, name: str, parts: object = ()) -> None:
        self.name = name
        self.parts = parts
        self.state: object = None
        self.entries: dict[Any, Any] = {}
        """Of what is a dict with a class of its own."""
        self.listed: list[Any] = []
        """Of what is a list or a set with a class of its own."""

    def __repr__(self) -> str:
        return f"<{self.name}>"


class Entries(dict[Any, Any]):
    """A dict that a call made, which may be given attributes, as an OrderedDict is."""

    state: object = None
