"""Pods, jobs and events as kubectl prints them in JSON and YAML, told as it does in text."""

import json
import re
from collections.abc import Iterator
from typing import TypeAlias

from postmortem.readers.ranklogs.job_records import line_of

_Row: TypeAlias = tuple[tuple[str, ...], str]
"""The names above a value, its own as the last, and the value."""
_STATES, _EVENT = b"containerStatuses", b"involvedObject:\n"
_JOB = re.compile(rb'(?m)^\s*"?kind"?: "?\w*(?:Job|JobSet|Workload|Workflow)"?,?$')
_CONDITIONS = re.compile(
    rb'(?m)^\s*(?:- )?"?type"?: "?(?:Failed|Complete|Completed|Succeeded)"?,?$'
)
_FAILED = "Failed"
_ENDS = (_FAILED, "Complete", "Completed", "Succeeded")


def is_pods(head: bytes) -> bool:
    """Return whether a file tells how pods' containers or jobs are, or what happened to pods."""
    if b"kind" in head and _JOB.search(head) and _CONDITIONS.search(head):
        return True
    if head[:1] == b"{":
        return b'"kind": "Pod"' in head
    return b"kind: Pod\n" in head and (_STATES in head or _EVENT in head)


def described(data: bytes) -> bytes | None:
    """Return what tells how pods ended, a container's present state first; None without one."""
    lines: list[tuple[int, int, str]] = []  # of which pod, its place among that one's, the line
    code, pod = "", 0
    of = message = ""  # of an event
    named, condition = "", dict[str, str]()
    try:
        for path, value in _of_json(json.loads(data)) if data[:1] == b"{" else _of_yaml(data):
            above, place = path[-2:], 4 if "lastState" in path else 3
            if above == ("involvedObject", "kind"):
                of = value.lower()
            elif above == ("involvedObject", "name"):
                of = f"{of}/{value}"
            elif of and path[-1] == "message":
                message = value
            elif of and path[-1] == "reason":
                lines.append((pod, 0, f"{value} {of} {message}"))
            elif not of and above == ("metadata", "name"):
                pod, named = pod + 1, value
                lines.append((pod, 0, f"Name:             {value}"))
            elif above == ("status", "reason"):
                lines.append((pod, 1, f"Reason:           {value}"))
            elif above == ("status", "message"):
                lines.append((pod, 2, f"Message:          {value}"))
            elif path[-2:-1] == ("conditions",):  # by their names: the type comes last
                condition[path[-1]] = value
                if path[-1] == "type":
                    lines += ((pod, 0, line) for line in _ended(named, condition))
                    condition = {}
            elif above == ("terminated", "exitCode"):
                code = value
            elif above == ("terminated", "reason"):
                lines.append((pod, place, f"      Reason:       {value}"))
                lines.append((pod, place, f"      Exit Code:    {code}"))
    except (ValueError, RecursionError):
        return None
    lines.sort(key=lambda line: line[:2])
    return "".join(f"{line}\n" for _, _, line in lines).encode("utf-8", "replace") or None


def _ended(name: str, condition: dict[str, str]) -> Iterator[str]:
    """Yield how a job ended, where a condition that is true says so, as a record of one is told."""
    kind = condition["type"]
    if kind in _ENDS and condition.get("status") == "True":
        why = ": ".join(filter(None, map(condition.get, ("reason", "message"))))
        failed = kind == _FAILED
        yield line_of(name, "FAILED" if failed else "COMPLETED", why, good=not failed)


def _of_json(value: object, path: tuple[str, ...] = ()) -> Iterator[_Row]:
    if isinstance(value, dict):
        for name, one in sorted(value.items()):  # as kubectl does
            yield from _of_json(one, (*path, name))
    elif isinstance(value, list):
        for one in value:
            yield from _of_json(one, path)
    else:
        yield path, " ".join(str(value).split())


def _of_yaml(data: bytes) -> Iterator[_Row]:
    """Yield what stands in one line: kubectl folds long texts only."""
    above: list[tuple[int, str]] = []
    for line in data.decode("utf-8", "replace").splitlines():
        text = line.replace("- ", "  ", 1) if line.lstrip().startswith("- ") else line
        name, colon, value = text.strip().partition(":")
        indent = len(text) - len(text.lstrip())
        while above and above[-1][0] >= indent:
            above.pop()
        if colon:
            above.append((indent, name))
            yield tuple(one for _, one in above), value.strip().strip("'\"")
