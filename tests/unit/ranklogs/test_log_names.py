"""The rank that the names of several logs tell together, and names that only look so."""

import errno
import gzip
import os
from pathlib import Path
from typing import Any

import pytest

from postmortem.analyses.ranklogs import RankLogOptions, analyse
from postmortem.readers import regular
from postmortem.readers.ranklogs.sources import find_rank_logs

LOST = (
    '  File "/venv/torch/distributed/distributed_c10d.py", line 3252, in all_reduce\n'
    "RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.7]:51432\n"
)


def ranks(folder: Path, name: str, text: str, numbers: tuple[int, ...]) -> list[int | None]:
    for number in numbers:
        path = folder / name.format(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"step {number}\n{text}")
    return [file.rank for file in sorted(find_rank_logs([str(folder)]).logs, key=lambda f: f.path)]


@pytest.mark.parametrize("numbers", [(0, 1, 2), (12,)])
def test_a_letter_is_a_rank_where_it_counts(tmp_path: Path, numbers: tuple[int, ...]) -> None:
    told = list(numbers) if len(numbers) > 1 else [None]
    assert ranks(tmp_path, "r{}_fit.log", LOST, numbers) == told


@pytest.mark.parametrize(
    "name",
    [
        "log_{:02d}",
        "logs/{}/stdout.txt",
        "job.4711.out.{}",
        "mpi.1.{:04d}",
        "std_log_process_{}.txt",
        "global_rank={0}.local_rank={0}.log",
    ],
)
def test_a_number_that_alone_differs_is_the_rank(tmp_path: Path, name: str) -> None:
    assert ranks(tmp_path, name, LOST, (0, 1, 2)) == [0, 1, 2]


@pytest.mark.parametrize(("first", "told"), [(2, [0, 1, 2, 3]), (0, [None] * 4)])
def test_each_host_has_a_part_of_the_ranks_or_counts_its_own(
    tmp_path: Path, first: int, told: list[int | None]
) -> None:
    ranks(tmp_path, "wx7.{}.log", LOST, (0, 1))
    assert ranks(tmp_path, "wx8.{}.log", LOST, (first, first + 1)) == told


@pytest.mark.parametrize(
    ("hosts", "told"),
    [(("node_a", "nodeB"), [(None, 0, "nodeB"), (None, 0, "node_a")]),
     (("gpu-a", "gpu-b"), [(None, 0, "gpu-a"), (None, 0, "gpu-b")]),
     (("node1", "node1.err"), [(0, None, "node1"), (0, None, "node1")])],
)  # fmt: skip
def test_ranks_that_several_hosts_have_are_counted_on_each(
    tmp_path: Path, hosts: tuple[str, ...], told: list[tuple[int | None, int | None, str]]
) -> None:
    for host in hosts:
        (tmp_path / f"{host}.rank0.log").write_text("step 1\n")
    logs = sorted(find_rank_logs([str(tmp_path)]).logs, key=lambda file: file.path)
    assert [(file.rank, file.local_rank, file.host) for file in logs] == told


@pytest.mark.parametrize(
    ("name", "text", "numbers"),
    [
        ("log_{}", "loss 0.25\n", (0, 1, 2)),  # a program that ran three times
        ("attempt_{}.log", LOST, (0, 1, 2)),
        ("slurm-4711_{}.out", LOST, (0, 1, 2)),  # jobs of an array
        ("slurm_train-4711_{}.out", LOST, (0, 1, 2)),
        ("log_{}", LOST, (1, 2)),
        ("host{}/train.log", LOST, (0, 1, 2)),
        ("log_{}", f"[rank3]: a\n[rank4]: b\n{LOST}", (0, 1)),  # logs of nodes
        ("log_{}", f"{LOST}torch.distributed.elastic.multiprocessing.api: failed\n", (0, 1)),
    ],
)
def test_a_number_that_may_be_another_is_none(
    tmp_path: Path, name: str, text: str, numbers: tuple[int, ...]
) -> None:
    assert set(ranks(tmp_path, name, text, numbers)) == {None}


def test_a_packed_log_and_a_few_empty_ones_are_of_the_series(tmp_path: Path) -> None:
    assert len(ranks(tmp_path, "err.{:03d}", LOST, tuple(range(20)))) == 20
    for number in (3, 4):
        path = tmp_path / f"err.{number:03d}"
        (tmp_path / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    assert ranks(tmp_path, "err.{:03d}", LOST, (0,)) == [*range(20)]
    (tmp_path / "err.007").write_text("")
    assert ranks(tmp_path, "err.{:03d}", LOST, (0,)) == [*range(7), *range(8, 20)]


@pytest.mark.parametrize(("closed", "first"), [("worker-2.err", None), ("notes.err", [2])])
def test_the_rank_whose_log_may_not_be_read_is_not_called_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, closed: str, first: list[int] | None
) -> None:
    (tmp_path / closed).write_text("KeyError: 'lr'\n")
    kept = regular._require_regular

    def refused(path: str, mode: int) -> None:
        if path.endswith(closed):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        kept(path, mode)

    monkeypatch.setattr(regular, "_require_regular", refused)
    monkeypatch.setattr(os, "access", lambda path, _: not path.endswith(closed))
    for rank in (0, 1):
        text = "joined a group of world size 3\nTraceback (most recent call last):\n"
        (tmp_path / f"worker-{rank}.err").write_text(text + LOST)
    body: Any = analyse([str(tmp_path)], RankLogOptions(world_size=3)).body
    found = body["first_failure"]
    assert (found and found["ranks"]) == first
    assert found or [row["rank"] for row in body["candidates"]] == [2]


@pytest.mark.parametrize(
    ("names", "attempts"),
    [
        (("w-0-previous.log", "w-0.log", "w-1.log"), [0, 1, 1]),
        (("w-0_prev.log", "w-1.log"), [None, None]),
        (("w-0.log", "w-0-preview.log"), [None, None]),
    ],
)
def test_what_a_container_wrote_before_it_was_started_again_is_of_the_attempt_before(
    tmp_path: Path, names: tuple[str, ...], attempts: list[int | None]
) -> None:
    for name in names:
        (tmp_path / name).write_text("step 1 loss 0.5\n")
    found = {Path(one.path).name: one.attempt for one in find_rank_logs([str(tmp_path)]).logs}
    assert [found[name] for name in names] == attempts


@pytest.mark.parametrize(("name", "rank"), [("proc-25905-status.txt", None), ("proc_3.log", 3)])
def test_what_is_called_after_a_process_of_five_digits_is_of_a_pid(
    tmp_path: Path, name: str, rank: int | None
) -> None:
    (tmp_path / name).write_text("State:\tS (sleeping)\n")
    assert [one.rank for one in find_rank_logs([str(tmp_path)]).logs] == [rank]
