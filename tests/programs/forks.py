"""Runs programs side by side, forked from one process that has PyTorch.

A line of standard input is JSON: the folder to run in, and a list of argv, whose first word is a
Python file, and a dictionary of variables. Answered by a line with the exit statuses, that of a
signal as a negative number. Each program ends as it would by itself, and what it prints goes to
standard error; only the imports, which take four seconds, are shared.
"""

import json
import os
import runpy
import sys

import torch._dynamo  # the first optimizer imports it, and so does the first dump of a recorder
import torch.distributed


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
    runpy.run_path(argv[0], run_name="__main__")
    sys.exit()


for line in iter(sys.stdin.readline, ""):
    folder, calls = json.loads(line)
    children = [start(folder, *call) for call in calls]
    statuses = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    print(json.dumps(statuses), flush=True)
