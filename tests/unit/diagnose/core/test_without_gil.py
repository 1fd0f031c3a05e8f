"""A thread in the Python API that does not hold the GIL: an error, unless there is no GIL."""

from dataclasses import replace

import pytest

from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.gil_use import api_without_gil
from postmortem.diagnose.core.pyobject_fault import Touch, object_fault
from postmortem.facts.crash import Signal
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


def test_a_host_program_that_let_go_of_the_gil() -> None:
    frames = (
        Frame("_PyInterpreterState_GET", module="/usr/lib/libpython3.11.so.1.0", inlined=True),
        Frame("PyList_New", module="/usr/lib/libpython3.11.so.1.0"),
        Frame("main", module="/app/host"),
    )
    threads = Threads((Thread(1, crashed=True, frames=frames),), 1)
    signal = Signal(11, "SIGSEGV", code="SEGV_MAPERR", address=0x10)
    # Without the interpreter's state, a null pointer may be the thread's state or an argument.
    assert api_without_gil(threads) is None
    assert object_fault(FaultKind.NULL_DEREFERENCE, signal, threads) is None
    assert api_without_gil(replace(threads, python_states=1)) == 1
    # A function that is given no object cannot have failed on an argument.
    assert api_without_gil(threads, FaultKind.NULL_DEREFERENCE) == 1
    given = replace(frames[1], function="PyList_Append")
    other = Threads((Thread(1, crashed=True, frames=(given, frames[2])),), 1)
    assert api_without_gil(other, FaultKind.NULL_DEREFERENCE) is None


def test_what_works_on_the_state_itself_tells_at_any_depth() -> None:
    library = "/usr/lib/libpython3.13.so.1.0"
    names = ("_PyThreadState_HasStackSpace", "_PyThreadState_PushFrame", "_PyEvalFramePushAndInit")
    names += ("_PyEval_Vector", "_PyObject_VectorcallTstate", "PyObject_CallObject")
    frames = (*(Frame(name, module=library) for name in names), Frame("worker", module="/app/e.so"))
    threads = Threads((Thread(1, crashed=True, frames=frames),), 1, python_states=1)
    assert api_without_gil(threads, FaultKind.NULL_DEREFERENCE) == len(names) - 1
    holds = Threads((replace(threads.items[0], holds_gil=True),), 1, python_states=1)
    assert api_without_gil(holds, FaultKind.UNMAPPED) is None


@pytest.mark.parametrize(
    ("function", "touch"),
    [
        ("gc_list_remove", Touch.USE),
        ("_PyGCHead_SET_NEXT", Touch.USE),
        ("insert_to_usedpool", Touch.ALLOCATOR),
    ],
)
def test_links_and_pools_are_no_null_pointer_of_a_caller(function: str, touch: Touch) -> None:
    library = "/usr/lib/libpython3.11.so.1.0"
    frames = (Frame(function, module=library), Frame("PyObject_GC_Del", module=library))
    line = Frame("load", kind="python", file="/app/load.py", line=3)
    threads = Threads((Thread(1, crashed=True, holds_gil=True, frames=(*frames, line)),), 1)
    signal = Signal(11, "SIGSEGV", code="SEGV_MAPERR", address=0)
    found = object_fault(FaultKind.NULL_DEREFERENCE, signal, threads)
    assert found is not None
    assert found.touch is touch


def test_ctypes_is_not_the_api_that_it_called() -> None:
    frames = (
        Frame("PyErr_Occurred", module="/usr/lib/libpython3.11.so.1.0"),
        Frame("_call_function_pointer", module="/usr/lib/python3.11/lib-dynload/_ctypes.so"),
        Frame("_PyObject_MakeTpCall", module="/usr/lib/libpython3.11.so.1.0"),
    )
    threads = Threads((Thread(1, crashed=True, frames=frames),), 1)
    assert api_without_gil(threads, FaultKind.NULL_DEREFERENCE) == 0


def test_an_interpreter_that_is_not_here_has_no_names() -> None:
    line = Frame("load", kind="python", file="/app/load.py", line=3)
    inner = Frame("??", module="/gone/libpython3.11.so.1.0")
    threads = Threads((Thread(1, crashed=True, frames=(inner, line)),), 1)
    assert api_without_gil(threads, FaultKind.NULL_DEREFERENCE) == 0
    assert api_without_gil(threads, FaultKind.UNMAPPED) is None
    holds = replace(threads.items[0], holds_gil=True)
    assert api_without_gil(Threads((holds,), 1), FaultKind.NULL_DEREFERENCE) is None
    elsewhere = replace(inner, module="/gone/libc.so.6")
    other = Threads((Thread(1, crashed=True, frames=(elsewhere, line)),), 1)
    assert api_without_gil(other, FaultKind.NULL_DEREFERENCE) is None
