"""Runs of torchrun that share one --log-dir: which of them is one job, and which is the newest.

torchrun makes ``LOG_DIR/RUNID_xxxxxxxx`` for each agent, with eight random characters
(torch/distributed/elastic/multiprocessing/api.py, DefaultLogsSpecs). Agents of several hosts that
write to one shared folder have one run ID and run at the same time; a job that was started again
has a folder that began after the other was done.
"""

from collections.abc import Iterable
from pathlib import Path

from postmortem.facts.source import Problem
from postmortem.patterns import Pattern
from postmortem.records import record
from postmortem.text import some

_RUN = Pattern(r"^(?P<run>.+)/attempt_\d+/\d+/(?:stdout\.log|stderr\.log|error\.json)(?:\.\w+)?$")
_RANDOM = Pattern(r"_[a-z0-9_]{8}$")
_MOST_NAMED = 5


@record
class Run:
    """The folder of one agent."""

    path: str
    name: str
    """The run ID."""
    began: float
    ended: float


def older_runs(paths: Iterable[str]) -> tuple[frozenset[str], tuple[Problem, ...]]:
    """Return the folders of runs before the newest of their --log-dir, and what to say of them."""
    files: dict[str, list[str]] = {}
    for path in paths:
        found = _RUN.match(path)
        if found:
            files.setdefault(found["run"], []).append(path)
    beside: dict[str, list[Run]] = {}
    for folder, names in files.items():
        run = _run(folder, names)
        if run is not None:
            beside.setdefault(str(Path(folder).parent), []).append(run)
    left: set[str] = set()
    problems = []
    for parent, runs in beside.items():
        newest = max(runs, key=lambda run: (run.ended, run.began, run.path))
        old = [run for run in runs if not _same_job(run, newest)]
        if not old:
            continue
        left |= {run.path for run in old}
        others = some(sorted(Path(run.path).name for run in old), _MOST_NAMED)
        what = (
            f"holds several runs: {Path(newest.path).name} is the newest and was read, not {others}"
        )
        problems.append(Problem(parent, what, "name the folder of another run to read it"))
    return frozenset(left), tuple(problems)


def in_run(path: str, runs: frozenset[str]) -> bool:
    """Return whether a file lies in the folder of one of these runs."""
    found = _RUN.match(path) if runs else None
    return found is not None and found["run"] in runs


def _run(folder: str, names: list[str]) -> Run | None:
    random = _RANDOM.search(Path(folder).name)
    if random is None:
        return None
    try:
        # Folders of ranks are made when their attempt begins, so this one's time is the start.
        first = min(Path(folder).glob("attempt_*"))
        began = first.stat().st_mtime
        ended = max(Path(name).stat().st_mtime for name in names)
    except (OSError, ValueError):
        return None
    return Run(folder, Path(folder).name[: random.start()], began, ended)


def _same_job(one: Run, newest: Run) -> bool:
    return one.path == newest.path or (one.name == newest.name and one.ended >= newest.began)
