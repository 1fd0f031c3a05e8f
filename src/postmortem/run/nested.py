"""A ``run`` within another: the outer one watches already, so the inner is the command itself."""

import os
import socket
from pathlib import Path

from postmortem.records import replace
from postmortem.run.environment import FOLDER
from postmortem.run.options import RunOptions


def become_if_nested(options: RunOptions) -> None:
    """Turn into the command where another run watches this process; else return.

    An option that asks for something of its own (a limit, a repetition) makes a run of its own.
    """
    plain = RunOptions(command=options.command)
    if replace(options, into=None, redact=True, pack=False) != plain or not _is_watched():
        return
    try:
        os.execvp(options.command[0], list(options.command))
    except OSError:
        return  # the ordinary way says what is wrong with it


def _is_watched() -> bool:
    """Whether somebody listens where the environment says so: not so on another host."""
    folder = os.environ.get(FOLDER)
    if not folder:
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        try:
            channel.connect(str(Path(folder) / "socket"))
        except OSError:
            return False
    return True
