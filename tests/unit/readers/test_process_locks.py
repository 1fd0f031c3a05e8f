"""What a wait for a semaphore is for, where multiprocessing made it."""

from typing import Any, cast

import pytest

from postmortem.facts.threads import Wait
from postmortem.readers.python_locks import PythonLocks

LIBRARY = "/usr/lib/python3.11/multiprocessing/"


def locks(*frames: tuple[str, str]) -> PythonLocks:
    rows = [{"file": file, "function": function, "line": 1} for file, function in frames]
    thread = {"tid": 7, "frames": rows, "object": 0, "end_word": 0, "at_hand": [], "held": []}
    python = {"threads": [thread], "gil": 0, "gil_holder": None}
    return PythonLocks(cast("Any", python))


@pytest.mark.parametrize(
    ("frames", "kind"),
    [
        (((LIBRARY + "synchronize.py", "wait"), (LIBRARY + "queues.py", "join")), "queue"),
        (((LIBRARY + "queues.py", "put"), ("/job/a.py", "f")), "queue"),
        ((("/job/a.py", "f"),), "semaphore"),  # of the program's own library
        ((("/job/queues.py", "put"),), "semaphore"),
    ],
)
def test_semaphores_of_multiprocessing(frames: tuple[tuple[str, str], ...], kind: str) -> None:
    wait = Wait("a semaphore", 0x10, kind="semaphore", certain=False)
    assert locks(*frames).among_processes(7, wait).kind == kind


def test_other_waits_are_left_as_they_are() -> None:
    wait = Wait("a mutex", 0x10, kind="mutex")
    assert locks((LIBRARY + "queues.py", "put")).among_processes(7, wait) is wait
