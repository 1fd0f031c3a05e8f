"""``postmortem flight``: the last frames of the numerics monitor of a process that is gone."""

import argparse

from postmortem.cli.arguments import adding

SUMMARY = "show the last frames of a flight file, which the numerics monitor wrote"
EXAMPLES = """\
examples:
  postmortem flight run/rank0.flight
  postmortem flight run/*.flight --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    add = adding(parser)
    add("files FILE", "a flight file", nargs="+")
    add("--frames N", "how many frames (default: 21)", type=int, default=21)
    add("--json", "write JSON (default: text)")
    add("--no-redact", "show values that look secret (default: masked)")


def run(args: argparse.Namespace) -> int:
    """Print the files; return 1 if numbers are bad in any, 3 if one is no flight file."""
    from postmortem.monitor.flight import show

    return show(args.files, frames=args.frames, json=args.json, redact=not args.no_redact)
