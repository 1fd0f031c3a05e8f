"""Pods as kubectl and the API print them in JSON, told as ``kubectl describe`` tells of them."""

import json
from collections.abc import Iterator
from typing import Any

POD = b'"kind": "Pod"'


def described(data: bytes) -> bytes | None:
    """Return what tells how pods ended; None where it is no whole pod, nor a list of such."""
    try:
        found = json.loads(data)
        rows = found.get("items", [found])
        lines = [line for pod in rows for line in _pod(pod)]
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError):
        return None
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")


def _pod(pod: dict[str, Any]) -> Iterator[str]:
    status = pod.get("status", {})
    yield f"Name:             {pod['metadata']['name']}"
    for field in ("reason", "message"):
        if field in status:
            yield f"{field.capitalize()}:         {' '.join(str(status[field]).split())}"
    for container in (*status.get("initContainerStatuses", ()), *status["containerStatuses"]):
        for state in (container.get("state", {}), container.get("lastState", {})):
            if "terminated" in state:
                yield f"      Reason:       {state['terminated'].get('reason')}"
                yield f"      Exit Code:    {state['terminated'].get('exitCode')}"
