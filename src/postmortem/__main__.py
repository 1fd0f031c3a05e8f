"""``python -m postmortem``: the same as the command ``postmortem``."""

from postmortem.entry import run

run()
