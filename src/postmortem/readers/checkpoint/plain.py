"""A pickle that pickle.dump() wrote: NumPy's arrays in it are scanned, tensors are not."""

from typing import BinaryIO

from postmortem.errors import EvidenceError
from postmortem.readers.checkpoint.layout import Layout, NotScanned
from postmortem.readers.checkpoint.legacy import Pickles
from postmortem.readers.checkpoint.objects import PickleError, Storage
from postmortem.readers.checkpoint.pickled import load
from postmortem.readers.checkpoint.storages import lay

_MOST_BYTES = 1 << 30


def looks_like_pickle(head: bytes) -> bool:
    """Whether a file begins as pickles of protocol 2 to 5 do."""
    return head[:1] == b"\x80" and 2 <= int.from_bytes(head[1:2], "little") <= 5


def read_places(stream: BinaryIO, size: int, name: str) -> Layout:
    """Return the arrays with their values; raises EvidenceError if it cannot be followed."""
    if size > _MOST_BYTES:
        raise EvidenceError(name, f"is a pickle of {size:,} bytes: not scanned")
    try:
        value = load(Pickles(stream, size))
    except PickleError as error:
        what = f"begins as a pickle does, but cannot be followed: {error}"
        raise EvidenceError(name, what, hint="the file is damaged, or no pickle") from None
    layout = Layout()
    lay(layout, value, name, _nowhere)
    return layout


def _nowhere(_: Storage) -> tuple[int, int, str | None]:
    raise NotScanned("its storage is not in the file")
