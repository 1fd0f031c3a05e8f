"""Crash reports of macOS since 12 (NAME.ips): the JSON in them, told as their text says it.

A line of JSON says of what the report is; the report itself is the object behind it (Apple,
"Interpreting the JSON format of a crash report").
"""

import json
from collections.abc import Iterator
from typing import Any

_MARK = b'"bug_type"'
_MOST_FRAMES = 100


def is_apple_report(head: bytes) -> bool:
    """Return whether a file begins as such a report does."""
    return head.startswith(b"{") and _MARK in head.partition(b"\n")[0]


def report_told(data: bytes) -> bytes | None:
    """Return how the process ended, and the stack of the thread that crashed; None without."""
    try:
        report = json.loads(data.partition(b"\n")[2])
        lines = [*_lines(report)]
    except (ValueError, RecursionError, KeyError, IndexError, TypeError, AttributeError):
        return None
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")


def _lines(report: dict[str, Any]) -> Iterator[str]:
    raised = report["exception"]
    yield f"Process:               {report.get('procName')} [{report.get('pid')}]"
    yield f"Exception Type:        {raised['type']} ({raised['signal']})"
    if raised.get("subtype"):
        yield f"Exception Codes:       {raised['subtype']}"
    number = report.get("faultingThread")
    if not isinstance(number, int):
        return
    images = report["usedImages"]
    yield f"Thread {number} Crashed:"
    for at, frame in enumerate(report["threads"][number]["frames"][:_MOST_FRAMES]):
        image = images[frame["imageIndex"]]
        address = image.get("base", 0) + frame["imageOffset"]
        name = frame.get("symbol", "???")
        yield f"{at} {image.get('name')} {address:#x} {name} + {frame.get('symbolLocation', 0)}"
