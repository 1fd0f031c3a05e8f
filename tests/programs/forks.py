"""Runs programs, forked from one process that has PyTorch: only the imports are shared.

A line of standard input is JSON. Of a list, the folder to run in and the argv, whose first word is
a Python file, and variables of programs side by side, the answer is a line with the exit statuses,
that of a signal as a negative number; what they print goes to standard error. Of a dictionary, one
job begins, as ``python -m MODULE`` would in a session and an environment of its own, and is told
of in a FIFO: its process ID, and when it has ended, its exit status.
"""

import atexit
import gc
import json
import os
import runpy
import sys
import threading
from typing import NoReturn

import torch._dynamo  # the first optimizer imports it, and so does the first dump of a recorder
import torch.distributed.run


def run(program) -> NoReturn:
    """Run a program to its end, but for what is taken apart then: of PyTorch, that takes 1 s."""
    code = 0
    try:
        program()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    threading._shutdown()  # waits for threads that are no daemons
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def start(folder, argv, variables):
    """Return the process ID; does not return in the program itself."""
    child = os.fork()
    if child:
        return child
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    os.chdir(folder)
    os.environ.update(variables)
    sys.argv = argv
    return run(lambda: runpy.run_path(argv[0], run_name="__main__"))


def begin(argv, variables, output, told):
    """Return the process ID of who waits for the job; does not return in the job itself."""
    waiting = os.fork()
    if waiting:
        return waiting
    job = os.fork()
    if job:
        with open(told, "w") as fifo:
            print(job, file=fifo, flush=True)
            print(os.waitstatus_to_exitcode(os.waitpid(job, 0)[1]), file=fifo, flush=True)
        os._exit(0)
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(os.open(output, os.O_WRONLY), 1)
    os.dup2(1, 2)
    sys.stdout.reconfigure(write_through=True)
    os.environ.clear()
    os.environ.update(variables)
    sys.argv = argv
    return run(lambda: runpy.run_module(argv[0], run_name="__main__", alter_sys=True))


waiting = set()
gc.freeze()  # else the first collection in each copies all that was imported
for line in iter(sys.stdin.readline, ""):
    waiting = {one for one in waiting if os.waitpid(one, os.WNOHANG)[0] == 0}
    asked = json.loads(line)
    if isinstance(asked, dict):
        waiting.add(begin(**asked))
        continue
    folder, calls = asked
    children = [start(folder, *call) for call in calls]
    statuses = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    print(json.dumps(statuses), flush=True)
