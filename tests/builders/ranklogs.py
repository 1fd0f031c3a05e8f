"""Writes logs of many ranks as launchers would, from texts whose writers are known.

The forms share no code with the reader: each is written down here from what the launcher prints.
"""

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from postmortem.analyses.ranklogs import RankLogOptions, analyse
from postmortem.report.model import Report

Prefix = Callable[[int, int], str]
"""From rank and ranks per host to what stands before a line of it."""

FORMS: dict[str, Prefix] = {
    "torchrun --tee": lambda r, per: f"[node{r // per}:{r % per}]:",
    "torchrun --tee, long role": lambda r, per: f"[gpu-a{r // per}.cluster:{r % per}]:",
    "torch": lambda r, _: f"[rank{r}]: ",
    "srun --label": lambda r, _: f"{r:2d}: ",
    "mpirun --tag-output": lambda r, _: f"[1,{r}]<stderr>:",
    "prterun --tag-output": lambda r, _: f"[prterun-node0-41@1,{r}]<stderr>:",
    "mpiexec -prepend-rank": lambda r, _: f"[{r}] ",
    "horovodrun": lambda r, _: f"Fri Sep 25 16:52:{r:02d} 2020[{r}]<stderr>:",
    "SGLang": lambda r, _: f"[2025-02-26 12:01:{r:02d} TP{r}] ",
    "vLLM": lambda r, _: f"(Worker_TP{r} pid={4000 + r}) ",
    "kubectl --prefix": lambda r, per: f"[pod/trainer-worker-{r // per}/pytorch] [rank{r}]: ",
    "ray": lambda r, per: f"(Worker pid={4000 + r}, ip=10.0.0.{r // per}) [rank{r}]: ",
    "pdsh": lambda r, per: f"node{r // per}: [rank{r}]: ",
    "srun and tee and torch": lambda r, per: f"{r // per}: [node{r // per}:{r % per}]:[rank{r}]: ",
    "times and torch": lambda r, _: f"2026-11-21T02:03:{r:02d}.767Z [rank{r}]: ",
    "minutes and torch": lambda r, _: f"2026-11-21 02:{r:02d} [rank{r}]: ",
    "docker compose": lambda r, per: f"trainer-{r // per}  | [rank{r}]: ",
    "a name and a bar": lambda r, per: f"node{r // per}|[rank{r}]: ",
    "srun and tee, coloured": lambda r, per: (
        f"\x1b[36m{r // per}: \x1b[0m[node{r // per}:{r % per}]:"
    ),
}


def report_of(folder: Path, text: str) -> Report:
    """Return the report on a log with this text, ``job.log`` in a folder."""
    path = folder / "job.log"
    path.write_text(text)
    return analyse([str(path)], RankLogOptions())


def raised_first(report: Report) -> tuple[int | None, str] | None:
    """Return the rank that failed first and what it said, as the report's body names both."""
    first: Any = report.body["first_failure"]
    return None if first is None else (first["rank"], first["what"])


def place_of(report: Report) -> tuple[str, int | None, str]:
    """Return file, line and function that the card points at."""
    assert report.highlights is not None
    place = report.highlights.places[0]
    return (place.file or "").rpartition("/")[2], place.line, place.function


def mixed(texts: Sequence[Sequence[str]], form: str, *, per_host: int, seed: int) -> str:
    """Return the lines of all ranks in a random order that keeps each rank's own."""
    chance = random.Random(seed)
    left = [list(text) for text in texts]
    lines = []
    while any(left):
        rank = chance.choice([i for i, text in enumerate(left) if text])
        lines.append(FORMS[form](rank, per_host) + left[rank].pop(0))
    return "\n".join(lines) + "\n"
