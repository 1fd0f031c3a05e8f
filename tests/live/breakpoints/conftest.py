"""Jobs of real launchers, and a real terminal in front of ``postmortem attach``."""

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from builders.forks import Forked, needs_torch
from builders.terminals import SECONDS, Job, Terminal, in_background

PROGRAMS = Path(__file__).parents[2] / "programs" / "breakpoints"
QUICK = PROGRAMS.with_name("quick")
FORKED = ["--run-path", "--start-method", "fork"]


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """An environment with announcements in a folder of the test, and no rank of anybody's."""
    folder = tmp_path / "attach"
    folder.mkdir(mode=0o700)
    kept = {
        k: v
        for k, v in os.environ.items()
        if not re.match(r"SLURM_(?!CONF)|PMI|OMPI|RANK$|WORLD_SIZE", k)
    }
    return kept | {
        "POSTMORTEM_ATTACH_DIR": str(folder),
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(QUICK),
        "TERM": "xterm",
        "HOME": str(tmp_path),
    }


@pytest.fixture
def start(tmp_path: Path, env: dict[str, str]) -> Iterator[Callable[..., Job]]:
    """Return `start(argv, **env)`, which starts a job in the background."""
    jobs: list[Job] = []

    def go(argv: list[str | os.PathLike[str]], begin: Any = in_background, **more: str) -> Job:
        job = Job(list(map(str, argv)), env | more, tmp_path / f"job-{len(jobs)}.out", begin)
        jobs.append(job)
        return job

    yield go
    for job in jobs:
        job.close()


@pytest.fixture
def terminal(env: dict[str, str]) -> Iterator[Callable[..., Terminal]]:
    """Return `terminal(argv)`: a program on a terminal of 30 rows and 90 columns."""
    open_ones: list[Terminal] = []

    def go(argv: list[str | os.PathLike[str]], **more: str) -> Terminal:
        one = Terminal(list(map(str, argv)), env | more, (30, 90))
        open_ones.append(one)
        return one

    yield go
    for one in open_ones:
        one.close()


@pytest.fixture
def attach(terminal: Callable[..., Terminal]) -> Callable[..., Terminal]:
    """Return `attach(*words)`: ``postmortem attach`` on a terminal."""
    words = [sys.executable, "-m", "postmortem", "attach", "--wait", str(SECONDS)]
    return lambda *more, **env: terminal([*words, *more], **env)


@pytest.fixture
def torchrun(start: Callable[..., Job]) -> Callable[..., Job]:
    """Return `torchrun(kind, seconds)`: four ranks over gloo, which the agent forks.

    It looks at them seldom, for one that was forked and fails is gone at once, and the others would
    be ended before they have said anything.
    """
    needs_torch()

    def go(kind: str, seconds: float = 4, **more: str) -> Job:
        words = ["torch.distributed.run", "--standalone", *FORKED]
        words += ["--monitor-interval", "2", "--nproc-per-node", "4"]
        return start([*words, PROGRAMS / "ranks.py", kind, str(seconds)], Forked, **more)

    return go


@pytest.fixture
def needs() -> Callable[[str], str]:
    """Return `needs(program)`: its path, or the test is skipped."""

    def find(program: str) -> str:
        path = shutil.which(program)
        if path is None:
            pytest.skip(f"no {program} here")
        return path

    return find
