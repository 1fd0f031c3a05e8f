"""``postmortem strace``: explain system-call logs."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING

from postmortem.cli.arguments import adding, number, pid
from postmortem.cli.output import add_report_options, emit, timed

if TYPE_CHECKING:
    from postmortem.facts.call_query import Query

SUMMARY = "explain strace logs: which file was it, what ended the program"
EXAMPLES = """\
examples:
  postmortem strace strace.txt --find ENOSPC
  postmortem strace strace.txt
  zcat strace.txt.gz | postmortem strace - --find "EACCES path=/data/*"
  postmortem strace --attach 4711 --seconds 10
"""
INTERRUPTED = "nothing was written"
"""What is said where Ctrl-C ends it."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    add = adding(parser)
    add(
        "logs LOG",
        "a log of strace, also packed (.gz, .zst, .xz); the prefix given to strace -ff; a "
        "folder with logs; or - for standard input",
        nargs="*",
    )
    add(
        "--find QUERY",
        "answer only this: an errno (ENOSPC), a system call (openat), a signal (SIGKILL), "
        "several with commas; or terms that must all hold: errno=, syscall=, path=GLOB, pid=, fd=, "
        "slower=SECONDS "
        "(default: the whole summary)",
        action="append",
        default=[],
        type=_query,
    )
    add("--pid PID", "answer for this process and its threads alone", type=pid)
    add(
        "--record-hint",
        "print the strace command that records enough, at the least cost, to follow files; "
        "with --find, to answer that",
    )
    group = parser.add_argument_group("a process that lives")
    in_group = adding(group)
    in_group(
        "--attach PID",
        "record its calls with strace for some seconds, detach, and explain them; Ctrl-C ends "
        "it sooner",
        type=pid,
    )
    in_group(
        "--seconds N",
        "how long to record (default: 10)",
        type=number(0, 86_400, "a number of seconds above 0", above=True),
        default=10.0,
    )
    in_group("--keep-log OUT", "keep what was recorded (default: removed)", type=_named)
    _add_exports(parser)
    add_report_options(parser)


def prepare(args: argparse.Namespace) -> None:
    """Record what --attach asks for; before the reader gives the right to attach away."""
    if args.attach is None:
        if args.keep_log is not None:
            args.parser.error("--keep-log is of use with --attach only")
        return
    if args.logs or args.record_hint:
        args.parser.error("--attach records a log: name none, and no --record-hint")
    args.logs = [_recorded(args)]


def _recorded(args: argparse.Namespace) -> str:
    """Return the log of a live process; removed when the program ends, unless it is to be kept."""
    import atexit
    import shutil
    import tempfile
    from pathlib import Path

    from postmortem import underway
    from postmortem.knowledge.record_hint import attach_words
    from postmortem.readers.live.tracing import record_calls

    if args.keep_log is None:
        folder = tempfile.mkdtemp(prefix="postmortem-strace-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        underway.leave(folder)
        log = Path(folder, f"strace-{args.attach}.txt")
    else:
        log = Path(args.keep_log)
    if not args.quiet:
        words = f"strace records process {args.attach} for {args.seconds:g} s"
        print(f"postmortem: {words}", file=sys.stderr, flush=True)
    underway.consuming()  # a process after this one would record another log
    done = record_calls(args.attach, attach_words(args.find), log, args.seconds)
    if not args.quiet:
        words = f"recorded {done.seconds:.1f} s ({_ENDED[done.ended_because]})"
        state = "strace could not let it go" if done.still_traced else "detached"
        print(f"postmortem: {words}; {state}", file=sys.stderr, flush=True)
    return str(log)


_ENDED = {
    "time": "as asked for",
    "interrupt": "interrupted",
    "size": "the log has 2 GiB",
    "exit": "the process has ended",
}


def run(args: argparse.Namespace) -> int:
    """Explain the logs and write the report, or say how to record one."""
    if args.record_hint:
        from postmortem.cli.output import write_text
        from postmortem.knowledge.record_hint import record_hint

        write_text(record_hint(args.find) + "\n")
        return 0
    if not args.logs:
        args.parser.error("name a log, a folder with logs, or -")
    from postmortem.cli.straceout import reading

    began = time.monotonic()
    with reading(args) as (beside, exports):
        from postmortem.analyses.strace import StraceOptions, analyse

        options = StraceOptions(
            queries=tuple(args.find),
            process=args.pid,
            verbose=args.verbose,
            redact=not args.no_redact,
            body=args.json,
            beside=beside,
        )
        report = analyse(args.logs, options)
        if exports is not None:
            exports.finish()
    report = timed(report, began)
    if exports is None:
        return emit(report, args)
    from postmortem.cli.straceout import emit_beside

    return emit_beside(report, exports, args)


def _add_exports(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("exports (beside the report; - is standard output)")
    in_group = adding(group)
    in_group(
        "--calls OUT",
        "write all calls as a table: OUT.parquet (needs pyarrow), OUT.csv or OUT.ndjson",
        type=_table,
    )
    in_group(
        "--folded OUT",
        "write folded stacks for flame graphs: process;thread;call;target and its time",
        type=_named,
    )
    in_group(
        "--trace OUT",
        "write a timeline for ui.perfetto.dev: calls over 1 ms, failures, processes",
        type=_named,
    )
    in_group("--trace-all", "put all calls on the timeline (default: those)")


def _named(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("the name of the file is empty")
    return text


def _table(text: str) -> str:
    if text != "-" and not text.lower().endswith((".parquet", ".csv", ".ndjson", ".jsonl")):
        what = f"{text!r} does not end in .parquet, .csv or .ndjson, which says what to write"
        raise argparse.ArgumentTypeError(what)
    return text


def _query(text: str) -> Query:
    from postmortem.facts.call_query import parse

    try:
        return parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
