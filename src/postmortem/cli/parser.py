"""Parsers that say a usage error in one line, and lay help out alike in all Python versions."""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from postmortem._version import __version__

USAGE_ERROR = 2


class Parser(argparse.ArgumentParser):
    """An ArgumentParser whose errors are one line: what is wrong, and where help is."""

    def error(self, message: str) -> NoReturn:
        """Write the error and exit with 2."""
        name = self.prog
        told = message.replace("the following arguments are required:", "missing:")
        told = told.replace(", ...", "")
        if sys.stderr is not None:
            end = "" if told.endswith("?") else ";"
            print(f"{name}: error: {told}{end} see {name} --help", file=sys.stderr)
        sys.exit(USAGE_ERROR)

    def _print_message(self, message: str, file: Any = None) -> None:
        if file is sys.stdout is not None:  # argparse passes over a disk that is full
            from postmortem.cli.output import write_text

            write_text(message)
        else:
            super()._print_message(message, file)

    def unknown(self, words: Sequence[str]) -> NoReturn:
        """Refuse words that no option or argument takes, with the option that may be meant."""
        import difflib

        first = words[0].partition("=")[0]
        near = difflib.get_close_matches(first, list(self._option_string_actions), n=1)
        kind = "option" if first.startswith("-") else "argument"
        meant = f"; did you mean {near[0]}?" if near else ""
        self.error(f"unknown {kind} {first!r}{meant}")


class Version(argparse.Action):
    """Prints the version, and what this build and its Python are."""

    def __init__(self, option_strings: Sequence[str], dest: str, **kwargs: Any) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, **kwargs)

    def __call__(self, parser: argparse.ArgumentParser, *rest: object) -> None:
        """Print and exit."""
        from postmortem.cli.output import write_text

        write_text("\n".join(_build_facts()) + "\n")
        parser.exit()


def _build_facts() -> list[str]:
    import platform
    from importlib.util import find_spec
    from pathlib import Path

    folder = Path(__file__).parent.parent
    there = [name for name in ("_native", "_scan", "_cuda") if find_spec(f"postmortem.{name}")]
    extras = [name for name in ("lief", "pyarrow", "torch") if find_spec(name)]
    return [
        f"postmortem {__version__}",
        f"python     {platform.python_implementation()} {platform.python_version()}, "
        f"{platform.system()} {platform.machine()}, {' '.join(platform.libc_ver())}",
        f"extensions {', '.join(there)}" + ("" if "_cuda" in there else " (built without CUDA)"),
        f"beside     {', '.join(extras) or 'none of lief, pyarrow, torch'}",
        f"from       {folder}",
    ]


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Keeps the layout of epilogs and writes options the same way in all Python versions."""

    def __init__(self, prog: str, *args: Any, **kwargs: Any) -> None:
        # argparse makes a formatter for each option that is added, and asks shutil, which takes
        # 4 ms to import, for the width of each.
        super().__init__(prog, *args, **{"width": _width() - 2, **kwargs})

    def add_argument(self, action: argparse.Action) -> None:
        super().add_argument(action)
        for inner in self._iter_indented_subactions(action):  # Python 3.13 counts their indent
            length = len(self._format_action_invocation(inner)) + self._current_indent
            self._action_max_length = max(self._action_max_length, length)

    def _format_action(self, action: argparse.Action) -> str:
        text = super()._format_action(action)
        if isinstance(action, argparse._SubParsersAction):
            return text.partition("\n")[2]  # the line that only says COMMAND
        return text

    def _format_action_invocation(self, action: argparse.Action) -> str:
        # Python 3.13 changed "-o FILE, --output FILE" to "-o, --output FILE".
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        values = self._format_args(action, self._get_default_metavar_for_optional(action))
        return f"{', '.join(action.option_strings)} {values}"


def _width() -> int:
    """Return the columns of the terminal, as `shutil.get_terminal_size` does."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return int(columns)
    try:
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or 80  # type: ignore[union-attr]
    except (AttributeError, ValueError, OSError):  # standard output is closed, or no terminal
        return 80
