"""NCCL's own lines: who speaks to whom and how, whom warnings name, the way back from an error."""

from pathlib import Path
from typing import Any

import pytest

from postmortem.analyses.ranklogs import RankLogOptions, analyse
from postmortem.report.model import Report

HOSTS = ("gpu01", "gpu02", "gpu03", "gpu04")


def line(rank: int, text: str, level: str = "INFO") -> str:
    return f"{HOSTS[rank // 2]}:{4000 + rank}:{4100 + rank} [{rank % 2}] NCCL {level} {text}"


def channels(rank: int, slow: str = "") -> list[str]:
    following = (rank + 1) % 8
    rows = []
    for number in range(2):
        pair = f"Channel {number:02d}/0 : {rank}[{rank % 2}] -> {following}[{following % 2}]"
        if rank % 2 == 0:
            rows.append(line(rank, f"{pair} via P2P/CUMEM/read"))
            continue
        ends = (HOSTS[rank // 2], HOSTS[following // 2])
        how = "NET/Socket/0" if slow in ends else "NET/IB/0/GDRDMA"
        rows.append(line(rank, f"{pair} [send] via {how}"))
        rows.append(line(following, f"{pair} [receive] via {how}"))
    return rows


def report_of(tmp_path: Path, lines: list[str]) -> tuple[Report, Any]:
    (tmp_path / "job.out").write_text("\n".join(lines) + "\n")
    report = analyse([str(tmp_path)], RankLogOptions())
    body: Any = report.body
    return report, body["nccl"]


def test_transports_between_hosts(tmp_path: Path) -> None:
    rows = [row for rank in range(8) for row in channels(rank, "gpu03")]
    report, nccl = report_of(tmp_path, rows)
    assert not report.failed
    pairs = {(row["from"], row["to"]): row["transport"] for row in nccl["transports"]}
    assert pairs == {
        ("gpu01", "gpu01"): "P2P/CUMEM/read",
        ("gpu02", "gpu02"): "P2P/CUMEM/read",
        ("gpu03", "gpu03"): "P2P/CUMEM/read",
        ("gpu04", "gpu04"): "P2P/CUMEM/read",
        ("gpu01", "gpu02"): "NET/IB/GDRDMA",
        ("gpu02", "gpu03"): "NET/Socket",
        ("gpu03", "gpu04"): "NET/Socket",
        ("gpu04", "gpu01"): "NET/IB/GDRDMA",
    }
    assert {row["channels"] for row in nccl["transports"]} == {2, 4}


@pytest.mark.parametrize("how", ["P2P/IPC", "P2P/direct pointer", "SHM/direct/direct", "SHM"])
def test_older_forms_of_channels(how: str, tmp_path: Path) -> None:
    _, nccl = report_of(
        tmp_path, [line(0, f"Channel 00 : 0[1000] -> 1[b2000] via {how} comm 0x7f")]
    )
    assert nccl["transports"][0]["transport"] == how.split(" ")[0]


def test_many_channels_are_no_remarks_that_are_left_out(tmp_path: Path) -> None:
    rows = [line(0, f"Channel {i:02d}/0 : 0[0] -> 1[1] via P2P/IPC") for i in range(5000)]
    report, nccl = report_of(tmp_path, rows)
    assert report.problems == ()
    assert nccl["transports"][0]["channels"] == 5000


FORMS = [
    "NET/IB : Got completion from peer {}<33092> with error 12, opcode 0, len 0, vendor err 129",
    "NET/IB: Got completion from peer {}<33092> with status=12 opcode=0 len=0 vendor err 129",
    "NET/IB : Got completion from peer {}<33092> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=0",
    "NET/IB: mlx5_2:1 Got completion from peer {}<33092> with status=IBV_WC_RETRY_EXC_ERR(12)",
    "socketStartConnect: Connect to {}<41813> failed : Connection refused",
    "Net : Call to recv from {}<41813> failed : Connection timed out",
]


@pytest.mark.parametrize("form", FORMS)
def test_one_peer_that_many_hosts_name(form: str, tmp_path: Path) -> None:
    rows = [line(4, "Bootstrap : Using ib0:10.0.0.3<0>")]
    rows += [line(rank, form.format("10.0.0.3"), "WARN") for rank in (0, 2, 6)]
    report, nccl = report_of(tmp_path, rows)
    assert nccl["peers"][0]["address"] == "10.0.0.3"
    assert nccl["peers"][0]["hosts"] == ["gpu01", "gpu02", "gpu04"]
    assert report.diagnoses[0].id == "one_bad_peer"
    assert "10.0.0.3 (gpu03)" in report.verdict
    assert report.failed


_REMOTE = (
    "[rank5]: torch.distributed.DistBackendError: NCCL error in: /x/ProcessGroupNCCL.cpp:2395, "
    "remote process exited or there was a network error, NCCL version 2.26.2"
)


@pytest.mark.parametrize(
    ("named", "first"),
    [
        (["10.0.0.3"], "one_bad_peer"),
        (["10.0.0.3", "10.0.0.4"], "only_victims"),
        ([], "only_victims"),
    ],
)
def test_the_only_peer_that_is_named_where_all_else_only_lost_one(
    named: list[str], first: str, tmp_path: Path
) -> None:
    echo = [line(4, "[Proxy Progress] fatal error 6", "WARN")]
    rows = [line(4, FORMS[3].format(address), "WARN") for address in named]
    report, _ = report_of(tmp_path, [*rows, *echo, _REMOTE])
    assert report.diagnoses[0].id == first
    assert report.diagnoses[0].confidence == "possible"
    candidates: Any = report.body["candidates"]
    assert all(one["rank"] in (5, None) for one in candidates)


def test_consequences_name_nobody(tmp_path: Path) -> None:
    flushed = FORMS[1].format("10.0.0.3").replace("status=12", "status=5")
    _, nccl = report_of(tmp_path, [line(rank, flushed, "WARN") for rank in (0, 2, 6)])
    assert nccl["peers"] == []


def test_the_way_back_from_an_error(tmp_path: Path) -> None:
    steps = ["transport/net_ib.cc:1295", "transport/net.cc:1034", "proxy.cc:520"]
    rows = [row for step in steps for row in (line(0, f"{step} -> 6"), line(2, f"{step} -> 6"))]
    _, nccl = report_of(tmp_path, [*rows, line(2, "init.cc:88 -> 2")])
    assert [(t["host"], t["result"], t["steps"]) for t in nccl["trails"]] == [
        ("gpu01", 6, steps),
        ("gpu02", 6, steps),
        ("gpu02", 2, ["init.cc:88"]),
    ]


def test_lines_of_others_with_arrows_are_no_trail(tmp_path: Path) -> None:
    _, nccl = report_of(
        tmp_path, ["I1121 foo.cc:12] 3 -> 4", "see net.cc:1 -> 2", "NCCL.cc:1 -> x"]
    )
    assert nccl is None


_WARNED = line(3, "a.cc:3 NCCL WARN Call to ibv_reg_mr failed with error Invalid argument", "WARN")
_ALSO = _WARNED.replace("4003", "4002")
_REFUSED = "Connect to 10.0.0.2<45> failed : Connection refused"


@pytest.mark.parametrize(
    ("beside", "kind", "cited"),
    [
        ([_WARNED], "unhandled system error", True),
        ([_WARNED, _ALSO], "unhandled system error", True),  # whosever: it is the same
        ([_WARNED, _ALSO.replace("Call to ibv_reg_mr", _REFUSED)], "unhandled system error", False),
        ([_WARNED, *["a word"] * 30], "unhandled system error", False),
    ],
)
def test_the_warning_beside_an_error_of_nccl_is_cited(
    tmp_path: Path, beside: list[str], kind: str, cited: bool
) -> None:
    raised = [
        "Traceback (most recent call last):",
        '  File "/job/train.py", line 31, in <module>',
        "    dist.all_reduce(x)",
        f"torch.distributed.DistBackendError: NCCL error in: a.cpp:71, {kind} (run with "
        "NCCL_DEBUG=INFO for details), NCCL version 2.21.5",
    ]
    report, _ = report_of(tmp_path, [*beside, *(f"[rank3]: {row}" for row in raised)])
    where = [row.where for row in report.diagnoses[0].evidence]
    assert ("job.out:1" in where) is cited
