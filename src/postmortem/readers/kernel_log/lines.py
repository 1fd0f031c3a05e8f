"""Files of a kernel log to lines: plain, packed, and the JSON of dmesg -J and journalctl."""

import json
from collections.abc import Iterator

from postmortem.errors import EvidenceError
from postmortem.facts.source import Problem, Source
from postmortem.patterns import Pattern
from postmortem.readers.codecs import StreamError, decoded
from postmortem.readers.formats import HEAD_BYTES, compression_of
from postmortem.readers.kernel_log.stamps import Stamped, stamped
from postmortem.readers.log_heads import in_utf_8
from postmortem.readers.regular import open_regular, size_of

LARGEST = 256 << 20
"""Bytes of one log that are looked at, from its end: what ended the job is what came last."""
_NAMED = Pattern(
    r"(?i)(?:^|[._-])(?:dmesg|kern(?:el)?|kmsg|xid|messages|syslog|journal)(?=[._-]|$)"
)
_OF_SYSTEM = Pattern(r"(?i)(?:^|[._-])(?:kern|kernel|messages|syslog|journal)(?=[._-]|$)")
_INIT = "systemd"
"""Tells in the journal of each unit how it began and ended."""
_OPENING = Pattern(r"\s*(?:\[\s*)?\{")
_JSON = Pattern(
    r'"(?:dmesg"\s*:\s*\[|_TRANSPORT"\s*:|SYSLOG_IDENTIFIER"\s*:|__REALTIME_TIMESTAMP"\s*:)'
)
_BARE = Pattern(r"(?m)^(?:NVRM: Xid \(|Out of memory: |oom-kill:constraint=|Memory cgroup out of )")
_PASTED = Pattern(
    r"(?m)^(?:(?:Memory cgroup o|O)ut of memory: )?Kill(?:ed)? process \d+ \(\S+\)|^NVRM: Xid \("
)
_OF_DEVICE = Pattern(r"(?:[a-z]\w+ [0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]: |\[drm[:\]])")
"""What a driver writes about a device begins with its own name and that of the device."""
_REFUSED = Pattern(r"^(?:dmesg: )?read kernel buffer failed: (?P<why>.+)|^No journal files were")
_HEADING = Pattern(
    r"-- (?:Logs begin|Journal begins|Boot [0-9a-f]|No entries|Reboot)|```\w*\s*$"
    r"|Message from syslogd@"
)
_MORE = Pattern(r"\s{15,}NVRM: ")
"""The driver's message over several lines, of which the first alone has a stamp."""
_ENOUGH_LINES = 200
_MOST_DAMAGED = 200
"""Objects that cannot be read: each may have to be read to the end of the file."""


_WHOLE = 64 << 10
"""A head is longer, of a file that is."""
_BY_KERNEL = Pattern(r"\bkernel: |\bsystemd-oomd\[")


def looks_like_kernel_log(head: bytes, name: str) -> bool:
    """Return whether the beginning of a file is that of a kernel's log; its name only helps."""
    text = head.decode("utf-8", "replace")
    base = name.rpartition("/")[2]
    if _OPENING.match(text):
        return bool(_JSON.search(text[:8192])) and ("kernel" in text or '"dmesg"' in text)
    lines = [line for line in text.split("\n")[:_ENOUGH_LINES] if line.strip()]
    lines = [line for line in lines if not _HEADING.match(line)]
    lines[1:] = [line for line in lines[1:] if not _MORE.match(line)]
    if not lines or "Traceback (most recent call last)" in text:
        return False
    named = bool(_NAMED.search(base))
    if named and (_BARE.search(text) or refused(text) is not None):
        return True
    if all(map(_OF_DEVICE.match, lines)):
        return True
    if _PASTED.search(text) and all(_KERNEL_TEXT.match(line) for line in lines):
        return True  # pasted without its stamps
    stamps: list[Stamped] = []
    for line in lines:
        stamps.append(stamped(line))
        if 5 * sum(not one.known for one in stamps) > len(lines):
            return False  # four lines of five begin as a kernel's or a system's do
    kernel = sum(one.known and one.tag in (None, "kernel") for one in stamps)
    if kernel * 5 >= len(lines) * 4 and any(_is_sure(one) for one in stamps):
        return named or _spoken_by_kernel(stamps)
    known = sum(one.known and one.tag is not None for one in stamps)
    tags = {one.tag for one in stamps if one.known} - {_INIT}
    # One unit's journal is its log, and so is one in which the kernel says nothing.
    silent = len(head) < _WHOLE and not _BY_KERNEL.search(text)
    system = len(tags) > 1 and not silent and bool(_OF_SYSTEM.search(base))
    return known * 5 >= len(lines) * 4 and ("kernel" in tags or system)


def refused(text: str) -> str | None:
    """Return why there is nothing in a file that was to hold a kernel log."""
    found = _REFUSED.search(text[:400])
    if found is None:
        return None
    return found["why"] or "there is no journal"


