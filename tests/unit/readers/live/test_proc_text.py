"""What /proc writes, read: sockets, jobs by their variables, stack dumps of several ranks."""

import json

import pytest

from builders.prose import Prose
from postmortem.errors import EvidenceError
from postmortem.readers.live.descriptors import connection, inode_of
from postmortem.readers.live.job_processes import members_of
from postmortem.readers.live.native import read_native
from postmortem.readers.stackdumps import read_stack_dumps
from postmortem.readers.stackdumps.labels import rank_stacks

TCP = (
    "   1: 0100007F:733C 0200000A:1A0B 01 00000003:00000010 00:00000000 00000000  1000        0 "
    "4711 1 0000000000000000 20 4 30 10 -1"
)


def test_a_connection(prose: Prose) -> None:
    found = connection(TCP, "TCP")
    assert found is not None
    assert (found.inode, found.local, found.peer) == (4711, "127.0.0.1:29500", "10.0.0.2:6667")
    prose(found.words)


def test_a_connection_of_ipv6() -> None:
    line = TCP.replace("0100007F", "0000000000000000FFFF00000100007F")
    line = line.replace("0200000A", "B80D0120000000000000000001000000")
    found = connection(line, "TCP")
    assert found is not None
    assert (found.local, found.peer) == ("127.0.0.1:29500", "[2001:db8::1]:6667")


@pytest.mark.parametrize("line", ["", "x " * 20, TCP.replace("0100007F", "01"), TCP[:40]])
def test_what_is_no_connection(line: str) -> None:
    assert connection(line, "TCP") is None


def test_inodes() -> None:
    assert inode_of("socket:[4711]") == 4711
    assert inode_of("anon_inode:[eventpoll]") is None
    assert inode_of("/tmp/a[1]b") is None


def test_nobody(prose: Prose) -> None:
    with pytest.raises(EvidenceError) as refused:
        members_of([2**31 - 1])
    prose(refused.value)
    found = read_native([2**31 - 1], stop=True, deadline_seconds=60)
    assert found[2**31 - 1].core is None
    prose(found[2**31 - 1].error or "")


def test_each_rank_of_a_report_stands_for_itself() -> None:
    def one(rank: int | None, pid: int, works_for: int | None = None) -> dict[str, object]:
        frames = [{"kind": "python", "function": f"f{pid}", "file": "/a.py", "line": 1}]
        thread = {"tid": pid, "name": "python", "state": "R", "frames": frames}
        return {"pid": pid, "rank": rank, "works_for": works_for, "threads": [thread]}

    document = {
        "schema": "postmortem/1",
        "kind": "hang",
        "processes": [one(0, 10), one(1, 11), one(None, 12, works_for=11)],
    }
    dumps = read_stack_dumps(json.dumps(document), "hang.json")
    found = rank_stacks([("hang.json", dumps)])
    assert [(row.rank, row.thread.frames[0].function, row.is_running) for row in found] == [
        (0, "f10", True),
        (1, "f11", True),
    ]
