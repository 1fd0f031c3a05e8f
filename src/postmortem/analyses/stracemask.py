"""What exports of a log may show: paths and command lines, secrets masked unless told otherwise."""

from pathlib import PurePosixPath

from postmortem.analyses import masking
from postmortem.patterns import Pattern

_INTERPRETER = Pattern(r"(?:python|pypy)[0-9.]*|bash|sh|dash|zsh|perl|ruby|node")
_LONGEST_NAME = 80


class Masking(masking.Masking):
    """Masks what looks secret; it learns from the command lines that a log shows."""

    def name(self, argv: list[str]) -> str:
        """Return a short name of a command line: the program, and the script that it runs."""
        return program_name(self.words(argv))

    def learn(self, argv: list[str]) -> None:
        """Take note of the secrets in a command line."""
        if self.redactor is not None:
            self.redactor.learn_argv(argv)


def program_name(argv: list[str]) -> str:
    """Return what people call a command: ``python train.py``, ``python -m json.tool``."""
    if not argv:
        return ""
    program = PurePosixPath(argv[0]).name or argv[0]
    script = ""
    if _INTERPRETER.fullmatch(program):
        words = iter(argv[1:])
        for word in words:
            if word in ("-m", "-c", "-e"):
                script = f" {word} {next(words, '').split(chr(10), 1)[0]}"
                break
            if not word.startswith("-"):
                script = f" {PurePosixPath(word).name}"
                break
    return (program + script)[:_LONGEST_NAME]
