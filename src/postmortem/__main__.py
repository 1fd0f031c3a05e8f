"""``python -m postmortem``: the same as the command ``postmortem``."""

from postmortem.cli.main import run_as_program

run_as_program()
