"""``postmortem strace``: what is written beside the report, and the progress bar."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from postmortem.cli.output import OutputError, emit
from postmortem.cli.progress import Progress

if TYPE_CHECKING:
    import argparse

    from postmortem.readers.strace import Beside
    from postmortem.readers.strace_exports import Exports, Wish
    from postmortem.report.model import Report


@contextmanager
def reading(args: argparse.Namespace) -> Iterator[tuple[Beside, Exports | None]]:
    """Give what to do beside reading; files that are not finished are taken away again."""
    from postmortem.readers.strace import Beside

    with ExitStack() as stack:
        exports = _exports(args)
        if exports is not None:
            stack.enter_context(exports[0])
        progress = stack.enter_context(Progress())
        if exports is None:
            yield Beside(watch=progress), None
            return
        native = tuple(exports[0].native)
        yield Beside(exports=native, learn=exports[1], watch=progress), exports[0]


def emit_beside(report: Report, exports: Exports, args: argparse.Namespace) -> int:
    """Write the report where it does not mix with an export, and say what was written."""
    for written in exports.written:
        if written.name != "-" and sys.stderr is not None:
            print(f"postmortem: {written.name}: {written.what}", file=sys.stderr)
    if args.output in (None, "-") and "-" in _wish(args).names:
        return 1 if report.failed and not args.exit_zero else 0
    return emit(report, args)


def _exports(args: argparse.Namespace) -> tuple[Exports, Callable[[list[str]], None]] | None:
    wish = _wish(args)
    if not wish.names:
        return None
    from postmortem.analyses.stracemask import Masking
    from postmortem.readers import strace_exports
    from postmortem.readers.stracefind import find_logs

    if "-" in wish.names and sys.stdout is None:
        raise OutputError("standard output", "it is closed", hint="name a file")
    both = "-" in wish.names and args.output in (None, "-")
    if both and (args.json or args.markdown or args.github):
        raise OutputError("standard output", "an export goes there", hint="give the report -o FILE")
    if wish.names.count("-") > 1:
        raise OutputError("standard output", "two exports are to go there", hint="name a file")
    if len(set(wish.names)) < len(wish.names):
        raise OutputError(wish.names[0], "is given for two exports", hint="give each its own file")
    logs = [name for group in find_logs(args.logs, []) for name, _ in group.files]
    same = strace_exports.same_file(wish, logs)
    if same is not None:
        raise OutputError(same, "is the evidence itself", hint="name another file")
    if (wish.calls or "").lower().endswith(".parquet") and not strace_exports.parquet_is_there():
        hint = "pip install pyarrow numpy, or name a file that ends in .csv or .ndjson"
        raise OutputError(str(wish.calls), "Parquet needs pyarrow and NumPy", hint=hint)
    masking = Masking(redact=not args.no_redact)
    made = strace_exports.Exports(wish, masking, masked=not args.no_redact)
    return made, masking.learn


def _wish(args: argparse.Namespace) -> Wish:
    from postmortem.readers.strace_exports import Wish

    return Wish(args.calls, args.folded, args.trace, args.trace_all)
