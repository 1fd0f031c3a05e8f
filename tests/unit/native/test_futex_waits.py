"""Who may wake a futex, by the memory that its word lies in."""

from pathlib import Path

import pytest

from builders.unwind_cores import CoreBuilder, Segment
from postmortem import _native

CODE, STACK, WORD = 0x7F0000000000, 0x7FFC00000000, 0x30000000000
_FUTEX, _WAIT, _PRIVATE = 202, 0, 128


@pytest.mark.parametrize(
    ("file", "operation", "shared"),
    [
        pytest.param(None, _WAIT, False, id="of no file"),
        pytest.param("/dev/shm/ring", _WAIT, True, id="a file's"),
        pytest.param("/dev/zero (deleted)", _WAIT, True, id="shared anonymous memory"),
        pytest.param("/dev/shm/ring", _WAIT | _PRIVATE, False, id="with the private flag"),
    ],
)
def test_the_memory_tells(tmp_path: Path, file: str | None, operation: int, shared: bool) -> None:
    core = CoreBuilder().thread(
        5, rip=CODE, rsp=STACK + 8, orig_rax=_FUTEX, rdi=WORD + 16, rsi=operation, rdx=2
    )
    if file is not None:
        core.files.append((WORD, WORD + 4096, 0, file))
    core.segments += [Segment(STACK, bytes(4096)), Segment(WORD, bytes(16) + b"\2" + bytes(4079))]
    path = tmp_path / "core"
    path.write_bytes(core.build())
    (row,) = _native.read_core(str(path))["futex_waits"]
    assert row["shared"] is shared
