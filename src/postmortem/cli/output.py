"""Options that all reports share, and writing the report where they say."""

from __future__ import annotations

import argparse
import errno
import os
import stat
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from postmortem import underway
from postmortem.cli.arguments import adding, whole
from postmortem.errors import Refusal
from postmortem.partial import new_file
from postmortem.text import counted

if TYPE_CHECKING:
    from typing import TypedDict

    from postmortem.report.model import Report

    class _Look(TypedDict):
        width: int
        color: bool
        encoding: str


DEFAULT_WIDTH = 100
"""Width of a report that does not go to a terminal."""

_MOST_REFUSALS = 100
WIDEST = 160
"""A wider terminal is not filled: rows get too long to follow."""


class OutputError(Refusal):
    """A report cannot be written where it was asked for."""

    def __init__(self, where: str, what: str, *, hint: str | None = None) -> None:
        super().__init__(f"{where}: {what}", hint=hint)


def add_report_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that every command with a report has."""
    group = parser.add_argument_group("report")
    form = group.add_mutually_exclusive_group()
    in_form = adding(form)
    in_form("--json", "write JSON (default: text for a terminal)")
    in_form("--markdown", "write Markdown, to paste into an issue (default: text)")
    in_form(
        "--github",
        "write annotations of GitHub Actions, on the line of the failure (default: text)",
    )
    in_group = adding(group)
    in_group("--html FILE", "also write one HTML file that needs no network (default: none)")
    in_group("-o --output FILE", "write to FILE, whole or not at all (default: standard output)")
    in_group(
        "--color",
        "colour the text (default: auto, only on a terminal and without NO_COLOR)",
        choices=("auto", "always", "never"),
        default="auto",
    )
    in_group(
        "--width COLUMNS",
        f"width of the text (default: that of the terminal, else {DEFAULT_WIDTH})",
        type=whole(40, 1000),
    )
    in_group(
        "-v --verbose",
        "the whole report: all evidence, stacks, full names, skipped rules (default: a card "
        "of at most 15 lines)",
    )
    in_group("-q --quiet", "write the verdict alone, and no progress (default: the card)")
    in_group(
        "--no-pager",
        "write a long report as it is (default: on a terminal through $PAGER, else less)",
    )
    in_group("--exit-zero", "exit with 0 when a failure was found (default: 1)")
    in_group("--no-redact", "show values that look secret (default: masked)")


def timed(report: Report, began: float) -> Report:
    """Return the report with the seconds since `began`, of the monotonic clock, in its footer."""
    from postmortem.records import replace

    return replace(report, footer=(f"{time.monotonic() - began:.2f} s", *report.footer))


def emit(report: Report, args: argparse.Namespace) -> int:
    """Write the report as the options say and return the exit code: 0, or 1 for a failure."""
    target: str | None = args.output
    page: str | None = args.html
    report = _with_refusals(report)
    if not report.masked and not args.no_redact:  # the last place that no output can pass by
        from postmortem.report.redact import Redactor

        report = Redactor().report(report)
    from postmortem.present.card import filled

    report = filled(report)
    underway.writing()
    try:
        if page is not None:
            path = Path(page)
            _refuse_evidence(path, [source.path for source in report.inputs] + _named(args))
            _write_file(path, _page(report))
        if target is None or target == "-":
            _write_standard(_rendered(report, args, sys.stdout), args)
        else:
            path = Path(target)
            _refuse_evidence(path, [source.path for source in report.inputs] + _named(args))
            _write_file(path, _rendered(report, args, None))
    except BrokenPipeError:  # the reader (head, less) has seen enough; the finding stands
        pass
    return 1 if report.failed and not args.exit_zero else 0


def _with_refusals(report: Report) -> Report:
    """Return the report with all files that were not opened among its problems."""
    told = {problem.where for problem in report.problems}
    refused = {**dict(underway.refusals), **underway.refused}
    left = [(path, why) for path, why in refused.items() if path not in told]
    if not left:
        return report
    from postmortem.facts.source import Problem
    from postmortem.records import replace

    rows = [Problem(path, f"was left out: it {why}") for path, why in left[:_MOST_REFUSALS]]
    if len(left) > len(rows):
        rows.append(Problem("files", f"{len(left) - len(rows):,} more were left out like these"))
    return replace(report, problems=(*report.problems, *rows))


def write_text(text: str) -> None:
    """Write text to standard output, whatever characters it takes."""
    if sys.stdout is None:
        raise OutputError("standard output", "it is closed", hint="write to a file with -o FILE")
    encoding = sys.stdout.encoding or "ascii"
    try:
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError("standard output", _reason(error)) from error


def check_target(args: argparse.Namespace) -> str | None:
    """Return why the file for the report cannot be written, before hours go into making it."""
    output: str | None = getattr(args, "output", None)
    page: str | None = getattr(args, "html", None)
    if page is not None and page in (output, "-"):
        return f"--html {page}: the page needs a file of its own"
    return _refusal("-o", None if output == "-" else output) or _refusal("--html", page)


def _refusal(option: str, target: str | None) -> str | None:
    if target is None:
        return None
    if target == "":
        return f"{option}: the name of the file is empty"
    path = Path(target)
    if path.is_dir():
        return f"{option} {target}: is a folder; name a file in it"
    if not path.parent.is_dir():
        return f"{option} {target}: there is no folder {path.parent}"
    if not path.exists() and not os.access(path.parent, os.W_OK):
        return f"{option} {target}: the folder {path.parent.resolve()} is not writable"
    return None


def use_color(choice: str, stream: TextIO | None, environ: Mapping[str, str]) -> bool:
    """Return whether to colour: the option decides, then NO_COLOR, FORCE_COLOR, the stream.

    The conventions are those of no-color.org and force-color.org: any value that is not empty.
    """
    if choice != "auto":
        return choice == "always"
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return _is_terminal(stream) and environ.get("TERM") not in ("dumb", "unknown")


def page_width(asked: int | None, stream: TextIO | None) -> int:
    """Return how wide to set text: as asked, else the terminal's width."""
    if asked is not None:
        return asked
    if stream is None or not _is_terminal(stream):
        return DEFAULT_WIDTH
    try:
        columns = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        columns = 0
    return min(columns or DEFAULT_WIDTH, WIDEST)  # 0: some terminals in containers do not say


