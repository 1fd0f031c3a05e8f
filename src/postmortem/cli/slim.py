"""``postmortem core CORE --slim OUT``: what is said about it on standard error."""

from __future__ import annotations

import os
import stat
import sys
import time
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from postmortem.errors import EvidenceError
from postmortem.render.safe import line
from postmortem.text import counted, size

if TYPE_CHECKING:
    import argparse

    from postmortem.readers.slim import SlimOutcome

_STANDARD_INPUT = Path("/dev/stdin")

CONTAINS = (
    "it still holds the environment, arguments, stacks and Python values of the process, which may "
    "be secrets: share it like the core itself"
)
NEEDS = (
    "it has no code: whoever reads it needs the same binaries (same build IDs), on another machine "
    "in a folder for --sysroot"
)


def run(args: argparse.Namespace) -> int:
    """Write the slim core and return the exit code."""
    from postmortem.handler.streams import open_standard_streams
    from postmortem.readers.slim_writing import SlimOptions, write_slim, write_slim_of_stream

    began = time.monotonic()
    if str(args.core) == "-" and sys.stdin is None:
        raise EvidenceError("standard input", "is closed")
    open_standard_streams()
    options = SlimOptions(
        executable=args.python, sysroot=args.sysroot, temp_dir=args.temp_dir, pid=args.pid
    )
    source: Path | None = args.core
    if source is not None and _is_pipe(source):
        name = "standard input" if str(source) == "-" else str(source)
        with _opened(source) as stream:
            outcome = write_slim_of_stream(stream.fileno(), args.slim, options)
    else:
        from postmortem.readers.core_reading import choose_core

        source, remarks = choose_core(_STANDARD_INPUT if str(source) == "-" else source)
        name = str(source)
        for remark in remarks:
            _say(f"{remark.where}: {remark.what}")
        outcome = write_slim(source, args.slim, options, _say)
    _tell(name, args.slim, outcome, time.monotonic() - began)
    return 0


def _is_pipe(source: Path) -> bool:
    """Whether a core comes as a stream, in one pass; a file on standard input does not."""
    try:
        status = os.fstat(0) if str(source) == "-" else source.stat()
    except OSError:
        return False
    kind = stat.S_IFMT(status.st_mode)
    if str(source) == "-" and kind == stat.S_IFCHR and os.isatty(0):
        what = "is a terminal: a core must come through it"
        raise EvidenceError("standard input", what, hint="cat CORE | postmortem core - --slim OUT")
    return kind in (stat.S_IFIFO, stat.S_IFSOCK) or (str(source) == "-" and kind != stat.S_IFREG)


def _opened(source: Path) -> BinaryIO:
    from postmortem.readers.log_files import open_fifo

    return FileIO(os.dup(0), "rb") if str(source) == "-" else open_fifo(str(source))


def _tell(source: str, out: Path, outcome: SlimOutcome, seconds: float) -> None:
    for problem in outcome.problems:
        _say(
            f"{problem.where}: {problem.what}" + (f" ({problem.remedy})" if problem.remedy else "")
        )
    _say(
        f"{source}, {size(outcome.source_bytes)} -> {out}, {size(outcome.file_bytes)} "
        f"({counted(outcome.threads, 'thread')}, {seconds:.2f} s)"
    )
    _say(CONTAINS)
    _say(NEEDS)


def _say(words: str) -> None:
    if sys.stderr is not None:
        print(f"postmortem: {line(words)}", file=sys.stderr, flush=True)
