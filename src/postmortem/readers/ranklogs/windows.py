"""Texts that a window broke to its width: PowerShell's, and what is copied out of a terminal."""

import re
from itertools import pairwise

from postmortem.readers.log_heads import in_utf_8

_UNDERLINED, _OF_POWERSHELL = b"\n+ ~", b":NativeCommandError"
_MARKS_BEGIN, _MARKED = "+ CategoryInfo", "NativeCommandError"
_FRAME = re.compile(r'File "[^"]+", line \d{1,9}, in \S')
_NAME = re.compile(r"[\w<>]{1,40}$")
"""The rest of a function's name below its frame; once alone it may be what was raised."""
_SURE = 2
_RULES = ("---", "===", "***", "───", "│", "╮", "╯", "|")
"""How lines end that something drew over the whole width."""
_NARROWEST = 60
"""Columns of a window in which a message still stands in a line or two."""


def is_broken(head: bytes) -> bool:
    """Return whether a text holds lines that a window broke to its width."""
    return is_narrow(head) or bool(_width(head))


def joined_lines(head: bytes) -> bytes:
    """Return what a window broke to its width, as it was: each in its place.

    PowerShell does so to all that a program writes to standard error, where the window is narrow,
    and a terminal to all that is copied out of it.
    """
    if terminal := _width(head):
        return _rejoined(in_utf_8(head).decode("utf-8", "replace"), terminal)
    if not is_narrow(head):
        return head
    lines = in_utf_8(head).decode("utf-8", "replace").replace("\r", "").split("\n")
    width = max(map(len, lines))
    whole: list[list[str]] = []
    parts: list[str] = []
    inside = False
    for above, line in pairwise(["", *lines]):
        room = width - len(above) if above else width
        full = room <= 1 or (above.endswith(" ") and room <= len(line.split(" ", 1)[0]))
        goes_on = inside or (full and line and not line[0].isspace())
        parts = parts if goes_on else []
        parts.append(line.strip() if inside else line)
        whole.append([] if goes_on else parts)
        ended = "".join(parts[-2:]).endswith(_MARKED)
        inside = not ended and (inside or line.lstrip().startswith(_MARKS_BEGIN))
    return "\n".join(map("".join, whole)).encode()


def is_narrow(head: bytes) -> bool:
    """Return whether a text holds what PowerShell broke to the width of a narrow window."""
    text = in_utf_8(head)
    marked = _UNDERLINED in text and _OF_POWERSHELL in b"".join(text.split())
    return marked and max(map(len, text.decode("utf-8", "replace").split("\n"))) <= _NARROWEST


def _width(head: bytes) -> int:
    """Return to which width a terminal broke a text, as frames of Python tell; 0: it did not."""
    if b'File "' not in head:
        return 0
    lines = in_utf_8(head).decode("utf-8", "replace").replace("\r", "").split("\n")
    widths: list[int] = []
    for at, line in enumerate(lines[:-1]):
        if _FRAME.search(line):
            widths += [len(line)] if _NAME.match(lines[at + 1]) else []
        elif 'File "' in line:
            more = next((n for n in (1, 2) if _FRAME.search("".join(lines[at : at + n + 1]))), 0)
            widths += [*map(len, lines[at : at + more])] * _SURE
    widest = max(map(len, lines))
    sure = len(widths) >= _SURE and set(widths) == {widest} and widest >= _NARROWEST
    return widest if sure else 0


def _rejoined(text: str, width: int) -> bytes:
    """Return a text with lines that go on where one above is as wide as the window."""
    whole: list[list[str]] = []
    parts: list[str] = []
    full = False
    for line in text.replace("\r", "").split("\n"):
        goes_on = full and line
        parts = parts if goes_on else []
        parts.append(line)
        whole.append([] if goes_on else parts)
        full = len(line) == width and not line.endswith(_RULES)
    return "\n".join(map("".join, whole)).encode()
