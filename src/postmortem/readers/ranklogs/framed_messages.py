"""Messages in a frame of rules, as Fortran's run-times and libraries write them, or in a box."""

from collections.abc import Sequence

from postmortem.facts.last_lines import LastLine
from postmortem.patterns import Pattern
from postmortem.readers.ranklogs.last_words import AT_END, Ids, told_alone, wrong
from postmortem.records import replace

RULE = Pattern(
    r"^\s*(?:#{20,}|\*{20,}|={20,}|%{20,}|!{20,}|\+{20,}|-{20,}"
    r"|[╭╰┌└╔╚][─━═]+(?: [^─━═]+ )?[─━═]+[╮╯┐┘╗╝])\s*$"
)
_FRAME = Pattern(r"^[#*|%!+\s│┃║╭┌╔─━═]+|[#*|%!+\s│┃║╮┐╗─━═]+$")
_MOST_FRAMED = 12
"""What stands before and behind each line of a message in a frame, and how many it has."""


def head_in_frame(
    told: LastLine, lines: list[LastLine], ids: Sequence[Ids], rules: Sequence[int]
) -> LastLine:
    """Return what a message in a frame begins with, down to the line of it that was told.

    Of the head of a box, which stands in its rule, with all below it.
    """
    if RULE.match(told.text):
        end = min((at for at in rules if at > told.line), default=told.line)
        said = [_FRAME.sub("", one.text) for one in lines if told.line <= one.line < end]
        return replace(told, text=": ".join([said[0], " ".join(said[1:])])) if said[1:] else told
    above = max((at for at in rules if at < told.line), default=0)
    inside = [i for i, line in enumerate(lines) if above < line.line <= told.line]
    first = next((i for i in inside if wrong(ids[i]) or told_alone(ids[i], AT_END)), None)
    framed_below = any(told.line < at <= told.line + _MOST_FRAMED for at in rules)
    if not above or not framed_below or first is None or told.line - above > _MOST_FRAMED:
        return told
    text = " ".join(_FRAME.sub("", lines[i].text) for i in inside if i >= first)
    return lines[first] if lines[first] == told else replace(lines[first], text=text)
