"""Which files gdb is given, where nobody asked for it."""

from pathlib import Path

import pytest

from postmortem.errors import DebuggerError
from postmortem.facts.memory import Module, Modules
from postmortem.facts.threads import Frame, Thread, Threads
from postmortem.readers.gdb.find import Gdb
from postmortem.readers.gdb.with_gdb import with_gdb
from postmortem.readers.gdb_options import GdbOptions


def asks_for_gdb(folder: Path, *, size: int, line: int | None, name: str = "libxla.so") -> bool:
    library = folder / name
    with library.open("wb") as file:
        file.truncate(size)  # sparse: only its size is looked at
    module = Module(
        str(library), 0x1000, 0x2000, "ok", disk_path=str(library), has_debug_lines=True
    )
    modules = Modules((module,))
    frame = Frame("compile", pc=0x1100, module=str(library), file="xla.cc", line=line)
    threads = Threads((Thread(tid=1, frames=(frame,), crashed=True),), main_tid=1)
    asked = []

    def find() -> Gdb:
        asked.append(True)
        raise DebuggerError("no gdb here")

    merged = with_gdb("core", threads, modules, None, GdbOptions(), find)
    assert bool(asked) == bool(merged.problems)
    return bool(asked)


@pytest.mark.parametrize(
    ("size", "line", "asks"),
    [
        (64 << 20, None, False),  # jaxlib: 1 KiB of line tables, 700,000 symbols
        (64 << 20, 40, True),
        (1 << 20, None, True),
    ],
)
def test_a_large_library_without_a_line_on_a_stack_is_not_worth_gdbs_time(
    tmp_path: Path, size: int, line: int | None, asks: bool
) -> None:
    assert asks_for_gdb(tmp_path, size=size, line=line) is asks


@pytest.mark.parametrize("name", ["libc.so.6", "libc-2.31.so", "ld-linux-x86-64.so.2"])
def test_the_c_library_alone_is_not_worth_gdbs_time(tmp_path: Path, name: str) -> None:
    assert not asks_for_gdb(tmp_path, size=1 << 20, line=40, name=name)
    assert asks_for_gdb(tmp_path, size=1 << 20, line=40, name="libcrypto.so.3")
