"""``postmortem completion``: what a shell needs to complete our command lines."""

import argparse
import re
from collections.abc import Iterator

SUMMARY = "print completions for bash, zsh or fish"
EXAMPLES = """\
examples:
  bash   postmortem completion bash > ~/.local/share/bash-completion/completions/postmortem
  zsh    postmortem completion zsh > "${fpath[1]}/_postmortem"
  fish   postmortem completion fish > ~/.config/fish/completions/postmortem.fish
"""

Commands = dict[str, argparse.ArgumentParser]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the argument of this command."""
    parser.add_argument("shell", metavar="SHELL", choices=tuple(_WRITERS), help="bash, zsh or fish")


def run(args: argparse.Namespace) -> int:
    """Print the completions."""
    from postmortem.cli.output import write_text

    write_text("\n".join(_WRITERS[args.shell](_commands())) + "\n")
    return 0


def _commands() -> Commands:
    """Return all commands with their parsers."""
    from postmortem.cli import emulate, main
    from postmortem.cli.commands import COMMANDS

    parser, _ = main._parser(COMMANDS)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            kinds = emulate.parser_of_kinds()
            kinds.description = action.choices["emulate"].description
            return {**action.choices, "emulate": kinds}
    raise AssertionError("the parser has no commands")


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Give what a command takes, and what its kinds take."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for kind in action.choices.values():
                yield from kind._actions


def _options(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return the options of a command, each name once."""
    return list({a.dest: a for a in _actions(parser) if a.option_strings}.values())


def _words(parser: argparse.ArgumentParser) -> list[str]:
    """Return what may stand at the place of an argument of a command, where that is a fixed set."""
    choices = (a.choices for a in parser._actions if not a.option_strings and a.choices)
    return [str(word) for some in choices for word in some]


def _files_too(parser: argparse.ArgumentParser) -> bool:
    """Return whether something else than those words may stand there: a folder, a command."""
    return not all(a.option_strings or a.choices for a in _actions(parser))


def _help(action: argparse.Action) -> str:
    """Return the first clause of an option's help, in characters that no shell reads."""
    told = re.split(r"[:;(]", action.help or "", maxsplit=1)[0].strip()
    return _plain(told)


def _plain(text: str) -> str:
    return re.sub(r"[^\w ,./-]", "", text)


_BASH = "mapfile -t COMPREPLY < <(compgen"
"""One reply a line: names of files may have blanks."""


def _bash(commands: Commands) -> Iterator[str]:
    yield "# bash completion for postmortem"
    yield "_postmortem() {"
    yield '  local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}"'
    yield '  if [ "$COMP_CWORD" -eq 1 ]; then'
    yield f'    {_BASH} -W "{" ".join(commands)} --help --version" -f -- "$cur")'
    yield "    return"
    yield "  fi"
    yield '  case "${COMP_WORDS[1]}:$prev" in'
    for name, parser in commands.items():
        for action in _options(parser):
            if action.choices:
                keys = "|".join(f"{name}:{word}" for word in action.option_strings)
                words = " ".join(map(str, action.choices))
                yield f'    {keys}) {_BASH} -W "{words}" -- "$cur"); return;;'
    yield "  esac"
    yield '  case "${COMP_WORDS[1]}:$cur" in'
    for name, parser in commands.items():
        words = " ".join(word for a in _options(parser) for word in a.option_strings)
        yield f'    {name}:-*) {_BASH} -W "{words}" -- "$cur");;'
        if _words(parser):
            fixed = " ".join(_words(parser))
            files = " -f" if _files_too(parser) else ""
            yield f'    {name}:*) {_BASH} -W "{fixed}"{files} -- "$cur");;'
    yield f'    *) {_BASH} -f -- "$cur");;'
    yield "  esac"
    yield "}"
    yield "complete -o filenames -F _postmortem postmortem"


def _zsh(commands: Commands) -> Iterator[str]:
    yield "#compdef postmortem"
    yield "_postmortem() {"
    yield "  if (( CURRENT == 2 )); then"
    yield "    local -a commands=("
    for name, parser in commands.items():
        yield f"      '{name}:{_plain(parser.description or '')}'"
    yield "    )"
    yield "    _describe command commands"
    yield "    _files"
    yield "    return"
    yield "  fi"
    yield '  local command="$words[2]"'
    yield "  shift words; (( CURRENT-- ))"
    yield '  case "$command" in'
    for name, parser in commands.items():
        yield f"    {name}) _arguments -s \\"
        for action in _options(parser):
            for word in action.option_strings:
                value = "" if action.nargs == 0 else f":{_value(action)}"
                yield f"      '{word}[{_help(action)}]{value}' \\"
        if _words(parser):
            yield f"      '1:argument:({' '.join(_words(parser))})' \\"
        yield f"      '*:argument:{'_files' if _files_too(parser) else ' '}';;"
    yield "  esac"
    yield "}"
    yield '_postmortem "$@"'


def _value(action: argparse.Action) -> str:
    name = str(action.metavar or action.dest).lower()
    return f"{name}:({' '.join(map(str, action.choices))})" if action.choices else f"{name}:_files"


def _fish(commands: Commands) -> Iterator[str]:
    yield "# fish completion for postmortem"
    for name, parser in commands.items():
        told = _plain(parser.description or "")
        yield f"complete -c postmortem -n __fish_use_subcommand -a {name} -d '{told}'"
    for name, parser in commands.items():
        where = f"complete -c postmortem -n '__fish_seen_subcommand_from {name}'"
        for action in _options(parser):
            flags = " ".join(
                f"-l {word[2:]}" if word.startswith("--") else f"-s {word[1:]}"
                for word in action.option_strings
            )
            value = "" if action.nargs == 0 else " -r"
            if action.choices:
                value = f" -x -a '{' '.join(map(str, action.choices))}'"
            yield f"{where} {flags}{value} -d '{_help(action)}'"
        if _words(parser):
            only = "" if _files_too(parser) else " -f"
            yield f"{where}{only} -a '{' '.join(_words(parser))}'"


_WRITERS = {"bash": _bash, "zsh": _zsh, "fish": _fish}
