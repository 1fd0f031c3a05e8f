"""What tests wrote that passed: a runner of tests tells of each how it fared, and of all at last.

A test that passes may start what crashes, log errors and print tracebacks: it asked for them. What
tests write that run side by side is told apart by the last word alone, if that is good. The words
of runners are in `knowledge/test_runners.toml`.
"""

import re
from collections.abc import Mapping
from typing import Any

from postmortem.knowledge.lookup import load_table

_AT = rb"^(?:\d[\dTZ:.,+-]* )?(?:"
"""The begin of a line, of a CI's log too."""
_KINDS = ("well", "badly", "passed", "failed", "begins")


def without_passed(data: bytes) -> bytes:
    """Return a text, the lines left empty that tests wrote which passed."""
    for runner in load_table("test_runners.toml")["runner"]:
        if runner["words"].encode() in data:
            data = _without_spans(data, _spans(data, runner))
    return data


def _spans(data: bytes, runner: Mapping[str, Any]) -> list[tuple[int, int]]:
    parts = (f"(?P<{kind}>{runner[kind]})".encode() for kind in _KINDS if kind in runner)
    marks = re.compile(_AT + b"|".join(parts) + b")", re.MULTILINE)
    begins = re.compile(_AT + runner["begins"].encode() + b")")
    beside = "beside" in runner and runner["beside"].encode() in data
    each = runner.get("each", False)
    found: list[tuple[int, int]] = []
    run: list[tuple[int, int]] = []
    begin = since = -1
    mixed = False
    for mark in marks.finditer(data):
        kind, start = mark.lastgroup, mark.start()
        end = data.find(b"\n", mark.end()) + 1 or len(data)
        first = begin < 0
        if kind == "begins" or (first and each and begins.match(data, start)):
            mixed = mixed or not (first or each)  # runs that share a file
            since = since if not first else start if each else end
            begin = since if first else begin
        if begin < 0 or kind == "begins":
            continue
        if kind == "passed" and not beside:
            run.append((since, start))
        elif kind in ("well", "badly"):
            whole = kind == "well" and not mixed
            found += [(begin, start)] if whole else [] if mixed else run
            run, begin, mixed = [], -1, False
        since = end
    return found if begin < 0 or mixed else found + run


def _without_spans(data: bytes, spans: list[tuple[int, int]]) -> bytes:
    kept, at = [], 0
    for begin, end in sorted(spans):
        if begin >= at:
            kept += [data[at:begin], b"\n" * data.count(b"\n", begin, end)]
            at = end
    return b"".join([*kept, data[at:]]) if spans else data
