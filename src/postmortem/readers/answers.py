"""What other programs answer, asked once and never waited for in vain."""

import subprocess
from collections.abc import Sequence


def answer_of(
    command: Sequence[str], *, seconds: float
) -> subprocess.CompletedProcess[bytes] | str:
    """Return what a program printed, and its status; or why it gave no answer, in words."""
    try:
        return subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return f"gave no answer within {seconds:.0f} s"
    except OSError as error:
        return f"cannot be started: {error.strerror}"
