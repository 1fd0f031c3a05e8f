"""What the times of files tell: old cores, stacks of a job that went on, a core of the end."""

import os
from datetime import datetime
from pathlib import Path

import pytest

from postmortem.facts.inventory import Inventory, Item, Kind, Reading, Result
from postmortem.readers.log_clock import (
    ByClock,
    at_work,
    began_behind,
    by_clock,
    span_of,
    worked_behind,
)

_END = 1_800_000_000
"""Seconds since the epoch at which the log is changed last."""


def _clock(
    folder: Path,
    kind: str,
    changed: float,
    *,
    log_changed: float = _END,
    ran: str = "",
    done: bool = False,
) -> ByClock:
    """Return what is told of a file beside a log of 100 s of work, by the time of its change."""
    log, other = folder / "train.log", folder / "other"
    stamps = (_stamp(_END - 100 + at) for at in range(0, 101, 10))
    log.write_text(
        "".join(f"{at} step {i} loss {1 / (i + 1):.4f}\n" for i, at in enumerate(stamps))
    )
    other.write_bytes(b"evidence")
    os.utime(log, (log_changed, log_changed))
    os.utime(other, (changed, changed))
    results = [
        Result(Reading("logs", (), (str(log),)), {"kind": "logs", "done": done}, None),
        Result(
            Reading(kind, (), (str(other),)), {"kind": kind, "process": {"env": {"PWD": ran}}}, None
        ),
    ]
    return by_clock(results, Inventory((Item(str(log), Kind.LOG, log.stat().st_size),)))


def _stamp(at: float) -> str:

    return datetime.fromtimestamp(at).strftime("%Y-%m-%d %H:%M:%S")


@pytest.mark.parametrize("zone", [0, 3600, -5.5 * 3600])
def test_a_core_from_before_the_log_began_is_old_in_whatever_zone(
    tmp_path: Path, zone: float
) -> None:
    found = _clock(tmp_path, "core", _END + zone - 200, log_changed=_END + zone)
    assert set(found.outdated) == {1}


@pytest.mark.parametrize(
    ("changed", "log_changed"),
    [(_END - 50, _END), (_END + 60, _END), (_END - 200, _END + 100)],
    ids=["while it ran", "behind it", "the log is a copy"],
)
def test_another_core_is_not_old(tmp_path: Path, changed: float, log_changed: float) -> None:
    assert not _clock(tmp_path, "core", changed, log_changed=log_changed).outdated


@pytest.mark.parametrize(
    ("changed", "done", "outdated"),
    [(_END - 50, True, {1}), (_END + 1, True, set()), (_END - 50, False, set())],
    ids=["before its good end", "at its end", "no good end"],
)
def test_a_job_outlived_a_core_that_is_older_than_its_work_to_a_good_end(
    tmp_path: Path, changed: float, done: bool, outdated: set[int]
) -> None:
    assert set(_clock(tmp_path, "core", changed, done=done).outdated) == outdated


def test_a_look_behind_which_work_goes_on_is_outdated(tmp_path: Path) -> None:
    assert set(_clock(tmp_path, "hang", _END - 50).outdated) == {1}


def test_a_log_without_a_clock_hides_no_work_but_when_the_job_began(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("looked at it\n")
    _clock(tmp_path, "hang", _END - 50)
    log, other, notes = (str(tmp_path / name) for name in ("train.log", "other", "notes.txt"))
    assert worked_behind(span_of([log, notes]), other)
    assert not began_behind(span_of([log, notes]), notes)
    os.utime(notes, (_END - 900, _END - 900))
    assert began_behind(span_of([log]), notes)
    assert not began_behind(span_of([log, notes]), notes)
    assert span_of([notes]) is None


def test_a_look_behind_the_last_work_is_not(tmp_path: Path) -> None:
    assert not _clock(tmp_path, "hang", _END + 300).outdated


@pytest.mark.parametrize(
    ("place", "name", "done", "outdated"),
    [
        (6, "train.log", True, {1}),
        (13, "train.log", True, set()),
        (6, "other.log", True, set()),
        (6, "train.log", False, set()),
    ],
    ids=["before the end", "at the end", "another file", "not done"],
)
def test_a_look_at_who_wrote_on_in_a_log_that_ended_well_is_outdated(
    tmp_path: Path, place: int, name: str, done: bool, outdated: set[int]
) -> None:
    log, look = tmp_path / "train.log", tmp_path / "hang.json"
    log.write_text("1\n2\n3\nall done\n"[:13])
    look.write_text("{}")
    opened = {"fd": 1, "target": f"/job/{name}", "detail": f"at byte {place}"}
    document = {"kind": "hang", "processes": [{"descriptors": [opened]}]}
    results = [
        Result(Reading("logs", (), (str(log),)), {"kind": "logs", "done": done}, None),
        Result(Reading("report", (), (str(look),)), document, None),
    ]
    found = by_clock(results, Inventory((Item(str(log), Kind.LOG, log.stat().st_size),)))
    assert set(found.outdated) == outdated


def test_a_core_written_as_the_log_stopped_in_the_folder_where_it_ran_is_of_the_end(
    tmp_path: Path,
) -> None:
    ran = f"/data/jobs/{tmp_path.name}"
    assert _clock(tmp_path, "core", _END + 1, ran=ran).of_the_end == {1}
    assert not _clock(tmp_path, "core", _END + 1, ran="/home/anna").of_the_end
    assert not _clock(tmp_path, "core", _END + 90, ran=ran).of_the_end


@pytest.mark.parametrize(
    ("every", "behind", "busy"),
    [(20, 15, True), (20, 40, False), (2, 15, False), (0, 15, False), (0, -15, True)],
    ids=["not yet late", "late", "very late", "one line of work", "work behind it"],
)
def test_nobody_sees_that_a_job_hangs_before_its_next_line_is_late(
    tmp_path: Path, every: int, behind: int, busy: bool
) -> None:
    log, look = tmp_path / "train.log", tmp_path / "stack.txt"
    steps = [(_END - n * every, 9 - n) for n in range(3, -1, -1)] if every else [(_END, 9)]
    lines = [f"{_stamp(_END - 900)} INFO begins"]
    lines += [f"{_stamp(at)} INFO step {n} loss 0.5" for at, n in steps]
    log.write_text("\n".join(lines) + "\n")
    look.write_text("a stack\n")
    os.utime(log, (_END, _END))
    os.utime(look, (_END + behind, _END + behind))
    assert at_work(span_of([str(log)]), str(look)) is busy
