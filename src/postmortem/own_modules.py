"""How a start finds the modules of this package: by the bytecode that Python keeps beside them.

A report passes some 190 of them. Python's own finder takes ten looks at the disk for each (listings
of folders, the kind and times of files); this one takes three, and believes of what Python has
written only what Python itself would. All else is left to Python.
"""

import marshal
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import MAGIC_NUMBER
from types import CodeType, ModuleType

_MOST_BYTES = 1 << 16
_WITHOUT_HASH = bytes(4)


def look_in_bytecode() -> None:
    """Find the modules that are imported from now on so."""
    if not sys.flags.optimize and sys.pycache_prefix is None:
        sys.meta_path.insert(0, _Finder)


class _Loader(SourceFileLoader):
    def __init__(self, name: str, path: str, code: CodeType) -> None:
        super().__init__(name, path)
        self._code = code

    def get_code(self, fullname: str) -> CodeType:
        return self._code


class _Finder:
    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return where a module of ours is; None if Python is to look."""
        if not path or not name.startswith("postmortem."):
            return None
        place = f"{path[0]}/{name.rpartition('.')[2]}"
        spec = _spec(name, place)
        if spec is None and (spec := _spec(name, f"{place}/__init__")) is not None:
            spec.submodule_search_locations = [place]
        return spec


def _spec(name: str, place: str) -> ModuleSpec | None:
    source, (folder, _, stem) = f"{place}.py", place.rpartition("/")
    kept = f"{folder}/__pycache__/{stem}.{sys.implementation.cache_tag}.pyc"
    try:
        file = os.open(kept, os.O_RDONLY | os.O_CLOEXEC)
        try:
            data = os.read(file, _MOST_BYTES)
        finally:
            os.close(file)
        of = os.stat(source)  # noqa: PTH116  pathlib takes as long as thirty modules
    except OSError:
        return None
    time, size = (int(n) & 0xFFFFFFFF for n in (of.st_mtime, of.st_size))
    head = MAGIC_NUMBER + _WITHOUT_HASH + time.to_bytes(4, "little") + size.to_bytes(4, "little")
    if not data.startswith(head) or len(data) == _MOST_BYTES:
        return None
    spec = ModuleSpec(name, _Loader(name, source, marshal.loads(data[16:])), origin=source)
    spec.has_location = True
    spec.cached = kept
    return spec
