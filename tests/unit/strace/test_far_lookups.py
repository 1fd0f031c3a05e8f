"""A look-up that failed long before the words on it is only possibly what they speak of."""

from pathlib import Path

import pytest

from postmortem.analyses.strace import StraceOptions, analyse
from postmortem.report.model import Confidence

LOOKUP = '7 stat("/opt/config.so", 0x7ff) = -1 ENOENT (No such file or directory)\n'
SAID = '7 write(2, "{words}"..., 70) = 70\n7 exit_group(1) = ?\n7 +++ exited with 1 +++\n'
CUT = "[Errno 2] No such file or direct"


@pytest.mark.parametrize(
    ("lines", "words", "confidence"),
    [
        (20, CUT, Confidence.LIKELY),
        (300, CUT, Confidence.POSSIBLE),
        (300, "No such file or directory: /opt/config.so", Confidence.LIKELY),
    ],
    ids=["near", "far", "far, but it names the file"],
)
def test_how_far(lines: int, words: str, confidence: Confidence, tmp_path: Path) -> None:
    log = tmp_path / "strace.txt"
    log.write_text(LOOKUP + "7 brk(NULL) = 0x5\n" * lines + SAID.format(words=words))
    (found,) = analyse([str(log)], StraceOptions()).diagnoses
    assert (found.id, found.confidence) == ("named_its_error", confidence)
