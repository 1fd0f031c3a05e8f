"""A thread in the Python API that does not hold the GIL: an error, unless there is no GIL."""

from dataclasses import replace

from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.gil_use import api_without_gil
from postmortem.diagnose.core.pyobject_fault import object_fault
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
