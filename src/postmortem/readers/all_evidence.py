"""All that lies under some paths, in archives too, and the commands that read it."""

import contextlib
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from postmortem import underway
from postmortem.errors import EvidenceError
from postmortem.facts.inventory import OF_RANKS, Inventory, Item, Kind, Reading, Run
from postmortem.facts.source import Problem
from postmortem.readers.archives import Room, unpack
from postmortem.readers.inventory import take_inventory
from postmortem.readers.job_runs import folders_of, run_of, runs_apart
from postmortem.records import record
from postmortem.text import shell_word

_MOST_RINGS = 64
_MOST_CORES = 64
_MOST_RUNS = 64
"""Runs of which the logs are read, the last ones."""
_MOST_NAMED = 2_000
"""Logs of a run that are named to its reader, where runs lie in one folder."""
_MOST_SCANNED = 8 << 30
"""Bytes of checkpoints that are read whole without being asked for."""
_NESTED = 2
"""Archives within archives that are opened."""


@record
class Evidence:
    """What there is, and what was left out."""

    found: Inventory
    roots: tuple[str, ...]
    """The paths to read: those given, and where archives were unpacked."""
    problems: tuple[Problem, ...]
    archives: dict[str, str]
    """By the folder that each was unpacked to."""

    def named(self, text: str) -> str:
        """Return a text with what was in archives named by them: our folders are gone later."""
        if not self.archives:
            return text
        base = str(Path(next(iter(self.archives))).parent)
        ours = rf"{re.escape(base)}/\d+(?=/)"
        for _ in range(_NESTED if base in text else 0):  # an archive may lie in an archive's folder
            text = re.sub(ours, lambda match: self.archives.get(match[0], match[0]), text)
        return text


def take_evidence(names: Sequence[str], undo: contextlib.ExitStack) -> Evidence:
    """Return what there is; archives are unpacked until `undo` is closed."""
    folders: dict[str, str] = {}
    if "-" in names:
        hint = "postmortem logs - reads a log from there, postmortem strace - a recording"
        raise EvidenceError("standard input", "what it is of has to be said", hint=hint)
    names = [f"./{name}" if name.startswith("-") else name for name in names]  # no option of theirs
    found = take_inventory(names)
    problems = list(found.problems)
    items, roots = list(found.items), list(names)
    packed = list(found.of(Kind.ARCHIVE))
    if packed:
        base = Path(undo.enter_context(tempfile.TemporaryDirectory(prefix="postmortem-")))
        underway.leave(str(base))
        room = Room(base)
    for _ in range(_NESTED):
        inner: list[Item] = []
        for archive in packed:
            folder = base / str(len(folders))
            folder.mkdir()
            folders[str(folder)] = archive.path
            problems += unpack(archive.path, folder, room)
            below = take_inventory([str(folder)])
            problems += below.problems
            items += below.items
            inner += below.of(Kind.ARCHIVE)
            roots.append(str(folder))
        packed = inner
    if packed:
        problems.append(Problem(packed[0].path, "is an archive within archives: not opened"))
    return Evidence(Inventory(tuple(items)), tuple(roots), tuple(problems), folders)


def plan(
    found: Inventory, roots: Sequence[str], *, world_size: int | None, redact: bool
) -> tuple[list[Reading], dict[str, str]]:
    """Return what is read, and by path why something is not."""
    shared = [] if redact else ["--no-redact"]
    left: dict[str, str] = {}
    readings: list[Reading] = []
    size = ["--world-size", str(world_size)] if world_size else []
    runs = runs_apart(found)
    for run in runs[:-_MOST_RUNS]:
        left |= dict.fromkeys(run.paths, f"of a run before the last {_MOST_RUNS}")
    for run in runs[-_MOST_RUNS:]:
        words = ("logs", *run.paths[:_MOST_NAMED], *size, *shared)
        readings.append(Reading("logs", words, run.paths, run))
    ranks = () if runs else found.of(*OF_RANKS)
    if ranks:
        folders = {f"{name.rstrip('/')}/": name for name in roots if Path(name).is_dir()}
        named = [item.path for item in ranks if not item.path.startswith(tuple(folders))]
        kept = [
            name
            for inside, name in folders.items()
            if any(item.path.startswith(inside) for item in ranks)
        ]
        paths = tuple(item.path for item in ranks)
        readings.append(Reading("logs", ("logs", *kept, *named, *size, *shared), paths))
    of_runs = folders_of(runs)
    recorded: dict[Run | None, list[str]] = {}
    for item in found.of(Kind.STRACE):
        recorded.setdefault(run_of(item.path, of_runs), []).append(item.path)
    for of, strace in recorded.items():
        readings.append(Reading("strace", ("strace", *strace, *shared), tuple(strace), of))
    cores = sorted(found.of(Kind.CORE), key=lambda item: item.path)
    readings += [
        Reading("core", ("core", item.path, *shared), (item.path,), run_of(item.path, of_runs))
        for item in cores[:_MOST_CORES]
    ]
    for item in cores[_MOST_CORES:]:
        left[item.path] = f"more than {_MOST_CORES} cores: postmortem core --fold reads them all"
    tensors: list[str] = []
    room = _MOST_SCANNED
    for item in found.of(Kind.CHECKPOINT):
        room -= item.size_bytes
        if room < 0:
            left[item.path] = f"large: postmortem scan {shell_word(item.path)} reads it"
        else:
            tensors.append(item.path)
    if tensors:
        readings.append(Reading("scan", ("scan", *tensors, *shared), tuple(tensors)))
    readings += [
        Reading("watch", ("watch", "--read", item.path, *shared), (item.path,))
        for item in found.of(Kind.WATCH)[:_MOST_RINGS]
    ]
    health = tuple(item.path for item in found.of(Kind.HEALTH))
    if health:
        readings.append(Reading("doctor", ("doctor", *health), health))
    snapshots = tuple(item.path for item in found.of(Kind.MEMORY))
    if snapshots:
        words = ("watch", "--read", *snapshots, *shared)
        readings.append(Reading("gpu_memory", words, snapshots))
    return readings, left
