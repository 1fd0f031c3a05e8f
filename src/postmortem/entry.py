"""Where the command starts: what is done before anything of it is imported.

What reads evidence does so in a child. It is forked here, while there is little to share: each page
that a process has touched costs its child a copy.
"""

import gc
import os
import signal
import sys
from types import FrameType

_OBJECTS = 200_000
"""New ones between two looks for garbage. Nearly all that imports and a reading of evidence make
stays until the end: with Python's 700 a twentieth of a short report goes into looking through it.
"""

_STARTERS = ("runpy", "postmortem.entry")


def run() -> None:
    """Run the command line of this process and end the process.

    Until everything is imported Ctrl-C ends the process as a signal does, with no traceback of
    ours and none of Python's; then it raises KeyboardInterrupt, which `main` turns into 130. An
    interrupt that is ignored (nohup, a job in the background) stays ignored.
    """
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if ours:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.set_threshold(_OBJECTS)
    _fill_closed()
    _look_there_last()
    from postmortem.cli.commands import is_contained

    contained = is_alone(sys._getframe()) and is_contained(sys.argv[1:])
    if contained:
        from postmortem.cli.supervised import supervise

        code = supervise()
        if code is not None:
            os._exit(code)
    from postmortem.cli.main import run_as_program

    run_as_program(restore_interrupt=ours, contained=contained)


def _fill_closed() -> None:
    """Keep files and pipes of ours off the numbers of standard streams that are closed.

    They are closed in what we start, too. Print writes to standard output where the other is None.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115  it is for good


def _look_there_last() -> None:
    """Let no file of the user's take the place of a module of Python's or of ours.

    A `random.py` in the folder or on PYTHONPATH is a fault to be told, and must not be ours.
    """
    named = filter(None, os.getenv("PYTHONPATH", "").split(os.pathsep))
    try:
        theirs = {os.getcwd(), *map(os.path.abspath, named)}  # noqa: PTH109
        sys.path.sort(key=lambda folder: os.path.abspath(folder) in theirs)  # noqa: PTH100
    except OSError:
        return  # the folder has been removed: nothing is in it


def is_alone(frame: FrameType | None) -> bool:
    """Return whether only the interpreter waits for this program, from its outermost frame on.

    A profiler, a debugger and a test call the program and go on when it is over; so does a thread
    that is no daemon, and ``python -i``.
    """
    if sys.flags.inspect or sys.gettrace() is not None or sys.getprofile() is not None:
        return False
    while frame is not None:
        name = frame.f_globals.get("__name__")
        if name not in _STARTERS and (name, frame.f_code.co_name) != ("__main__", "<module>"):
            return False
        frame = frame.f_back
    threading = sys.modules.get("threading")
    if threading is None:
        return True
    main_thread = threading.main_thread()
    return all(thread is main_thread or thread.daemon for thread in threading.enumerate())
