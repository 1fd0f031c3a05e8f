"""Folders that `postmortem run` has left: when each began and ended, and of which job it is."""

import json
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from postmortem.patterns import Pattern
from postmortem.readers.regular import read_regular
from postmortem.records import record

MANIFEST = "manifest.json"
SCHEMA = "postmortem-run/1"
REPEATS = "repeats what other files of its run say"
_REPEATS = {"report.txt", "rerun.sh", MANIFEST}
"""In the folder itself: what was concluded, how to run it again, and when it ran."""
_RAISES = "raises"
"""Each traceback of these is in a log, too."""
_OF_ONE_PROGRAM = {"endings.txt", "output"}
"""So is what these say, where no process has a rank or was killed, and one raised."""
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


def repeats(path: str) -> bool:
    """Return whether a file of a run says only what others there say, or what was concluded of it.

    A verdict that is read as a log would be evidence of itself.
    """
    file = Path(path)
    if file.name in _REPEATS:
        return _one_raised(file.parent) is not None
    if file.parent.name == _RAISES:
        return _one_raised(file.parent.parent) is not None
    if _OF_ONE_PROGRAM.isdisjoint((file.name, file.parent.name)):
        return False
    folder = file.parent if file.name in _OF_ONE_PROGRAM else file.parent.parent
    return _one_raised(folder) is True


def _one_raised(folder: Path) -> bool | None:
    """Return whether a program without ranks raised in a run, no more; None: a folder of no run."""
    manifest = folder / MANIFEST
    try:
        return _raised_alone(str(manifest), manifest.stat().st_mtime_ns)
    except OSError:
        return None


@lru_cache(maxsize=8)
def _raised_alone(manifest: str, _changed: int) -> bool | None:
    try:
        said = json.loads(read_regular(manifest, most=_LARGEST))
        if said["schema"] != SCHEMA:
            return None
        processes = said["processes"]
        ranks = any(one["rank"] is not None for one in processes)
        killed = any(one["exit"] and one["exit"]["signal"] for one in processes)
        return any(one["raised"] for one in processes) and not ranks and not killed
    except (OSError, ValueError, RecursionError, LookupError, TypeError):
        return None


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
