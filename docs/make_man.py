"""Writes the man pages, docs/man/*.1, from the parsers: ``python docs/make_man.py``."""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from postmortem._version import __version__
from postmortem.cli import main
from postmortem.cli.commands import COMMANDS

FOLDER = Path(__file__).parent / "man"
_EXIT = """\
0: analysed, nothing wrong was found. 1: analysed, a failure was found. 2: usage error.
3: the input could not be analysed.
"""


def pages() -> dict[str, str]:
    """Return all pages by their file names."""
    parser, modules = main._parser(COMMANDS)
    commands = next(
        action.choices for action in parser._actions if isinstance(action.choices, dict)
    )
    found = {
        "postmortem.1": "\n".join(_overview({n: m.SUMMARY for n, m in modules.items()})) + "\n"
    }
    for name, module in modules.items():
        lines = _command(name, module.SUMMARY, commands[name], getattr(module, "EXAMPLES", None))
        found[f"postmortem-{name}.1"] = "\n".join(lines) + "\n"
    return found


def _overview(summaries: dict[str, str]) -> Iterator[str]:
    yield from _head("postmortem", "explain dead training jobs from what they left behind")
    yield ".SH SYNOPSIS\n.B postmortem\n.I COMMAND\n[options]"
    yield ".br\n.B postmortem\n.I PATH..."
    yield ".SH COMMANDS"
    for name, summary in summaries.items():
        yield f".TP\n.BR postmortem-{_safe(name)} (1)\n{_safe(summary)}"
    yield f".SH EXIT STATUS\n{_EXIT.strip()}"


def _command(
    name: str, summary: str, parser: argparse.ArgumentParser, examples: str | None
) -> Iterator[str]:
    yield from _head(f"postmortem-{name}", summary)
    words = " ".join(_times(a, _argument(a)) for a in parser._actions if not a.option_strings)
    _, _, own = (parser.usage or "").partition(f"{name} ")
    yield f".SH SYNOPSIS\n.B postmortem {_safe(name)}\n{_safe(own or f'[options] {words}')}"
    for group in parser._action_groups:
        actions = [a for a in group._group_actions if a.help != argparse.SUPPRESS]
        if actions:
            yield f".SH {_safe(str(group.title)).upper()}"
            for action in actions:
                yield f".TP\n.B {_safe(_invocation(action))}\n{_safe(_help(action))}"
    if examples:
        yield ".SH EXAMPLES\n.nf"
        yield from (_safe(line) for line in examples.rstrip().splitlines()[1:])
        yield ".fi"
    if any(action.dest == "exit_zero" for action in parser._actions):
        yield f".SH EXIT STATUS\n{_EXIT.strip()}"
    yield ".SH SEE ALSO\n.BR postmortem (1)"


def _head(name: str, summary: str) -> Iterator[str]:
    yield f'.TH {_safe(name).upper()} 1 "" "postmortem {__version__}" "User Commands"'
    yield f".SH NAME\n{_safe(name)} \\- {_safe(summary)}"


def _argument(action: argparse.Action) -> str:
    choices = "|".join(map(str, action.choices or ()))
    return str(action.metavar or choices or action.dest.upper())


def _times(action: argparse.Action, value: str) -> str:
    """Return a value as often as it may stand."""
    forms = {"?": "[{}]", "*": "[{}...]", "+": "{}..."}
    return forms.get(str(action.nargs), "{}").format(value)


def _invocation(action: argparse.Action) -> str:
    if not action.option_strings:
        return _argument(action)
    value = ""
    if action.nargs != 0:
        value = f" {_times(action, _argument(action))}"
    return ", ".join(action.option_strings) + value


def _help(action: argparse.Action) -> str:
    return (action.help or "").replace("%%", "%")


def _safe(text: str) -> str:
    """Return text that roff takes as it is."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text.startswith((".", "'")) else text


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for file_name, page in pages().items():
        (FOLDER / file_name).write_text(page, encoding="utf-8")
    sys.stdout.write(f"{len(pages())} pages in {FOLDER}\n")
