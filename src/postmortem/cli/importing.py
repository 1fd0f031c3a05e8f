"""``postmortem import``: why an import fails, crashes or takes long."""

import argparse

from postmortem.cli.arguments import adding, number
from postmortem.cli.output import add_report_options, emit

SUMMARY = "say why an import fails, crashes, hangs or takes long"
EXAMPLES = """\
examples:
  postmortem import torch
  postmortem import flash_attn --python /opt/env/bin/python

The module is imported for real, in a process of its own and in the current folder, as
python -c 'import NAME' does.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    add = adding(parser)
    add("name NAME", "the module: torch, a.b.c", type=_name)
    add("--python EXE", "the Python to import it with (default: this one)")
    add(
        "--timeout S",
        "end it after S seconds and say where it stood (default: 120)",
        type=number(0, 86_400, "a number of seconds above 0", above=True),
        default=120.0,
    )
    add_report_options(parser)


def run(args: argparse.Namespace) -> int:
    """Import it, write the report, return the exit code."""
    from postmortem.analyses.importing import analyse

    return emit(analyse(args.name, python=args.python, seconds=args.timeout), args)


def _name(text: str) -> str:
    if not all(part.isidentifier() for part in text.split(".")):
        raise argparse.ArgumentTypeError(f"{text!r} is not the name of a module")
    return text
