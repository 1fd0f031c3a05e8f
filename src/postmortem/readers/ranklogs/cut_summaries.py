"""What pytest's summary cuts off at the width of a terminal stands above, behind ``E``."""

from collections.abc import Sequence

from postmortem.facts.last_lines import LastLine
from postmortem.records import replace

_CUT = "..."
_BETWEEN = " - "
_FEWEST = 12
"""Letters of a message by which it is known again."""


def with_whole_messages(
    errors: Sequence[LastLine], lines: Sequence[LastLine]
) -> tuple[LastLine, ...]:
    """Return errors, those that are cut with their whole message where one of the lines has it."""
    said = [line.text[2:].strip() for line in lines if line.text.startswith("E ")]
    return tuple(_whole(error, said) for error in errors)


def _whole(error: LastLine, said: Sequence[str]) -> LastLine:
    test, between, message = error.text.rstrip().partition(_BETWEEN)
    begin = message.removesuffix(_CUT)
    if begin == message or len(begin) < _FEWEST:
        return error
    whole = next((text for text in said if text.startswith(begin)), None)
    return error if whole is None else replace(error, text=f"{test}{between}{whole}")
