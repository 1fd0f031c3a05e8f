"""A thread in the Python API that does not hold the GIL: an error, unless there is no GIL."""

from dataclasses import replace

from postmortem.diagnose.core.gil_use import api_without_gil
from postmortem.facts.threads import Frame, Thread, Threads


def test_in_a_free_threaded_interpreter_nobody_needs_it() -> None:
    frames = (
        Frame("PyList_Append", module="/usr/bin/python3.13"),
        Frame("add_row", module="/app/_rows.so"),
        Frame("load", kind="python", file="/app/load.py", line=3),
    )
    threads = Threads((Thread(1, crashed=True, frames=frames),), 1)
    assert api_without_gil(threads) == 0
    assert api_without_gil(replace(threads, gil=False)) is None
