"""What a run's manifest says without words."""

from typing import Any


def told(manifest: dict[str, Any]) -> tuple[list[int], list[str]]:
    """Return the ranks that failed first and the ids of the roots; nothing where nothing tells."""
    said = manifest["conclusion"] or {"ranks": [], "diagnoses": []}
    return said["ranks"], [one["id"] for one in said["diagnoses"] if one["role"] == "root"]


def traceback(manifest: dict[str, Any]) -> tuple[str, str, int, str]:
    """Return class, message, line and function of the traceback of who failed first."""
    report = manifest["report"]
    first = report["first_failure"]
    rows = [one for one in report["tracebacks"] if not first or first["label"] in one["labels"]]
    frame = rows[0]["frames"][-1]
    return rows[0]["exception"], rows[0]["message"], frame["line"], frame["function"]
