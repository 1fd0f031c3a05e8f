"""Ports, hosts and interfaces in the messages of stores."""

from __future__ import annotations

from postmortem.diagnose.names import clip
from postmortem.patterns import Pattern

_PORT = Pattern(r"port: (\d+)|\[?[\w.:-]+\]?:(\d{2,5})\b")
_HOST = Pattern(r"\(([\w.-]+), \d+\)|host ([\w.-]+)")
_INTERFACE = Pattern(r"(?:address for|interface):? *'?([\w.:-]+)")


def port_words(text: str) -> str:
    """Return ``: 29500`` where a message names a port."""
    found = _PORT.search(text)
    return f": {found[1] or found[2]}" if found else ""


def host_words(text: str) -> str:
    """Return ``: node0`` where a message names a host."""
    found = _HOST.search(text)
    return f": {clip(found[1] or found[2], 60)}" if found else ""


def interface_of(text: str) -> str:
    """Return the name of the interface that a message is about."""
    found = _INTERFACE.search(text)
    return clip(found[1], 40) if found else "unknown"
