"""Who failed by itself too, beside the rank that is told first; and who only waited for a peer."""

from pathlib import Path

import pytest

from builders.prose import Prose
from builders.ranklogs import raised_first, report_of
from postmortem.analyses.ranklogs import RankLogOptions, analyse
from postmortem.report.model import Report

_LOST = "RuntimeError: Connection closed by peer [10.0.0.2]:2259"


def _raised(rank: int, words: str, minute: int = 3) -> str:
    lines = (
        f'Traceback (most recent call last):\n  File "t.py", line {rank}, in f\n    f()\n{words}'
    )
    stamp = f"2026-11-21T02:{minute:02}:00.767Z [rank{rank}]: "
    return "".join(f"{stamp}{line}\n" for line in lines.splitlines())


def _also(report: Report) -> list[tuple[int, bool]]:
    rows = report.body["also_failed"]
    assert isinstance(rows, list)
    return [(row["rank"], row["raised"]) for row in rows]


@pytest.mark.parametrize(("other", "also"), [("ValueError: width 7", [(2, True)]), (_LOST, [])])
def test_two_errors_of_ranks_are_both_told(
    tmp_path: Path, other: str, also: list[tuple[int, bool]]
) -> None:
    text = _raised(0, "KeyError: 'lr'") + _raised(2, other)
    report = report_of(tmp_path, text)
    assert raised_first(report) == (0, "KeyError: 'lr'")
    assert _also(report) == also


_ROW = """\
[{n}]:
  time      : 2026-11-21_02:03:01
  host      : n1
  rank      : {rank} (local_rank: {rank})
  exitcode  : {code} (pid: {pid})
  error_file: <N/A>
"""


@pytest.mark.parametrize(("code", "also"), [(9, [(2, False)]), (1, []), (143, [])])
def test_who_ended_without_a_word_by_a_code_of_its_own_is_told_beside_an_error(
    tmp_path: Path, code: int, also: list[tuple[int, bool]]
) -> None:
    rule = "=" * 60
    words = "".join(
        f"2026-11-21T02:02:00.767Z [rank{rank}]: step 1 loss 0.9\n" for rank in range(3)
    )
    rows = _ROW.format(n=1, rank=2, code=code, pid=12)
    first = _ROW.format(n=0, rank=0, code=1, pid=10)
    table = f"{rule}\nt.py FAILED\nFailures:\n{rows}Root Cause (first observed failure):\n{first}"
    report = report_of(tmp_path, words + _raised(0, "KeyError: 'lr'") + f"{table}{rule}\n")
    assert raised_first(report) == (0, "KeyError: 'lr'")
    assert _also(report) == also


def test_errors_without_a_prefix_are_of_the_ranks_of_their_nodes_launcher(tmp_path: Path) -> None:
    said = 'Traceback (most recent call last):\n  File "t.py", line 3, in <module>\n{}\n'
    table = "t.py FAILED\nFailures:\n{}Root Cause (first observed failure):\n{}" + "=" * 60 + "\n"
    rows = [_ROW.format(n=rank % 2, rank=rank, code=1, pid=rank + 10) for rank in range(4)]
    late = "torch.distributed.DistStoreError: wait timeout after 30000ms, keys: /default_pg/0/2"
    (tmp_path / "a.log").write_text(said.format(late) + table.format("", rows[1]))
    missing = said.format("ModuleNotFoundError: No module named 'ops'") * 2
    (tmp_path / "b.log").write_text(missing + table.format(rows[3], rows[2]))
    found = analyse([str(tmp_path)], RankLogOptions()).body["first_failure"]
    assert isinstance(found, dict)
    assert found["ranks"] == [2, 3]


@pytest.mark.parametrize(("peer", "first"), [(1, 0), (2, 2)])
def test_a_time_out_that_names_another_rank_is_no_error_of_its_own(
    tmp_path: Path, peer: int, first: int
) -> None:
    late = f"TimeoutError: rank {peer} sent no part for 15 s"
    found = raised_first(report_of(tmp_path, _raised(2, late) + _raised(0, "KeyError: 'lr'", 9)))
    assert found is not None
    assert found[0] == first


_AT = """\
{tag}Traceback (most recent call last):
{tag}  File "train.py", line {line}, in {function}
{tag}    {code}
{more}{tag}{words}
"""
_IN = '{tag}  File "/lib/torch/distributed/distributed_c10d.py", line 9, in all_reduce\n'


def _interrupted(rank: int, function: str, words: str = "KeyboardInterrupt") -> str:
    tag = f"[rank{rank}]: "
    more = _IN.format(tag=tag) if function == "step" else ""
    line = 40 + len(function)
    return _AT.format(tag=tag, line=line, function=function, code="f()", more=more, words=words)


