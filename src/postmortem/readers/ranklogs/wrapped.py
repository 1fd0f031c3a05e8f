"""Logs that lie in something else as a whole: in objects of JSON, in quotes, behind a margin.

What hands a log on puts it there, line by line: a daemon of containers, a mail, an issue, a table,
a browser. What was written is read, each line in its place.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import Any

from postmortem.readers.formats import HEAD_BYTES
from postmortem.readers.ranklogs.last_words import is_frame, read_like
from postmortem.readers.ranklogs.lines import TRACEBACK
from postmortem.readers.ranklogs.pasted import QUOTE, Peel, fenced, flat, is_quoted, quoted
from postmortem.readers.ranklogs.windows import joined_lines

TEXTS = ("textPayload", "MESSAGE", "line", "log")
"""Fields that hold what a program wrote, as it wrote it."""
_HOLDS = re.compile(rb'"(?:%s)"' % "|".join(TEXTS).encode())
_BESIDE = (
    *("stream", "time", "timestamp", "kubernetes", "resource", "date"),
    *("labels", "__REALTIME_TIMESTAMP"),
)
"""Fields of who took it down."""
_MESSAGES = ("message", "msg", "event")
TIMES = (
    *("timestamp", "time", "ts", "@timestamp", "asctime", "date", "datetime"),
    *("receiveTimestamp", "__REALTIME_TIMESTAMP"),
)
_LEVELS = ("level", "levelname", "severity", "lvl", "log.level")
_SURVIVED = ("debug", "info", "notice", "warning", "warn")
"""Levels of what a program went on from."""
_RANKS = ("rank", "global_rank", "process_index")
_PODS = (
    *(("kubernetes", "pod_name"), ("kubernetes", "pod", "name")),
    *(("resource", "labels", "pod_name"), ("labels", "pod")),
)
"""Where who ships a cluster's logs says which pod a line is of: Fluent Bit, Filebeat, GKE, Loki."""
_REASONS = ("error", "err", "reason", "signal_name")
"""Fields that say why, beside a message that says what."""
_TRACES = ("exc_info", "exception", "traceback", "stack_trace", "stacktrace", "stack")
_FIELD = re.compile(r'"([\w.@]{1,64})" ?: ?"((?:[^"\\]|\\.)*)"')
_HEAD = TRACEBACK.decode()
_MOST_LAYERS = 4
_LONGEST = 16 << 20
"""Bytes of a line that is waited for until its end."""
_FEWEST_NAMED = 5
_POD = re.compile(r"[a-z0-9][a-z0-9.-]{0,252}")
_MARK = b"\xef\xbb\xbf"
"""Of a text in UTF-8; what was in UTF-16 has it too."""
_SERVICE = re.compile(rb"[\w.-]+  +\| ?")
"""As docker compose names who wrote a line."""
_STAMP = re.compile(rb"^@4[0-9a-f]{23} ")
_TAG, _NO_NAME = re.compile(rb"^([^\t ]{1,64})\t"), re.compile(rb"[^\w.-]")
_NUMBERED = re.compile(rb" *(\d{1,12})(?:[:|]|\t| {2}) ?")
_OF_RANKS = (b"[", b"(", b"==")
"""What names a rank, or the process that valgrind runs, begins with these, and is kept."""
_ENTITY = re.compile(rb"&(?:lt|gt|quot|amp|apos|nbsp|#x27|#39|#34|#x22|#x2F);")
_RAW = re.compile(rb"[<>\"]")
_MARKUP = re.compile(rb"</?(?:pre|code|div|p|span|samp|details|summary)\b[^<>]*>")
_MARKS = (b"`", b'"')


def layers(head: bytes) -> tuple[Peel, ...]:
    """Return what takes the text of a file out of what it lies in, the outermost first.

    Empty for a log as it was written.
    """
    found: list[Peel] = []
    lines = head.split(b"\n")
    if len(lines) > 1 or len(head) >= HEAD_BYTES:
        lines.pop()  # empty, or not whole
    lines[:1] = map(_unmarked, lines[:1])
    for _ in range(_MOST_LAYERS):
        full = [line.rstrip(b"\r") for line in lines if line.strip()]
        peel = next(filter(None, (look(full) for look in _LOOKS if full)), None)
        if peel is None:
            break
        found.append(peel)
        lines = b"\n".join(map(peel, lines)).split(b"\n")
    return (_unmarked, *found) if found else ()


def is_shipped(head: bytes) -> bool:
    """Return whether a file begins with objects that hold the lines of a log, and whose."""
    if of_pod(_fields(head.partition(b"\n")[0]) or {}, ""):
        return True
    return _HOLDS.search(head) is not None and layers(head)[1:2] == (_as_written,)


