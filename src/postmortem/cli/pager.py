"""Shows what is longer than the terminal in the user's pager, as git does."""

import os
import sys
from collections.abc import Mapping
from typing import TextIO

_USUAL = "less"
_LESS = "FRX"
"""Leave at once if it fits, pass colours through, keep the text on the screen."""


def wanted(text: str, stream: TextIO, environ: Mapping[str, str], *, asked: bool) -> list[str]:
    """Return the pager's command line; empty where the text is written without one.

    That is: it was not `asked` for, no terminal, a dumb one, text that fits, ``PAGER=`` or ``cat``.
    """
    try:
        if not (asked and stream.isatty() and sys.stdin is not None and sys.stdin.isatty()):
            return []
        rows = os.get_terminal_size(stream.fileno()).lines
    except (OSError, ValueError):
        return []
    if environ.get("TERM", "dumb") in ("", "dumb", "unknown") or text.count("\n") < rows:
        return []
    import shlex  # late: only who reads a long report on a terminal pays for it

    try:
        words = shlex.split(environ.get("PAGER", _USUAL))
    except ValueError:  # a quote without its end
        return []
    return [] if words in ([], ["cat"]) else words


def show(text: str, command: list[str], stream: TextIO) -> bool:
    """Write text through the pager; False where it cannot be started."""
    import signal
    import subprocess  # late, as `shlex`

    environ = {"LESS": _LESS, "LV": "-c", **os.environ}
    stream.flush()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the pager's
    try:
        pager = subprocess.Popen(command, stdin=subprocess.PIPE, env=environ)
        try:
            pager.communicate(text.encode(stream.encoding or "utf-8", "backslashreplace"))
        except BrokenPipeError:  # it was left before the end
            pager.wait()
    except OSError:
        return False
    finally:
        signal.signal(signal.SIGINT, before)
    return True
