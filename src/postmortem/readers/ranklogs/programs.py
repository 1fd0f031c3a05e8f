"""Programs that an exception ended: the outermost frame of its traceback is a module's."""

import re
from collections.abc import Iterator

from postmortem.knowledge.messages import briefs
from postmortem.readers.ranklogs.lines import TRACEBACK, shape_of
from postmortem.readers.ranklogs.run_ends import signs_of, text_of

LONGEST_FRAME = 1000
_LAUNCHER, _AGENT = "run-launcher-frame", "run-agent"
_RUNPY = ("_run_module_as_main", "_run_module_code", "_run_code")
"""What ``python -m`` stands for in a traceback."""
_MOST_OF_RUNPY = 7
_MOST_PROGRAMS = 2000
_FEWEST = 2
_RANKED = b"\n[rank"
_OF_RANK = re.compile(
    rb'^\[rank(\d{1,6})\]: +File "([^"\n]+)", line \d+, in <module>', re.MULTILINE
)


def programs(data: bytes) -> Iterator[tuple[int, str]]:
    """Yield the last tracebacks whose outermost frame is a module's, no launcher's, backwards.

    Each as where it stands, and the file of the module.
    """
    at = data.rfind(TRACEBACK)
    for _ in range(_MOST_PROGRAMS):
        if at < 0:
            return
        below = data.find(b"\n", at) + 1 or len(data)
        lines = text_of(data[below : below + LONGEST_FRAME]).splitlines()[:_MOST_OF_RUNPY]
        frames = (frame for text in lines if (frame := shape_of(0, 0, text)).file is not None)
        first = next((frame for frame in frames if frame.function not in _RUNPY), None)
        of_module = first is not None and first.function == "<module>"
        if first is not None and of_module and _LAUNCHER not in signs_of([first.text])[0]:
            yield at, first.file or ""
        at = data.rfind(TRACEBACK, 0, at)


def behind_all_ranks(data: bytes) -> int:
    """Return the end of what the ranks raised, all of them, if their script raises behind it.

    A process ends once: who raises then was started anew. 0 where that is not so, also where one
    agent of torchrun tells of both: it starts the attempts of one run.
    """
    raised = _OF_RANK.findall(data) if _RANKED in data else []
    ranks = {int(rank) for rank, _ in raised}
    if len(ranks) < _FEWEST or max(ranks) + 1 != len(ranks):
        return 0
    end = data.find(b"\n", data.rfind(_RANKED) + 1) + 1
    scripts = {text_of(script) for _, script in raised}
    below = data[end:] if end else b""
    agents = re.findall((briefs()[_AGENT].pattern or "").encode(), below, re.MULTILINE)
    if len(agents) > 1 == len(set(agents)):
        return 0
    return end if any(script in scripts for _, script in programs(below)) else 0
