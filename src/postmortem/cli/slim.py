"""``postmortem core CORE --slim OUT``: what is said about it on standard error."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from postmortem.render.safe import line
from postmortem.sections.quantities import counted, size

if TYPE_CHECKING:
    import argparse

    from postmortem.readers.slim import SlimOutcome

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
    from postmortem.analyses.core import choose_core
    from postmortem.analyses.slim import SlimOptions, write_slim

    began = time.monotonic()
    source, remarks = choose_core(args.core)
    for remark in remarks:
        _say(f"{remark.where}: {remark.what}")
    options = SlimOptions(executable=args.python, sysroot=args.sysroot, temp_dir=args.temp_dir)
    outcome = write_slim(source, args.slim, options, _say)
    _tell(str(source), args.slim, outcome, time.monotonic() - began)
    return 0


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
