"""One incident out of reports, with what is known of a process's text."""

from collections.abc import Sequence
from typing import Any

from postmortem.diagnose.incident.incident import Judged
from postmortem.diagnose.incident.incident import judge as judge_with
from postmortem.readers.signatures import Signatures


def judge(documents: Sequence[Any]) -> Judged:
    """Return what reports, as JSON has them, make of one incident."""
    return judge_with(documents, Signatures.load("process text").matches)
