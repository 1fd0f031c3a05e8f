"""Several runs of torchrun under one --log-dir."""

import os
from pathlib import Path

import pytest

from builders.prose import Prose
from postmortem.errors import EvidenceError
from postmortem.facts.source import Problem
from postmortem.readers.ranklogs import sources
from postmortem.readers.ranklogs.later_runs import last_run
from postmortem.readers.ranklogs.read import read_rank_logs
from postmortem.readers.ranklogs.sources import find_rank_logs

HOUR = 3600


def agent(logs: Path, name: str, *, began: int, ended: int) -> str:
    """Write the folder of one agent with two ranks; the times are seconds since 1970."""
    attempt = logs / name / "attempt_0"
    for rank in ("0", "1"):
        file = attempt / rank / "stderr.log"
        file.parent.mkdir(parents=True)
        file.write_text("step 1\n")
        os.utime(file, (ended, ended))
    os.utime(attempt, (began, began))
    return str(logs / name)


def read(logs: Path) -> tuple[set[str], list[str]]:
    """Return the folders that are read, and what is said of the others."""
    found = find_rank_logs([str(logs)])
    return {str(Path(x.path).parents[2]) for x in found.logs}, [x.what for x in found.problems]


def test_the_newest_of_several_runs_is_read(tmp_path: Path, prose: Prose) -> None:
    agent(tmp_path, "job7_abcdefgh", began=1000, ended=1000 + HOUR)
    new = agent(tmp_path, "job7_ab_d3f_h", began=9000, ended=9000 + HOUR)
    folders, said = read(tmp_path)
    assert folders == {new}
    prose(*said)
    assert find_rank_logs([str(tmp_path / "job7_abcdefgh")]).problems == ()


def test_a_folder_that_cannot_be_listed_is_not_called_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prose: Prose
) -> None:
    def below(name: str, problems: list[Problem], *_: object) -> list[str]:
        problems.append(Problem(name, "cannot be listed: Permission denied"))
        return []

    monkeypatch.setattr(sources, "files_below", below)
    with pytest.raises(EvidenceError) as caught:
        read_rank_logs(find_rank_logs([str(tmp_path)]))
    prose(caught.value)


def test_hosts_of_one_job_are_one_run(tmp_path: Path) -> None:
    one = agent(tmp_path, "job7_abcdefgh", began=1000, ended=1000 + HOUR)
    two = agent(tmp_path, "job7_ijklmnop", began=1005, ended=1010 + HOUR)
    assert read(tmp_path) == ({one, two}, [])


def test_jobs_with_other_ids_are_other_jobs(tmp_path: Path) -> None:
    agent(tmp_path, "job7_abcdefgh", began=1000, ended=1000 + HOUR)
    new = agent(tmp_path, "job8_ijklmnop", began=1005, ended=1010 + HOUR)
    assert read(tmp_path)[0] == {new}


@pytest.mark.parametrize(("name", "begun_anew"), [("pid=71", False), ("no. 71", True)])
def test_a_line_of_one_process_is_no_head_of_a_new_run(name: str, begun_anew: bool) -> None:
    said = (
        "asks for two shards of the store",
        *("Traceback (most recent call last):", '  File "ask.py", line 3, in ask'),
        *("    store.get(shard)", "lumen.TimeoutError: no shard in 30 s"),
    )
    asked = "".join(f"(Lumen {name}) {line}\n" for line in said)
    text = f"2026-01-02 03:04:05,678 started\n{asked * 2}2026-01-02 03:06:05,678 stopped\n"
    assert (last_run(text.encode()) is not None) is begun_anew
