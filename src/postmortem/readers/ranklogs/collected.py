"""A log as one list of JSON, as those print it who collect logs: gcloud, aws, az, journalctl.

A line of it is an entry, in the order in which they were written: tools begin with the newest.
"""

import json
import re
from typing import Any

from postmortem.readers.ranklogs.wrapped import TEXTS, TIMES, first_text, of_pod

_BEGINS = re.compile(rb'\s*(?:\[|\{\s*"(?:events|entries|messages)"\s*:\s*\[)\s*\{\s*"')
_TEXTS = (*TEXTS, "message", "data")
_WITHIN = "jsonPayload"
_NAMED = re.compile(rb'"(?:%s)"\s*:' % "|".join(_TEXTS).encode())


def is_list(head: bytes) -> bool:
    """Return whether a file begins as a list of entries does."""
    return bool(_BEGINS.match(head) and _NAMED.search(head))


def entries_of(data: bytes) -> bytes | None:
    """Return what was written, from the first entry on; None where the file is no whole list."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return None
    rows = found if isinstance(found, list) else next(iter(found.values()))
    told = [one for row in rows if isinstance(row, dict) and (one := _entry(row))]
    if not told or len(told) < len(rows):
        return None
    if told[0][0] > told[-1][0]:
        told.reverse()
    text = "\n".join(text for _, text in told)
    return f"{text}\n".encode("utf-8", "replace")


def _entry(row: dict[str, Any]) -> tuple[str, str] | None:
    """Return when a line was written, and the line; milliseconds have as many digits for long."""
    time = next((str(row[name]) for name in TIMES if name in row), None)
    within = row.get(_WITHIN)
    fields = within if isinstance(within, dict) else row
    text = first_text(fields, _TEXTS)
    return None if time is None or text is None else (time, of_pod(row, text.rstrip("\r\n")))
