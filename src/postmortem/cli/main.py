"""The command ``postmortem``: finds the command's module, runs it, turns errors into exit codes.

Only the modules of the command that was asked for are imported; ``--help`` reads one line of each.
"""

import argparse
import atexit
import importlib
import os
import sys
from collections.abc import Sequence
from types import FrameType, ModuleType
from typing import NoReturn

from postmortem import underway
from postmortem.cli.output import OutputError, check_target
from postmortem.cli.parser import USAGE_ERROR, HelpFormatter, Parser, Version
from postmortem.errors import DebuggerError, EvidenceError

COMMANDS: tuple[str, ...] = (
    "triage",
    "core",
    "strace",
    "logs",
    "scan",
    "hang",
    "run",
    "emulate",
    "bisect",
    "import",
    "attach",
    "watch",
    "net",
    "fleet",
    "flight",
    "diff",
    "demo",
    "doctor",
    "install-handler",
    "rules",
    "completion",
)
"""Modules of this package, in the order of the help; see `_MODULES` for those of another name.

Each has ``SUMMARY``, ``add_arguments(parser)`` and ``run(args)``, and in ``EXAMPLES`` the epilog of
its help; `prepare(args)`, where there is one, is called before the command's evidence is read in a
child. One that cannot be imported is an error, never a command that is not there.
"""

_MODULES = {"import": "importing", "install-handler": "install_handler"}
_CONTAINED = ("core", "strace", "logs", "scan", "flight", "diff", "triage")
"""Those that read files that may be hostile: in a child, under limits."""
_CONTAINED_LIVE = ("hang", "watch", "net", "fleet")
"""Those that read processes, or hear other hosts: with a limit of memory alone."""

NOT_ANALYSED = 3
INTERRUPTED = 130

_DESCRIPTION = "Explain dead training jobs from what they left behind."
_EPILOG = """\
exit codes:
  0  analysed, nothing wrong was found      2  usage error
  1  analysed, a failure was found          3  the input could not be analysed

examples:
  postmortem job-4711/                      all evidence of a job: one verdict (triage)
  postmortem core core-python-3097667-6
"""


