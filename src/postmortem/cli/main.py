"""The command ``postmortem``: finds the command's module, runs it, turns errors into exit codes.

Only the modules of the command that was asked for are imported; ``--help`` reads one line of each.
"""

import argparse
import atexit
import importlib
import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import NoReturn

from postmortem import underway
from postmortem.cli.commands import COMMANDS, CONTAINED, LIVE, command_of, in_full
from postmortem.cli.output import check_target
from postmortem.cli.parser import USAGE_ERROR, HelpFormatter, Parser, Version
from postmortem.entry import is_alone
from postmortem.errors import DebuggerError, EvidenceError, Refusal

_MODULES = {"import": "importing", "install-handler": "install_handler"}
"""Modules of this package that are called otherwise than their command.

Each has ``SUMMARY``, ``add_arguments(parser)`` and ``run(args)``, and in ``EXAMPLES`` the epilog of
its help; `prepare(args)`, where there is one, is called before the limits of `_limit` hold. One
that cannot be imported is an error, never a command that is not there.
"""

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

    `contained`: this process is watched by another (`cli.supervised`), and takes limits upon
    itself before it reads evidence.
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


def run_as_program(*, restore_interrupt: bool = False, contained: bool = False) -> NoReturn:
    """Run the command line of this process and end the process.

    What the interpreter does at its end, setting every module and object free, takes as long as
    a tenth of a report on a core. Where nobody could notice it is left out: what was registered
    with atexit has run, and all output is written.
    """
    alone = is_alone(sys._getframe(1))
    try:
        if restore_interrupt:  # now that there is somebody to catch it
            import signal

            signal.signal(signal.SIGINT, signal.default_int_handler)
        code = main(contained=contained)
    except KeyboardInterrupt:
        code = INTERRUPTED
    if restore_interrupt:  # another one comes too late
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    if not alone or not is_alone(sys._getframe(1)):
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


def _run(words: list[str], *, contained: bool) -> int:
    try:
        return _dispatch(words, contained=contained)
    except SystemExit as error:  # argparse, after --help or a usage error
        return error.code if isinstance(error.code, int) else USAGE_ERROR
    except BrokenPipeError:  # the reader has seen enough
        return 0
    except Refusal as error:
        complain(str(error), error.hint, words)
        return error.status
    except (EvidenceError, DebuggerError) as error:
        complain(str(error), error.hint, words)
    except OSError as error:
        what = error.strerror or str(error)
        where = error.filename or underway.path()  # a read that fails names no file
        lacking = "temporary directory" in what  # as tempfile says it
        hint = "set TMPDIR to a folder with room" if lacking else None
        complain(f"{where}: {what}" if where else what, hint, words)
    except MemoryError:
        underway.out_of_memory()
        if not contained:  # else who watches us tells it
            complain("there is not enough memory for this", None, words)
    except Exception as error:
        first = (str(error).splitlines() or [""])[0]
        complain(
            f"unexpected {type(error).__name__}: {first}".rstrip(": "),
            "this is a bug of postmortem: please report it with what POSTMORTEM_DEBUG=1 prints",
            words,
        )
    return NOT_ANALYSED


def _dispatch(words: list[str], *, contained: bool) -> int:
    words = in_full(words)
    command = command_of(words)
    alone = command in COMMANDS and words[0] == command
    parser, commands = _parser((words[0],) if alone else COMMANDS, only=command or "")
    if command is not None and command not in COMMANDS:
        parser.error(_unknown(command))
    if not words:
        parser.print_help(sys.stderr)
        return USAGE_ERROR
    args, unknown = parser.parse_known_args(words)
    if args.command is None:
        if unknown:
            parser.unknown(unknown)
        parser.error("name a command")
    if unknown:
        args.parser.unknown(unknown)
    refusal = check_target(args)
    if "" in words and args.command in CONTAINED:  # a path of it would be this folder
        refusal = "an argument is empty: is a variable of the shell unset?"
    if refusal is not None:
        parser.error(refusal)
    prepare = getattr(commands[args.command], "prepare", None)
    if prepare is not None:
        prepare(args)
    if contained:
        _limit(args, words)
    try:
        code = commands[args.command].run(args)
    except KeyboardInterrupt:
        told = getattr(commands[args.command], "INTERRUPTED", "no report was written")
        if hasattr(args, "exit_zero"):  # it writes reports
            print(f"postmortem: interrupted; {told}", file=sys.stderr)
        raise
    assert isinstance(code, int)
    return code


def _limit(args: argparse.Namespace, words: Sequence[str]) -> None:
    """Take the limits upon this process that a command has with its files."""
    from postmortem.readers.child_limits import limit, limits_for

    def told(what: str) -> None:
        print(f"postmortem: {what}", file=sys.stderr)

    live = args.command in LIVE and getattr(args, "read", None) is None
    files = (name for name in _named(args) if name != "-")
    processes = _looks_into_processes(args, words)
    limit(limits_for(files, told, live=live, processes=processes))


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


def _parser(
    names: Sequence[str], *, only: str | None = None
) -> tuple[Parser, dict[str, ModuleType]]:
    """Return the parser for these commands, and their modules.

    `only`: the command that is asked for, if any; of the others the help tells what they are for.
    """
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
        if only in (None, name):
            module.add_arguments(subparser)
        subparser.set_defaults(parser=subparser)
    return parser, modules


def _unknown(command: str) -> str:
    """Return what is wrong with a command that does not exist, and what may be meant."""
    from postmortem.render.safe import line

    if "/" in command or "." in command:
        return f"{line(command)}: no such file or folder"
    what = f"there is no command {line(command)!r}"
    import difflib

    near = difflib.get_close_matches(command, COMMANDS, n=1)
    return f"{what}; did you mean {near[0]}?" if near else what


def complain(what: str, hint: str | None, words: Sequence[str] = ()) -> None:
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
    if what.startswith("-: "):
        what = f"standard input: {what[3:]}"
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
            complain(f"standard output: {error.strerror or error}", None)
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