def unwrapped(pieces: Iterable[bytes], peels: Sequence[Peel]) -> Iterator[bytes]:
    """Yield what was written, a line for each line of the file; others are left as they are.

    An object that holds several lines is followed by them all. Of a line longer than any log
    writes one, what comes first is left as it is.
    """
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        if lines:
            yield b"".join(_peeled(line, peels) + b"\n" for line in lines)
        if len(rest) > _LONGEST:
            yield rest
            rest = b""
    if rest:
        yield _peeled(rest, peels) + b"\n"


def written(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the text of a file, out of what it lies in."""
    rest = iter(pieces)
    head = joined_lines(next(rest, b""))
    peels = layers(head[:HEAD_BYTES])
    return unwrapped(chain((head,), rest), peels) if peels else chain((head,), rest)


def _peeled(line: bytes, peels: Sequence[Peel]) -> bytes:
    for peel in peels:
        line = b"\n".join(map(peel, line.split(b"\n")))
    return line


def _unmarked(line: bytes) -> bytes:
    return line.removeprefix(_MARK)


def _objects(lines: Sequence[bytes]) -> Peel | None:
    """Return what takes a line out of an object, of a text whose lines all are such."""
    found = [_fields(line) for line in lines]
    known = [fields for fields in found if fields is not None]
    if len(known) == len(lines) and all(
        first_text(fields, TEXTS) is not None
        and first_text(fields, _MESSAGES) is None
        and any(key in fields for key in _BESIDE)
        for fields in known
    ):
        return _as_written
    records = [fields for fields in known if _is_record(fields)]
    objects = sum(line.startswith(b"{") for line in lines)  # others may be of who quotes a few
    if found[0] is None or len(records) * 10 < objects * 8 or objects * 2 < len(lines):
        return None
    # Who ships a log calls all of it the same; a logger does not, and a few lines do not tell.
    several = len({first_text(fields, _LEVELS) for fields in records}) > 1
    levels = several or len(records) < _FEWEST_NAMED
    return lambda line: _held(line, levels=levels)


def _is_record(fields: dict[str, Any]) -> bool:
    said = first_text(fields, _MESSAGES) is not None
    return said and any(key in fields for key in (*TIMES, *_LEVELS))


def _as_written(line: bytes) -> bytes:
    fields = _fields(line)
    text = None if fields is None else first_text(fields, TEXTS)
    if fields is None or text is None:
        return line
    return of_pod(fields, text.rstrip("\r\n")).encode("utf-8", "replace")


def of_pod(fields: dict[str, Any], text: str) -> str:
    """Return a text with the name of its pod in front of each line, as kubectl puts it there."""
    for path in _PODS:
        found: object = fields
        for name in path:
            found = found.get(name) if isinstance(found, dict) else None
        if isinstance(found, str) and _POD.fullmatch(found):
            return "\n".join(f"[pod/{found}/log] {line}" for line in text.split("\n"))
    return text


def _held(line: bytes, *, levels: bool) -> bytes:
    fields = _fields(line)
    text = None if fields is None else first_text(fields, _MESSAGES)
    if fields is None or text is None:
        return line
    level = first_text(fields, _LEVELS) if levels else None
    told = f"{level.upper()}: {text}" if level else text
    why = first_text(fields, _REASONS)
    told = f"{told.rstrip()}: {why}" if why and why not in text else told
    trace = _trace(fields, text)
    whole = (f"{told.rstrip()}\n{trace}" if trace else told).rstrip("\r\n")
    rank = next((str(fields[name]) for name in _RANKS if name in fields), "")
    if rank.isdecimal():
        whole = "\n".join(f"[rank{rank}]: {line}" for line in whole.split("\n"))
    return of_pod(fields, whole).encode("utf-8", "replace")


def _trace(fields: dict[str, Any], said: str) -> str | None:
    """Return a stack beside the message, by the name of its field or by how Python's begin."""
    texts = (value for value in fields.values() if isinstance(value, str) and value != said)
    whole = first_text(fields, _TRACES) or next((t for t in texts if t.startswith(_HEAD)), None)
    if whole or str(first_text(fields, _LEVELS)).lower() in _SURVIVED:
        return whole
    return next(filter(None, map(_joined, fields.values())), None)


def _joined(parts: object) -> str | None:
    """Return the traceback that structlog's `dict_tracebacks` has taken apart."""
    raised = parts[0] if isinstance(parts, list) and parts else None
    if not isinstance(raised, dict) or not isinstance(raised.get("exc_type"), str):
        return None
    frames = [frame for frame in raised.get("frames") or () if isinstance(frame, dict)]
    places = [
        f'  File "{one.get("filename")}", line {one.get("lineno")}, in {one.get("name")}'
        for one in frames
    ]
    return "\n".join((_HEAD, *places, f"{raised['exc_type']}: {raised.get('exc_value')}"))


def _fields(line: bytes) -> dict[str, Any] | None:
    if not line.startswith(b"{"):
        return None
    try:
        found = json.loads(line)
    except RecursionError:
        return None
    except ValueError:  # cut off: what is whole of it
        text = line.decode("utf-8", "replace")
        found = {name: _unescaped(said) for name, said in _FIELD.findall(text)}
    return found if isinstance(found, dict) else None


def _unescaped(text: str) -> str:
    try:
        return str(json.loads(f'"{text}"'))
    except ValueError:
        return text


def first_text(fields: dict[str, Any], names: Sequence[str]) -> str | None:
    """Return the text in the first of some fields that holds one."""
    return next((fields[name] for name in names if isinstance(fields.get(name), str)), None)


def _quotes(lines: Sequence[bytes]) -> Peel | None:
    """Return what takes off the marks of a quotation."""
    if sum(map(is_quoted, lines)) * 10 < len(lines) * 9:  # above it may stand who wrote it
        return None
    return lambda line: QUOTE.sub(b"", line, count=1)


def _margin(lines: Sequence[bytes]) -> Peel | None:
    """Return what takes off the margin of quoted code; a stack that stands alone has none."""
    wide = min(len(line) - len(line.lstrip(b" \t")) for line in lines)
    margin = lines[0][:wide]
    if not margin.startswith((b"    ", b"\t")) or not all(
        line.startswith(margin) for line in lines
    ):
        return None
    edge = [line for line in lines if not line[wide : wide + 1].isspace()]
    if all(map(is_frame, read_like(line.decode("utf-8", "replace") for line in edge))):
        return None
    return lambda line: line[wide:] if line.startswith(margin) else line.lstrip(b" \t")


def _names(lines: Sequence[bytes]) -> Peel | None:
    """Return what takes off the one name that stands before each line of all."""
    first = _SERVICE.match(lines[0])
    name = first[0].rstrip() if first else b""
    if not name and len(lines) >= _FEWEST_NAMED and not lines[0].startswith(_OF_RANKS):
        name, last = min(lines), max(lines)
        while not last.startswith(name):
            name = name[:-1]
        name = name[: name.rfind(b" ") + 1].rstrip()
        behind = [line[len(name) + 1 :] for line in lines]
        if not any(rest[:1].isspace() for rest in behind) or name.endswith(b":"):
            return None
    if not name or not all(line.startswith(name) for line in lines):
        return None
    return lambda line: line.removeprefix(name).removeprefix(b" ")


def _stamps(lines: Sequence[bytes]) -> Peel | None:
    """Return what takes off the times of daemontools' multilog."""
    return (lambda line: _STAMP.sub(b"", line)) if all(map(_STAMP.match, lines)) else None


def _tags(lines: Sequence[bytes]) -> Peel | None:
    """Return what names who wrote a line as a service is named, where GNU parallel did by a tag."""
    if not all(map(_TAG.match, lines)) or not any(b"\t" + TRACEBACK in line for line in lines):
        return None
    return lambda line: _TAG.sub(lambda tag: _NO_NAME.sub(b"-", tag[1]) + b"  | ", line)


def _numbers(lines: Sequence[bytes]) -> Peel | None:
    """Return what takes off the numbers of lines."""
    found = [_NUMBERED.match(line) for line in lines]
    told = [int(one[1]) for one in found if one is not None]
    if len(told) < len(lines) or len(told) < _FEWEST_NAMED:
        return None
    if any(not before < after <= before + 3 for before, after in pairwise(told)):
        return None
    return lambda line: _NUMBERED.sub(b"", line, count=1)


def _cells(lines: Sequence[bytes]) -> Peel | None:
    """Return what takes lines out of the quotation marks of a table."""
    if not all(len(line) > 1 and line[:1] == line[-1:] == b'"' for line in lines):
        return None
    return lambda line: line.rstrip(b"\r")[1:-1].replace(b'""', b'"')


def _span(lines: Sequence[bytes]) -> Peel | None:
    """Return what takes off the marks around a text that is quoted as a whole, or from there on."""
    mark, marks = lines[0][:1], sum(line.count(lines[0][:1]) for line in lines)
    whole = marks == 2 and lines[-1].endswith(mark)
    if mark not in _MARKS or not (whole or (mark == b"`" and marks == 1)):
        return None
    return lambda line: line.rstrip(b"\r").removeprefix(mark).removesuffix(mark)


def _entities(lines: Sequence[bytes]) -> Peel | None:
    """Return what takes a text out of a page of HTML."""
    if not any(b"&" in line for line in lines):
        return None
    bare = [_MARKUP.sub(b"", line) for line in lines]
    if not any(map(_ENTITY.search, bare)) or any(map(_RAW.search, bare)):
        return None
    import html  # seldom there, and a large table

    return lambda line: html.unescape(
        _MARKUP.sub(b"", line).decode("utf-8", "surrogateescape")
    ).encode("utf-8", "surrogateescape")


_LOOKS: tuple[Callable[[Sequence[bytes]], Peel | None], ...] = (
    _objects,
    quoted,
    _quotes,
    _cells,
    _span,
    _stamps,
    _tags,
    _numbers,
    _margin,
    _names,
    _entities,
    flat,
    fenced,
)
