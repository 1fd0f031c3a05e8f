"""``postmortem core``: explain a core file."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

from postmortem.cli.arguments import adding, number, pid
from postmortem.cli.output import add_report_options, emit, timed
from postmortem.errors import EvidenceError

if TYPE_CHECKING:
    from postmortem.analyses.core import CoreOptions
    from postmortem.facts.source import Problem

SUMMARY = "explain a core file"
EXAMPLES = """\
examples:
  postmortem core core-python-3097667-6 --python "$(which python)"
  postmortem core /var/crash --markdown
  postmortem core core.4711 --open-gdb
  postmortem core core.4711 --slim core.4711.slim.zst
  postmortem core --fold /scratch/job-812/cores
  postmortem core core.node7.4711.nvcudmp.gz -v
"""

_MOST_SECONDS = 1e6


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    add = adding(parser)
    add(
        "cores CORE|DIR",
        "a core file, also packed (.zst, .lz4, .gz, .xz), or a folder: then the newest core "
        "in it (default: the current folder); several are folded. A core dump of CUDA GPUs is read "
        "too: -v adds registers and memory of the thread that failed",
        nargs="*",
        type=Path,
    )
    add(
        "--fold",
        "read all cores, also those below folders, and tell how many crashes they are: one "
        "row for each signature, by the native reader unless --engine is given",
    )
    add(
        "--python EXE", "the program that crashed (default: the one that the core names)", type=Path
    )
    add(
        "--sysroot DIR",
        "folder under which the program's files lie, for a core from another machine (default: /)",
    )
    add(
        "--gdb PATH",
        "gdb to use (default: $POSTMORTEM_GDB, then PATH, then the wheel of the extra [gdb])",
    )
    add(
        "--open-gdb",
        "explain it in one line, then be gdb: at its prompt, on the frame that is blamed",
    )
    add(
        "--engine",
        "native: our own reader alone, in milliseconds; gdb: ask gdb for every stack and tell "
        "where it disagrees; auto: gdb only for lines that it can add (default: auto)",
        choices=("auto", "native", "gdb"),
    )
    add(
        "--locals",
        "show the local variables of every frame (default: on the card those of the blamed ones)",
    )
    add("--thread TID", "show the stack of this thread (default: the crashed one)", type=int)
    add(
        "--all",
        "show every group of threads with its whole stack (default: one line a group)",
        dest="all_threads",
    )
    add(
        "--debuginfod",
        "let gdb fetch debug symbols from $DEBUGINFOD_URLS (default: nothing is fetched)",
    )
    add(
        "--deadline SECONDS",
        "how long gdb may take; what it has said by then is used (default: 60, and no more "
        "than 8 of processor time where gdb only adds arguments)",
        type=number(0, _MOST_SECONDS, "a number of seconds above 0", above=True),
    )
    add(
        "--temp-dir DIR",
        "where a packed core is unpacked (default: $TMPDIR, else beside the core)",
        type=Path,
    )
    add(
        "--slim OUT",
        "write no report but a small core that gdb, pystack and eu-stack read to the same "
        "stacks; packed if OUT ends in .zst, .lz4, .gz, .xz or .bz2; CORE may be - for a pipe",
        type=Path,
    )
    add(
        "--pid PID",
        "with --slim and CORE -: the process that is being dumped (%%P in core_pattern); its "
        "memory is read where it is, however large the core would be",
        type=pid,
    )
    add_report_options(parser)
    parser.set_defaults(refuse=parser.error, whole_with=("locals", "thread", "all_threads"))


def prepare(args: argparse.Namespace) -> None:
    """Become gdb where that is asked for; not under the limits of who reads the core."""
    if not args.open_gdb:
        return
    if args.fold or len(args.cores) > 1 or args.slim is not None:
        args.refuse("--open-gdb is about one core")
    from postmortem.cli.open_gdb import become_gdb

    args.core = args.cores[0] if args.cores else None
    become_gdb(args)


def run(args: argparse.Namespace) -> int:
    """Explain the core and write the report, or write a slim core."""
    args.core = args.cores[0] if args.cores else None
    if args.fold or len(args.cores) > 1:
        return _fold(args)
    _check_stream_options(args)
    if args.slim is not None:
        from postmortem.cli import slim

        return slim.run(args)
    return _explain(args)


def _explain(args: argparse.Namespace) -> int:
    from postmortem.cli.progress import Status
    from postmortem.readers.core_reading import choose_core, reading_core
    from postmortem.readers.opening import is_gpu_core
    from postmortem.records import replace

    began = time.monotonic()
    path, remarks = choose_core(args.core)
    if is_gpu_core(path):
        return _explain_gpu(args, path, remarks, began)
    with (
        Status() as status,
        reading_core(
            path,
            executable=args.python,
            sysroot=args.sysroot,
            python_locals=args.locals or _is_read(args),
            temp_dir=args.temp_dir,
            progress=None if args.quiet else status,
        ) as reading,
    ):
        # While the native reader is at work: these imports take as long as it does.
        from postmortem.analyses.core import explained

        report = explained(reading, _options(args), None if args.quiet else status)
    report = replace(report, problems=(*remarks, *report.problems))
    return emit(timed(report, began), args)


def _explain_gpu(
    args: argparse.Namespace, path: Path, remarks: tuple[Problem, ...], began: float
) -> int:
    """Write a report on a core dump of GPUs."""
    from postmortem.analyses.gpu_core import analyse_gpu
    from postmortem.cli.progress import Status
    from postmortem.records import replace

    with Status() as status:
        report = analyse_gpu(
            path,
            verbose=args.verbose,
            redact=not args.no_redact,
            temp_dir=args.temp_dir,
            blocks=not args.json or args.html is not None,
            progress=status,
        )
    report = replace(report, problems=(*remarks, *report.problems), more="-v, --json for more")
    return emit(timed(report, began), args)


def _fold(args: argparse.Namespace) -> int:
    """Write one report on all cores."""
    from postmortem.analyses.fold import fold_cores
    from postmortem.cli.progress import Status
    from postmortem.records import replace

    for option in ("slim", "pid", "thread", "locals", "all_threads"):
        if getattr(args, option):
            name = option.removesuffix("_threads")
            args.refuse(f"--{name} is about one core: give one, without --fold")
    if any(str(path) == "-" for path in args.cores):
        args.refuse("several cores are read from files, not from standard input (-)")
    began = time.monotonic()
    options = replace(_options(args), engine=args.engine or "native")
    with Status() as status:
        report = fold_cores(args.cores or [Path()], options, None if args.quiet else status)
    footer = (*report.footer, "postmortem core CORE explains one")
    return emit(timed(replace(report, footer=footer), began), args)


def _options(args: argparse.Namespace) -> CoreOptions:
    from postmortem.analyses.core import CoreOptions
    from postmortem.present.core.report import Shown
    from postmortem.readers.gdb_options import GdbOptions

    return CoreOptions(
        executable=args.python,
        sysroot=args.sysroot,
        engine=args.engine or "auto",
        gdb=GdbOptions(
            path=args.gdb,
            with_locals=args.locals,
            values=_is_read(args),
            tid=args.thread,
            debuginfod=args.debuginfod,
            deadline_seconds=args.deadline,
        ),
        shown=Shown(
            verbose=args.verbose,
            all_threads=args.all_threads,
            with_locals=args.locals,
            blocks=_is_read(args),
        ),
        redact=not args.no_redact,
        temp_dir=args.temp_dir,
    )


def _is_read(args: argparse.Namespace) -> bool:
    """Return whether somebody reads the report; programs take the JSON."""
    return not args.json or args.html is not None


def _check_stream_options(args: argparse.Namespace) -> None:
    """Refuse what only makes sense together with --slim."""
    if args.slim is not None:
        return
    if str(args.core) == "-":
        hint = "postmortem core - --slim OUT, then postmortem core OUT"
        raise EvidenceError("standard input", "a report needs a core that is a file", hint=hint)
    if args.pid is not None:
        raise EvidenceError("--pid", "needs --slim")
