"""What torch.save() wrote before PyTorch 1.6, and writes without its zip format.

Five pickles in a row (magic number, protocol, system, the object, the keys of its storages), then
each storage: how many elements it has (8 bytes), and those. Source: torch/serialization.py,
_legacy_save() and _legacy_load(); the elements are raw since 0.4.
"""

import io
from typing import BinaryIO

from postmortem.errors import EvidenceError
from postmortem.readers.checkpoint.layout import Layout
from postmortem.readers.checkpoint.objects import PickleError, Storage
from postmortem.readers.checkpoint.pickled import load
from postmortem.readers.checkpoint.storages import ITEM_BYTES, lay
from postmortem.readers.checkpoint.window import Window

_MAGIC = b"\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
"""LONG1 of 0x1950a86a20f9469cfc6c, and STOP."""
_MOST_PICKLE_BYTES = 1 << 30
_BUFFER_BYTES = 1 << 16
_CUT = "the file is cut (a full disk, a killed job): go back to the checkpoint before it"


def is_legacy(head: bytes) -> bool:
    """Return whether a file begins as this format does; protocol 4 has a frame before the magic."""
    return head[:1] == b"\x80" and head.find(_MAGIC, 2, 32) != -1


def read_places(stream: BinaryIO, size: int, name: str) -> Layout:
    """Return where the tensors lie; raises EvidenceError if the pickles cannot be followed."""
    pickles = Pickles(stream, min(size, _MOST_PICKLE_BYTES))
    part = "head"
    try:
        for part in ("head", "protocol", "system"):  # noqa: B007 - named when one fails
            system = load(pickles)
        if isinstance(system, dict) and system.get("little_endian") is False:
            raise EvidenceError(name, "was written on a big-endian machine: not scanned")
        part = "description"
        storages: dict[str, Storage] = {}
        value = load(pickles, storages)
        part = "list of storages"
        keys = load(pickles)
        if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
            raise PickleError("it is not a list of keys")
    except PickleError as error:
        what = f"its {part} cannot be read: {error}"
        raise EvidenceError(name, what, hint=_CUT) from None
    layout = Layout()
    places = _Places(stream, size, pickles.tell(), keys, storages)
    lay(layout, value, name, places.place)
    if places.problem is not None:
        layout.damage(name, places.problem, _CUT)
    return layout


class Pickles(io.BufferedReader):
    """The front of a file, of which no more is asked than there is.

    A pickle may say that a text of 2^60 bytes follows, and the room would be made before it is
    read.
    """

    def __init__(self, stream: BinaryIO, size: int) -> None:
        super().__init__(Window(stream, 0, size), _BUFFER_BYTES)
        self._size = size

    def read(self, size: int | None = -1, /) -> bytes:
        """Return at most so many bytes."""
        if size is not None and size > _BUFFER_BYTES:
            size = min(size, self._size - self.tell())
        return super().read(size)


class _Places:
    """Where each storage lies, found by going from one to the next."""

    def __init__(
        self, stream: BinaryIO, size: int, at: int, keys: list[str], known: dict[str, Storage]
    ) -> None:
        self.problem: str | None = None
        self._places: dict[str, tuple[int, int]] = {}
        for done, key in enumerate(keys):
            storage = known.get(key)
            stream.seek(at)
            head = stream.read(8)
            if len(head) < 8:
                self.problem = f"it ends before {len(keys) - done:,} of its {len(keys):,} storages"
                return
            count = int.from_bytes(head, "little", signed=True)
            if storage is None or count < 0 or (storage.numel >= 0 and count != storage.numel):
                self.problem = f"storage {key} should stand at byte {at:,}, but something else does"
                return
            bytes_of_it = count * ITEM_BYTES.get(storage.dtype or "", 1)
            at += 8
            self._places[key] = (at, max(0, min(bytes_of_it, size - at)))
            at += bytes_of_it

    def place(self, storage: Storage) -> tuple[int, int, str | None]:
        """Return offset and size of a storage; ValueError if it is not in the file."""
        found = self._places.get(storage.key)
        if found is None:
            raise ValueError(f"its storage {storage.key} is not in the file")
        return (*found, None)
