"""Stacks that ranks wrote into their logs when a time was up or at a signal, and no more then."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from postmortem.facts.stackdumps import RankStack
from postmortem.patterns import Pattern
from postmortem.readers.log_clock import text_ends
from postmortem.readers.signatures import Signatures
from postmortem.readers.stackdumps.fault_handler import THREAD, read_text
from postmortem.readers.stackdumps.frames import Interned

if TYPE_CHECKING:
    from postmortem.readers.ranklogs.build_facts import ReadLog
    from postmortem.readers.ranklogs.log_names import LogFile

_CRASHED = "py-fatal"  # what stands below is how it ended
_ABORTED = "Aborted"  # by a call of its own, or a signal that was sent for the stacks
_MODULES = "Extension modules: "
_NUMBER = Pattern(r"\d+")
_TAG = Pattern(r"^\[[A-Za-z]\w*?(?P<rank>\d{1,6})\]:")


def stacks_in_logs(logs: Iterable[ReadLog]) -> Iterator[RankStack]:
    """Yield where each rank stood last, if it wrote no more: a rank that did is not stuck."""
    frames = Interned()
    for log in logs:
        yield from _of_nobody(log.file, frames)
        tails = (label["tail"] for label in log.raw["labels"])
        ends = (row[1].lstrip() for tail in tails for row in tail[-2:])
        if not any(text.startswith('File "') for text in ends):
            continue
        file, tail = log.file, text_ends(log.file.path)[1]
        for rank, lines in _last_written(file, tail).items():
            for dump in read_text(lines, frames)[-1:]:
                if dump.main_thread is not None and dump.main_thread.frames:
                    thread = dump.main_thread
                    yield RankStack(f"rank {rank}", rank, file.host, file.path, thread, dump.tool)


def _of_nobody(file: LogFile, frames: Interned) -> Iterator[RankStack]:
    """Yield where processes stood that wrote it one by one into a log without names.

    What comes below is none of their work: no line like one above.
    """
    if file.rank is not None or file.local_rank is not None:
        return
    lines = text_ends(file.path)[1].splitlines()
    at = [number for number, line in enumerate(lines) if THREAD.match(line)]
    # faulthandler's dump at a signal has one current thread, the main one, as its last.
    ends = [number for number in at if lines[number].startswith("Current")]
    if len(ends) < 2:
        return
    known = Signatures.load("line").matches(lines)
    if any(match.id == _CRASHED for told in known for match in told):
        return
    worked = {_NUMBER.sub("#", line) for line in lines[: at[0]]}
    if not worked.isdisjoint(_NUMBER.sub("#", line) for line in lines[at[0] :]):
        return
    for begin, end in pairwise([at[0], *(at[at.index(one) + 1] for one in ends[:-1]), len(lines)]):
        for dump in read_text(lines[begin:end], frames)[-1:]:
            if dump.main_thread is not None and dump.main_thread.frames:
                label = f"thread {dump.main_thread.tid:#x}"
                yield RankStack(label, None, file.host, file.path, dump.main_thread, dump.tool)


def _last_written(file: LogFile, tail: str) -> dict[int, list[str]]:
    own = file.local_rank if file.rank is None else file.rank
    found: dict[int, list[str]] = {}
    crashed: set[int] = set()
    lines = tail.splitlines()
    known = Signatures.load("line").matches(lines)
    for line, told in zip(lines, known, strict=True):
        tag = _TAG.match(line)
        rank = own if tag is None else int(tag["rank"])
        text = line[tag.end() if tag else 0 :].strip()
        if rank is None or not text or text.startswith(_MODULES):
            continue
        if THREAD.match(text):
            found.setdefault(rank, []).append(text)
        elif rank in found and text.startswith('File "'):
            found[rank].append(f"  {text}")
        else:
            found.pop(rank, None)
        if any(match.id == _CRASHED and match["what"] != _ABORTED for match in told):
            crashed.add(rank)
    return {rank: rows for rank, rows in found.items() if rank not in crashed}
