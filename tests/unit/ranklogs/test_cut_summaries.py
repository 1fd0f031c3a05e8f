"""A message that a summary cuts off is told whole where the log has it."""

import pytest

from postmortem.facts.last_lines import LastLine
from postmortem.readers.ranklogs.cut_summaries import with_whole_messages

_WHOLE = "E   ValueError: bad shape (3, 4) of item 7"


def _line(text: str) -> LastLine:
    return LastLine(text, "out.log", 1)


@pytest.mark.parametrize(
    ("summary", "told"),
    [
        ("FAILED t.py::a - ValueError: bad s...", f"FAILED t.py::a - {_WHOLE[4:]}"),
        ("FAILED t.py::a - KeyError: 'bad s...", None),
        ("FAILED t.py::a - Value...", None),
        ("FAILED t.py::a - ValueError: bad shape", None),
        ("FAILED t.py::a", None),
    ],
    ids=["cut", "another", "too short to know it again", "not cut", "no message"],
)
def test_of_what_is_cut_the_whole_is_told(summary: str, told: str | None) -> None:
    found = with_whole_messages([_line(summary)], [_line(_WHOLE), _line(summary)])
    assert [one.text for one in found] == [told or summary]
