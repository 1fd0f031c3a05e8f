"""How the cores of a storage are shared out among Dask's workers."""

from pathlib import Path

import pytest

from postmortem.fleet.dask import one_for_each_host, shares
from postmortem.fleet.engines import NoEngine


def test_each_file_is_in_one_task(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    files = [tmp_path / "deep" / f"core.{number:03}" for number in range(150)]
    for file in files:
        file.touch()
    found = shares(["--python", "/no/such/python", str(tmp_path)])
    assert [len(row) for row in found] == [2 + 64, 2 + 64, 2 + 22]
    assert all(row[:2] == ["--python", "/no/such/python"] for row in found)
    assert sorted(path for row in found for path in row[2:]) == [str(file) for file in files]


def test_addresses_are_listed_by_fsspec(tmp_path: Path) -> None:
    memory = pytest.importorskip("fsspec").filesystem("memory")
    names = [f"/job/deep/core.{number}" for number in range(70)]
    for name in names:
        memory.pipe_file(name, b"core")
    found = shares(["memory://job"])
    assert [len(row) for row in found] == [64, 6]
    assert sorted(path for row in found for path in row) == sorted(f"memory://{n}" for n in names)
    for address in ("memory://nowhere", "no-such-protocol://job"):
        with pytest.raises(NoEngine):
            shares([address])


def test_nothing_to_share(tmp_path: Path) -> None:
    with pytest.raises(NoEngine, match="shared storage"):
        shares([str(tmp_path)])


def test_one_worker_of_each_host() -> None:
    workers = {"tcp://a:1": "a", "tcp://a:2": "a", "tcp://b:1": "b"}
    assert one_for_each_host(workers) == ("tcp://a:1", "tcp://b:1")
