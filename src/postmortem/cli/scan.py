"""``postmortem scan``: NaN, Inf and extremes in checkpoints."""

import argparse
import gc
import time

from postmortem.cli.arguments import adding
from postmortem.cli.output import add_report_options, emit, timed
from postmortem.cli.progress import Line, bar

SUMMARY = "scan checkpoints for NaN, Inf and extremes, without loading them"
EXAMPLES = """\
examples:
  postmortem scan model.safetensors
  postmortem scan checkpoint-4000/
  postmortem scan step_*.pt --json
  postmortem scan dcp/step-4000/
"""

_FIRST_WORD_SECONDS = 0.5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    add = adding(parser)
    add(
        "files FILE",
        "a checkpoint (.safetensors, .pt, .bin, .pt2, .npy, .npz, .distcp, .gguf, .pkl), an "
        "index of shards (model.safetensors.index.json, .metadata), or a folder with any of them; "
        "nothing in it is executed",
        nargs="+",
    )
    add_report_options(parser)


def run(args: argparse.Namespace) -> int:
    """Scan the files and write the report."""
    from postmortem.analyses.scan import analyse

    began = time.monotonic()
    line = _Bar()
    show = line.tell if line.obeyed and not args.quiet else None
    # Of 100,000 tensors nothing goes away before the end: to look for it is a third of the time.
    collects = gc.isenabled()
    gc.disable()
    try:
        with line:
            report = analyse(args.files, verbose=args.verbose, progress=show)
    finally:
        if collects:
            gc.enable()
    return emit(timed(report, began), args)


class _Bar(Line):
    """How far the scan of a file has come."""

    def __init__(self) -> None:
        super().__init__()
        self._path = ""
        self._began = time.monotonic()
        self._next = self._began + _FIRST_WORD_SECONDS

    def tell(self, path: str, done: int, whole: int) -> None:
        """Draw the line anew, a few times a second at most."""
        now = time.monotonic()
        if path != self._path:
            self._path, self._began = path, now
        if now < self._next or not whole:
            return
        self._next = now + 0.1
        name = "".join(c if c.isprintable() else "?" for c in path.rpartition("/")[2])
        self.show(f"{bar(done, whole, now - self._began)}  {name}")
