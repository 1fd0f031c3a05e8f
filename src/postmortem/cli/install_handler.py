"""``postmortem install-handler``: have the kernel hand cores to us."""

import argparse
from pathlib import Path

from postmortem.cli.arguments import adding, number, size_in_bytes

SUMMARY = "have the kernel hand each core to postmortem: a slim core and its verdict"
EXAMPLES = """\
examples:
  sudo postmortem install-handler
  sudo postmortem install-handler --into /scratch/cores --most 50G --days 7
  sudo postmortem install-handler --undo
  sudo postmortem install-handler --socket /run/postmortem/core.socket

It lasts until the next boot. With --socket it is this process that takes the cores, and
core_pattern is as before when it ends.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    add = adding(parser)
    add(
        "--into DIR",
        "where slim cores and verdicts are kept (default: /var/lib/postmortem/cores)",
        type=_folder,
        default=Path("/var/lib/postmortem/cores"),
    )
    add(
        "--most SIZE",
        "what they may take together; the oldest are removed (default: 10G)",
        type=size_in_bytes,
        default=10 << 30,
    )
    add(
        "--days N",
        "how long they are kept (default: 30)",
        type=number(0, 36500, "a number of days", above=True),
        default=30.0,
    )
    add(
        "--socket PATH",
        "listen on a socket for the kernel's cores (Linux 6.17 or later) until ended, and set "
        "core_pattern back then",
        type=Path,
    )
    add(
        "--replace",
        "also where cores go to systemd-coredump, apport or ABRT, which are left as they are",
    )
    add("--dry-run", "show the steps and do none")
    add("--undo --remove", "set core_pattern as it was before; cores stay")


def run(args: argparse.Namespace) -> int:
    """Install or remove the handler, or be it."""
    from postmortem.handler import installing

    if args.undo:
        installing.undo(dry=args.dry_run, say=_say)
    elif args.socket is not None and not args.dry_run:
        from postmortem.handler.server import serve
        from postmortem.handler.settings import Settings

        settings = Settings(str(args.into), args.most, args.days, "", "")
        serve(args.socket, settings, replace=args.replace, ready=_say)
    elif args.socket is not None:
        _say(f"would do: core_pattern: {installing.current()!r} -> '@@{args.socket}'")
    else:
        installing.install(
            args.into,
            most_bytes=args.most,
            most_days=args.days,
            replace=args.replace,
            dry=args.dry_run,
            say=_say,
        )
        if not args.dry_run:
            _say("to go back: postmortem install-handler --undo")
    return 0


def _say(words: str) -> None:
    from postmortem.cli.output import write_text
    from postmortem.render.safe import line

    write_text(f"{line(words)}\n")


def _folder(text: str) -> Path:
    if not text.startswith("/"):
        raise argparse.ArgumentTypeError(f"{text!r} is not an absolute path")
    return Path(text)