@pytest.mark.parametrize(
    ("functions", "named"),
    [
        (("step", "push", "step"), "rank 1"),
        (("step", "step", "step"), ""),
        (("load", "push", "step"), ""),
    ],
    ids=["one elsewhere", "all wait", "two elsewhere"],
)
def test_ctrl_c_tells_where_the_one_rank_was_that_did_not_wait(
    tmp_path: Path, functions: tuple[str, ...], named: str
) -> None:
    stop = "W0102 03:04:05.678000 70 torch/distributed/elastic/agent/server/api.py:753] "
    stop += "Received 2 death signal, shutting down workers\n"
    text = stop + "".join(_interrupted(rank, at) for rank, at in enumerate(functions))
    report = report_of(tmp_path, text)
    assert report.body["decided_by"] == "stopped"
    places = [one.what for one in report.diagnoses[0].evidence if "train.py:44" in one.what]
    assert [what.startswith(named) for what in places] == ([True] if named else [])


@pytest.mark.parametrize(
    ("ended", "listed"),
    [((2, 3), (2, 3)), ((), ()), ((1,), ())],
    ids=["two were ended", "nobody else", "who raised was ended too"],
)
def test_how_many_of_how_many_raised_is_said(
    tmp_path: Path, ended: tuple[int, ...], listed: tuple[int, ...], prose: Prose
) -> None:
    rows = "".join(_ROW.format(n=n, rank=n, code=-15, pid=70 + n) for n in listed)
    first = _ROW.format(n=0, rank=0, code=1, pid=70)
    table = f"t.py FAILED\nFailures:\n{rows}Root Cause (first observed failure):\n{first}"
    said = "" if listed == ended else "world_size: 2\n"
    said += "".join(_raised(rank, "KeyError: 'lr'") for rank in (0, 1))
    stop = "W1121 02:03:00.9 60 torch/distributed/elastic/multiprocessing/api.py:1028] Sending "
    said += "".join(f"{stop}process {70 + n} closing signal SIGTERM\n" for n in ended)
    report = report_of(tmp_path, f"{said}{'=' * 60}\n{table}{'=' * 60}\n")
    assert report.body["decided_by"] == "every rank"
    prose(report.verdict)


@pytest.mark.parametrize(("first", "rank"), [(0, 1), (1, None)])
def test_a_file_has_the_rank_of_its_number_where_those_beside_it_have(
    tmp_path: Path, first: int, rank: int | None
) -> None:
    """Names that count from 1 are none of ranks."""
    texts = [_raised(0, _LOST), "Fatal Python error: Bus error\n", _raised(2, _LOST)]
    for number, text in enumerate(texts, first):
        (tmp_path / f"stderr.{number}").write_text(text.replace("2026-11-21T02:03:00.767Z ", ""))
    found = analyse([str(tmp_path)], RankLogOptions()).body["first_failure"]
    assert isinstance(found, dict)
    assert found["rank"] == rank


@pytest.mark.parametrize(
    ("error", "meant"),
    [("RuntimeError: basic_ios::clear: iostream error", True), ("KeyError: 'lr'", False)],
)
def test_what_an_error_means_is_told_where_it_does_not_say_it(
    tmp_path: Path, error: str, *, meant: bool
) -> None:
    found = report_of(tmp_path, _raised(0, error)).body["first_failure"]
    assert isinstance(found, dict)
    assert (found["means"] is not None) is meant


@pytest.mark.parametrize(
    ("line", "named"),
    [("step {n} loss 0.9\n", True), ("INFO:fit:batch={n} mse=0.{n}71\n", True), ("ready\n", False)],
    ids=["work", "moves on in one form", "none"],
)
def test_a_log_that_ends_at_work_is_of_who_was_lost(
    tmp_path: Path, line: str, *, named: bool
) -> None:
    rule = "=" * 60
    rows = [_ROW.format(n=rank, rank=rank, code=1, pid=10 + rank) for rank in range(2)]
    table = f"{rule}\nt.py FAILED\nFailures:\n{rows[1]}Root Cause (first observed failure):\n"
    lost = "".join(_raised(rank, _LOST.replace("10.0.0.2", "127.0.0.1")) for rank in range(2))
    (tmp_path / "node-a.log").write_text(f"{lost}{table}{rows[0]}{rule}\n")
    (tmp_path / "node-b.log").write_text("".join(line.format(n=n) for n in range(6)))
    report = analyse([str(tmp_path)], RankLogOptions())
    assert [row["label"] for row in report.body["candidates"]] == (["node-b.log"] if named else [])


@pytest.mark.parametrize(("pid", "told"), [(4712, "kernel log"), (4799, "silent")])
def test_a_rank_of_which_only_the_kernel_tells_how_it_ended(
    tmp_path: Path, pid: int, told: str
) -> None:
    heads = "".join(f"INFO train: rank {r} of 3 is pid {4710 + r}\n" for r in range(3))
    (tmp_path / "job.log").write_text(heads + _raised(0, _LOST) + _raised(1, _LOST))
    (tmp_path / "dmesg.txt").write_text(
        f"[ 8812.104] python[{pid}]: segfault at 10 ip 00007fb0e8b85ad8 sp 00007fff4bf65508 "
        "error 4 in libc.so.6[167ad8,7fb0e8a44000+156000]\n"
    )
    body = analyse([str(tmp_path)], RankLogOptions()).body
    assert (body["decided_by"], body["first_failure"]["ranks"]) == (told, [2])
