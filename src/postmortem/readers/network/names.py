"""What a name is here, and who says so."""

import socket
import time
from pathlib import Path

from postmortem.facts.net import Lookup
from postmortem.readers.files import answer_within

_HOSTS = Path("/etc/hosts")
_SECONDS = 5.0


def look_up(name: str, seconds: float = _SECONDS) -> Lookup:
    """Return the addresses of a name as every program here gets them (getaddrinfo(3)).

    A resolver that does not answer takes no longer than `seconds`; the thread that waits for it
    does not keep the program alive.
    """
    began = time.monotonic()
    answer = answer_within(seconds, lambda: _ask(name))
    took = time.monotonic() - began
    if answer is None:
        return Lookup(name, error=f"no answer within {seconds:g} s", seconds=took)
    if isinstance(answer, str):
        return Lookup(name, error=answer, seconds=took)
    return Lookup(name, answer, hosts_line(name, answer), seconds=took)


def _ask(name: str) -> tuple[str, ...] | str:
    try:
        rows = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        return getattr(error, "strerror", None) or str(error)
    return tuple(dict.fromkeys(str(row[4][0]) for row in rows))


def hosts_line(name: str, addresses: tuple[str, ...], path: Path = _HOSTS) -> str | None:
    """Return ``/etc/hosts:4`` where that line gives the name one of these addresses."""
    try:
        lines = path.read_text("utf-8", "replace").splitlines()[:100_000]
    except OSError:
        return None
    for number, line in enumerate(lines, start=1):
        words = line.partition("#")[0].split()
        if len(words) > 1 and words[0] in addresses and name.lower() in map(str.lower, words[1:]):
            return f"{path}:{number}"
    return None