def _is_sure(one: Stamped) -> bool:
    return one.uptime is not None or one.time is not None or one.tag == "kernel"


# What programs print behind a time in brackets is not the kernel's. Its own texts begin with the
# name of a driver, a device, or one of few words.
_KERNEL_TEXT = Pattern(
    r"(?:[\w.:-]+(?: [\w.:\[\]-]+){0,3}: |Linux version|Command line|Call Trace|Out of memory"
    r"|Killed process|Memory cgroup|oom-kill|\w+ invoked oom-killer|audit: |CPU: |RIP: |Code: "
    r"|Modules linked in|Hardware name| ?</?(?:TASK|IRQ|NMI)>| +\??[\w.]+\+0x|R[A-Z0-9]{2}: "
    r"|LustreError|EXT4-fs|\S+\[\d+\]: segfault at )"
)


def _spoken_by_kernel(stamps: list[Stamped]) -> bool:
    spoken = sum(one.tag == "kernel" or bool(_KERNEL_TEXT.match(one.text)) for one in stamps)
    return 2 * spoken >= len(stamps)


def read_text(path: str, sources: list[Source], problems: list[Problem]) -> bytes | None:
    """Return the text of a log, unpacked; of one that is too long the end."""
    try:
        with open_regular(path) as stream:
            head = stream.read(HEAD_BYTES)
            packed = compression_of(head)
            stream.seek(0)
            size = size_of(path)
            if packed is None:
                stream.seek(max(0, size - LARGEST))
                data = stream.read(LARGEST)
                cut = size > LARGEST
            else:
                data, cut = _unpacked(path, decoded(stream, packed), problems)
    except (OSError, EvidenceError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        problems.append(Problem(path, f"cannot be read: {reason}"))
        return None
    if cut:
        what = f"is longer than {LARGEST >> 20} MiB: only its end was read"
        problems.append(Problem(path, what, "give the hours around the failure"))
    sources.append(Source(path, size, packed))
    return in_utf_8(data)


def _unpacked(path: str, pieces: Iterator[bytes], problems: list[Problem]) -> tuple[bytes, bool]:
    data = bytearray()
    cut = False
    try:
        for piece in pieces:
            data += piece
            if len(data) > LARGEST:
                cut = True
                del data[: len(data) - LARGEST]
    except StreamError as error:
        problems.append(Problem(path, f"{error}; what came before is used"))
    return bytes(data), cut


def is_json(data: bytes) -> bool:
    """Return whether a log is a JSON document, or one object a line."""
    return bool(_OPENING.match(data[:256].decode("latin-1")))


def json_lines(data: bytes) -> Iterator[tuple[int, Stamped]]:
    """Yield (line, entry) of a log in JSON; damaged and foreign objects are passed over."""
    text = data.decode("utf-8", "replace")
    decoder = json.JSONDecoder()
    at = text.find("[") + 1 if '"dmesg"' in text[:256] else 0
    line, counted, damaged = 1, 0, 0
    while (at := text.find("{", at)) >= 0:
        line, counted = line + text.count("\n", counted, at), at
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            following = text.find("\n", at)
            damaged += 1
            if following < 0 or damaged > _MOST_DAMAGED:
                return
            at = following + 1
            continue
        at = end
        entry = _entry(value)
        if entry is not None:
            yield line, entry


def _entry(value: object) -> Stamped | None:
    if not isinstance(value, dict):
        return None
    message = value.get("msg", value.get("MESSAGE"))
    if isinstance(message, list):  # journald gives bytes that are no UTF-8 as numbers
        message = bytes(n for n in message if isinstance(n, int) and 0 <= n < 256).decode(
            "utf-8", "replace"
        )
    if not isinstance(message, str):
        return None
    tag = value.get("SYSLOG_IDENTIFIER")
    if value.get("_TRANSPORT") == "kernel":
        tag = "kernel"
    host = value.get("_HOSTNAME")
    wall = _number(value.get("_SOURCE_REALTIME_TIMESTAMP", value.get("__REALTIME_TIMESTAMP")))
    up = _number(value.get("_SOURCE_MONOTONIC_TIMESTAMP", value.get("__MONOTONIC_TIMESTAMP")))
    seconds = value.get("time")
    if isinstance(seconds, int | float) and 0 <= seconds < 1e10:
        up = float(seconds) * 1e6
    inner = stamped(message)
    return Stamped(
        inner.text if inner.known and inner.uptime is not None else message,
        host[:253] if isinstance(host, str) else None,
        None if wall is None else wall / 1e6,
        None if up is None else up / 1e6,
        tag if isinstance(tag, str) else None,
        True,
    )


def _number(value: object) -> float | None:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63:
        return float(value)
    if isinstance(value, str) and value.isdecimal() and len(value) < 20:
        return float(value)
    return None