def _rendered(report: Report, args: argparse.Namespace, stream: TextIO | None) -> str:
    import io

    out = io.StringIO()
    if args.json:
        from postmortem.render import json

        json.render(report, out)
    elif args.markdown:
        from postmortem.present.card import card_of
        from postmortem.render import markdown

        markdown.render(report, out, verbose=args.verbose, card=card_of(report))
    elif args.github:
        from postmortem.present.card import card_of
        from postmortem.render import github

        root = Path(os.environ.get("GITHUB_WORKSPACE") or Path.cwd())
        github.render(report, card_of(report), out, root)
    elif args.quiet:
        from postmortem.render.safe import encodable, line

        unread = (
            f" ({counted(len(report.problems), 'problem')})"
            if report.problems and not report.failed
            else ""
        )
        out.write(encodable(line(report.verdict) + unread, _encoding(stream)) + "\n")
    elif is_whole(args):
        from postmortem.render import terminal

        terminal.render(report, out, **_look(args, stream), verbose=args.verbose)
    else:
        from postmortem.present.card import card_of
        from postmortem.render import card

        look = _look(args, stream)
        links = _is_terminal(stream) and look["color"]
        card.render(card_of(report), out, **look, links=links)
    return out.getvalue()


def is_whole(args: argparse.Namespace) -> bool:
    """Return whether more than the card is asked for: -v, or an option whose answer it lacks."""
    return args.verbose or any(getattr(args, name) for name in getattr(args, "whole_with", ()))


def _look(args: argparse.Namespace, stream: TextIO | None) -> _Look:
    return {
        "width": page_width(args.width, stream),
        "color": use_color(args.color, stream, os.environ if stream else {}),
        "encoding": _encoding(stream),
    }


def _encoding(stream: TextIO | None) -> str:
    return (stream.encoding or "ascii") if stream else "utf-8"


def _page(report: Report) -> str:
    import io

    from postmortem.present.card import card_of
    from postmortem.render import html

    out = io.StringIO()
    html.render(report, out, card=card_of(report))
    return out.getvalue()


def _write_standard(text: str, args: argparse.Namespace) -> None:
    buffer = getattr(sys.stdout, "buffer", None)
    if not args.json or buffer is None:
        if sys.stdout is not None:
            from postmortem.cli import pager

            long = is_whole(args) and not (args.markdown or args.github) and not args.no_pager
            command = pager.wanted(text, sys.stdout, os.environ, asked=long)
            if command and pager.show(text, command, sys.stdout):
                return
        write_text(text)
        return
    try:  # JSON is UTF-8 in every locale (RFC 8259, section 8.1)
        sys.stdout.flush()
        buffer.write(text.encode())
        buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError("standard output", _reason(error)) from error


def _write_file(path: Path, text: str) -> None:
    """Write a file so that it is there whole or as it was before."""
    final = Path(os.path.realpath(path))  # a link stays a link
    try:
        if path.exists() and not stat.S_ISREG(path.stat().st_mode):
            path.write_text(text, encoding="utf-8")  # a pipe, /dev/null, /dev/stderr
            return
        with new_file(final) as stream:
            stream.write(text.encode())
            if final.exists():
                os.fchmod(stream.fileno(), stat.S_IMODE(final.stat().st_mode))
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(str(path), _reason(error)) from error


def _named(args: argparse.Namespace) -> list[str]:
    """Return the evidence as the user named it: in the report a name may be masked."""
    named = (getattr(args, name, None) or () for name in ("cores", "logs", "files", "paths"))
    return [str(path) for paths in named for path in paths]


def _refuse_evidence(path: Path, evidence: Iterable[str]) -> None:
    for source in evidence:
        try:
            same = path.samefile(source)
        except OSError:
            continue
        if same:
            raise OutputError(
                str(path), "is the evidence itself", hint="give -o the name of another file"
            )


def _reason(error: OSError) -> str:
    if error.errno == errno.EBADF:
        return "it is closed"
    return f"cannot be written: {error.strerror or error}"


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False
