"""The commands by name, and what is known of one before its module is imported."""

import os
from collections.abc import Sequence

COMMANDS: tuple[str, ...] = (
    "triage", "core", "strace", "logs", "scan", "hang", "run", "emulate", "bisect", "import",
    "attach", "watch", "net", "fleet", "flight", "diff", "demo", "doctor", "install-handler",
    "rules", "completion",
)  # fmt: skip
"""In the order of the help."""

LIVE = ("hang", "watch", "net", "fleet")
"""Those that read processes, or hear other hosts: in a child with a limit of memory alone."""
CONTAINED = ("core", "strace", "logs", "scan", "flight", "diff", "triage", *LIVE)
"""Those that read what may be hostile: in a child, under limits."""


_WITH_VALUE = ("-o", "--output", "--html", "--color", "--width", "--world-size")
"""Options of a report behind which a word is theirs."""


def in_full(words: Sequence[str]) -> list[str]:
    """Return a command line with its command first: a path alone is for triage."""
    command = command_of(words)
    if command is None or words[0] in ("-h", "--help", "-V", "--version", "--"):
        first = ["triage"] if command and os.path.lexists(command) else []
        return [*first, *words]
    if command in COMMANDS:
        at = words.index(command)
        return [command, *words[:at], *words[at + 1 :]]
    return ["triage", *words] if command == "-" or os.path.lexists(command) else [*words]


def command_of(words: Sequence[str]) -> str | None:
    """Return the first word that is no option, nor the value of one."""
    before = ("", *words)
    return next(
        (
            word
            for last, word in zip(before, words, strict=False)
            if (word == "-" or not word.startswith("-")) and last not in _WITH_VALUE
        ),
        None,
    )


def is_contained(words: Sequence[str]) -> bool:
    """Return whether a child does what a command line asks for; gdb takes our own place."""
    return command_of(in_full(words)) in CONTAINED and "--open-gdb" not in words