def main(argv: Sequence[str] | None = None, *, contained: bool = False) -> int:
    """Run a command line and return its exit code.

    Where it is `contained`, what reads evidence does so in a child, under limits: two processes
    return from here, the child with the code that is also ours.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        code = _run(words, contained=contained)
        underway.writing()
        return _flushed(code)
    except KeyboardInterrupt:
        underway.writing()
        _drop_output()
        return INTERRUPTED


def run_as_program(*, restore_interrupt: bool = False) -> NoReturn:
    """Run the command line of this process and end the process.

    What the interpreter does at its end, setting every module and object free, takes as long as
    a tenth of a report on a core. Where nobody could notice it is left out: what was registered
    with atexit has run, and all output is written.
    """
    alone = _is_alone(sys._getframe(1))
    try:
        if restore_interrupt:  # now that there is somebody to catch it
            import signal

            signal.signal(signal.SIGINT, signal.default_int_handler)
        code = main(contained=alone)
    except KeyboardInterrupt:
        code = INTERRUPTED
    if not alone or not _is_alone(sys._getframe(1)):
        sys.exit(code)
    try:
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except (OSError, ValueError):  # `main` has told of it if it could
        pass
    underway.finished(code)
    os._exit(code)


_STARTERS = ("runpy", "postmortem.entry")


def _is_alone(frame: FrameType | None) -> bool:
    """Return whether only the interpreter waits for this program, from its outermost frame on.

    A profiler, a debugger and a test call the program and go on when it is over; so does a thread
    that is no daemon, and ``python -i``.
    """
    if sys.flags.inspect or sys.gettrace() is not None or sys.getprofile() is not None:
        return False
    while frame is not None:
        name = frame.f_globals.get("__name__")
        if name not in _STARTERS and (name, frame.f_code.co_name) != ("__main__", "<module>"):
            return False
        frame = frame.f_back
    threading = sys.modules.get("threading")
    if threading is None:
        return True
    main_thread = threading.main_thread()
    return all(thread is main_thread or thread.daemon for thread in threading.enumerate())


def _run(words: list[str], *, contained: bool) -> int:
    try:
        return _dispatch(words, contained=contained)
    except SystemExit as error:  # argparse, after --help or a usage error
        return error.code if isinstance(error.code, int) else USAGE_ERROR
    except BrokenPipeError:  # the reader has seen enough
        return 0
    except (EvidenceError, DebuggerError, OutputError) as error:
        _complain(str(error), error.hint, words)
    except OSError as error:
        what = error.strerror or str(error)
        _complain(f"{error.filename}: {what}" if error.filename else what, None, words)
    except MemoryError:
        underway.out_of_memory()
        if not contained:  # else who watches us tells it
            _complain("there is not enough memory for this", None, words)
    except Exception as error:
        first = (str(error).splitlines() or [""])[0]
        _complain(
            f"unexpected {type(error).__name__}: {first}".rstrip(": "),
            "this is a bug of postmortem: please report it with what POSTMORTEM_DEBUG=1 prints",
            words,
        )
    return NOT_ANALYSED


def _dispatch(words: list[str], *, contained: bool) -> int:
    command = next((word for word in words if not word.startswith("-")), None)
    if command is not None and command not in COMMANDS and os.path.lexists(command):
        words = ["triage", *words]  # a path and no command
        command = "triage"
    alone = command in COMMANDS and words[0] == command
    parser, commands = _parser((words[0],) if alone else COMMANDS)
    if command is not None and command not in COMMANDS:
        parser.error(_unknown(command))
    if not words:
        parser.print_help(sys.stderr)
        return USAGE_ERROR
    args, unknown = parser.parse_known_args(words)
    if args.command is None:
        parser.error("name a command")
    if unknown:
        args.parser.unknown(unknown)
    refusal = check_target(args)
    if refusal is not None:
        parser.error(refusal)
    prepare = getattr(commands[args.command], "prepare", None)
    if prepare is not None:
        prepare(args)
    live = args.command in _CONTAINED_LIVE and getattr(args, "read", None) is None
    if contained and args.command in (*_CONTAINED, *_CONTAINED_LIVE):
        from postmortem.cli import supervised

        try:
            ended = supervised.supervise(
                _named(args), live=live, processes=_looks_into_processes(args, words)
            )
        except supervised.Unfinished as error:
            _complain(str(error), error.hint)
            return NOT_ANALYSED
        if ended is not None:
            return ended
    code = commands[args.command].run(args)
    assert isinstance(code, int)
    return code


def _named(args: argparse.Namespace) -> list[str]:
    """Return the files that a command line names."""
    names = ("cores", "logs", "files", "paths", "read")
    found = (getattr(args, name, None) or () for name in names)
    two = [args.a, args.b] if args.command == "diff" else []
    return [*two, *(str(path) for paths in found for path in paths)]


def _looks_into_processes(args: argparse.Namespace, words: Sequence[str]) -> bool:
    """Return whether a process is dumped, or files are read through one (/proc/PID/root/...)."""
    dumped = args.command == "core" and args.pid is not None
    return dumped or any("/proc/" in word for word in words)


def _parser(names: Sequence[str]) -> tuple[Parser, dict[str, ModuleType]]:
    """Return the parser for these commands, and their modules."""
    parser = Parser(
        prog="postmortem",
        usage="postmortem [-h] [-V] COMMAND ... | PATH...",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=HelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "-V", "--version", action=Version, help="show the version, and how this was built, and exit"
    )
    subparsers = parser.add_subparsers(
        title="commands", dest="command", metavar="COMMAND", prog="postmortem"
    )
    modules: dict[str, ModuleType] = {}
    for name in names:
        module = importlib.import_module(f"postmortem.cli.{_MODULES.get(name, name)}")
        modules[name] = module
        subparser = subparsers.add_parser(
            name,
            help=module.SUMMARY,
            description=f"{module.SUMMARY[0].upper()}{module.SUMMARY[1:]}.",
            epilog=getattr(module, "EXAMPLES", None),
            formatter_class=HelpFormatter,
            allow_abbrev=False,
        )
        module.add_arguments(subparser)
        subparser.set_defaults(parser=subparser)
    return parser, modules


def _unknown(command: str) -> str:
    """Return what is wrong with a command that does not exist, and what may be meant."""
    from postmortem.render.safe import line

    what = f"there is no command {line(command)!r}"
    import difflib

    near = difflib.get_close_matches(command, COMMANDS, n=1)
    return f"{what}; did you mean {near[0]}?" if near else what


def _complain(what: str, hint: str | None, words: Sequence[str] = ()) -> None:
    """Write an error as one line and a hint, and with POSTMORTEM_DEBUG its traceback before.

    It may quote evidence: secrets are masked, unless the command's words say otherwise.
    """
    from postmortem.render.safe import line

    if "--no-redact" not in words:
        from postmortem.report.redact import Redactor

        redactor = Redactor()
        what, hint = redactor.text(what), hint and redactor.text(hint)

    if sys.stderr is None:
        return
    underway.writing()
    try:
        if os.environ.get("POSTMORTEM_DEBUG", "0") not in ("", "0"):
            import traceback

            traceback.print_exc()
        print(f"postmortem: {line(what)}", file=sys.stderr)
        if hint:
            print(f"hint: {line(hint)}", file=sys.stderr)
    except (OSError, ValueError):  # standard error is closed: the exit code says it
        return


def _flushed(code: int) -> int:
    """Write what is still in the buffer of standard output: at exit it would be too late to tell.

    Python flushes at shutdown and prints "Exception ignored" when the reader is gone.
    """
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()
    except OSError as error:
        _drop_output()
        if code != NOT_ANALYSED:  # else it was told already
            _complain(f"standard output: {error.strerror or error}", None)
        return NOT_ANALYSED
    except ValueError:  # closed by the program that called us
        return code
    return code


def _drop_output() -> None:
    """Let the flush at shutdown go nowhere."""
    try:
        descriptor = sys.stdout.fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, descriptor)
        os.close(nowhere)
    except (AttributeError, OSError, ValueError):
        return
