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


def in_full(words: Sequence[str]) -> list[str]:
    """Return a command line with the command that it leaves out: a path alone is for triage."""
    command = command_of(words)
    path = command is not None and command not in COMMANDS and os.path.lexists(command)
    return ["triage", *words] if path else [*words]


def command_of(words: Sequence[str]) -> str | None:
    """Return the first word that is no option."""
    return next((word for word in words if not word.startswith("-")), None)


def is_contained(words: Sequence[str]) -> bool:
    """Return whether a child does what a command line asks for; gdb takes our own place."""
    return command_of(in_full(words)) in CONTAINED and "--open-gdb" not in words
