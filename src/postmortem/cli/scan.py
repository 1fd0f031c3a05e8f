"""``postmortem scan``: NaN, Inf and extremes in checkpoints."""

from __future__ import annotations

import argparse
import os
import sys
import time

from postmortem.cli.output import add_report_options, emit
from postmortem.cli.progress import obeys

SUMMARY = "scan checkpoints for NaN, Inf and extremes, without loading them"
EXAMPLES = """\
examples:
  postmortem scan model.safetensors
  postmortem scan checkpoint-4000/
  postmortem scan step_*.pt --json
"""

_BAR = 30
_FIRST_WORD_SECONDS = 0.5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs="+",
        help="a checkpoint (.safetensors, .pt, .bin, .npy, .npz), an index of shards "
        "(model.safetensors.index.json), or a folder with any of them; nothing in it is executed",
    )
    add_report_options(parser)


def run(args: argparse.Namespace) -> int:
    """Scan the files and write the report."""
    from postmortem.analyses.scan import analyse
    from postmortem.records import replace

    began = time.monotonic()
    bar = _Bar() if obeys(sys.stderr, os.environ) else None
    try:
        report = analyse(args.files, verbose=args.verbose, progress=bar.show if bar else None)
    finally:
        if bar is not None:
            bar.clear()
    took = time.monotonic() - began
    footer = f"{took:.2f} s · {report.footer} · -v, --json for more"
    return emit(replace(report, footer=footer), args)


class _Bar:
    """How far the scan has come, in one line of the terminal that goes away at the end."""

    def __init__(self) -> None:
        self._next = time.monotonic() + _FIRST_WORD_SECONDS
        self._shown = False

    def show(self, path: str, done: int, whole: int) -> None:
        """Draw the bar anew, a few times a second at most."""
        now = time.monotonic()
        if now < self._next or not whole:
            return
        self._next = now + 0.1
        self._shown = True
        filled = done * _BAR // whole
        bar = "#" * filled + "." * (_BAR - filled)
        name = "".join(c if c.isprintable() else "?" for c in path.rpartition("/")[2])[:40]
        text = f"[{bar}] {done / 1e9:.1f} of {whole / 1e9:.1f} GB  {name}"
        sys.stderr.write(f"\r\x1b[2K{text[:78]}")
        sys.stderr.flush()

    def clear(self) -> None:
        """Take the bar away."""
        if self._shown:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()
