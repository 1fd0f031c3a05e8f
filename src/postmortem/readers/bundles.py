"""Folders that `postmortem run` has left: when each began and ended, and of which job it is."""

import json
from collections.abc import Iterable
from pathlib import Path

from postmortem.patterns import Pattern
from postmortem.readers.regular import read_regular
from postmortem.records import record

MANIFEST = "manifest.json"
SCHEMA = "postmortem-run/1"
_LARGEST = 64 << 20
_NODE = Pattern(r"--(?:node|machine)[-_]rank[= ]\S+ ?")


@record
class Bundle:
    """One node's run."""

    folder: str
    job: str
    """The command, which all nodes of a job have in common but for the node's number."""
    began: float
    ended: float
    """Seconds since the epoch."""


def bundles(paths: Iterable[str]) -> list[Bundle]:
    """Return the bundles that some files belong to, in the order of their begins."""
    found = (_bundle(Path(path)) for path in paths if path.endswith(f"/{MANIFEST}"))
    return sorted(filter(None, found), key=lambda one: (one.began, one.folder))


def _bundle(path: Path) -> Bundle | None:
    """Return what a manifest says; None for another program's, and one that is not whole."""
    try:
        said = json.loads(read_regular(str(path), most=_LARGEST))
        if said["schema"] != SCHEMA:
            return None
        command = " ".join(said["command"])
        return Bundle(
            str(path.parent), _NODE.sub("", command), float(said["began"]), float(said["ended"])
        )
    except (OSError, ValueError, RecursionError, LookupError, TypeError):
        return None
