"""Stacks that lie beside logs: whose they are, and whose are missing."""

import os
import pickle
from datetime import datetime
from pathlib import Path

import pytest

from builders.jams import Layout, jammed
from builders.prose import Prose
from postmortem.analyses.ranklogs import RankLogOptions, analyse
from postmortem.present.card import filled
from postmortem.report.model import Report

_STACK = """Current thread 0x00007f843b1bcb80 (most recent call first):
  File "/usr/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 3252 in {}
  File "/home/user/train.py", line 55 in main
"""


def _report(folder: Path, ranks: int, head: str, call: str = "all_reduce") -> Report:
    for rank in range(ranks):
        line = f"2026-01-02 03:04:05,678 INFO {head.format(rank=rank)}\n"
        (folder / f"rank{rank}.log").write_text(line)
        (folder / f"stack.rank{rank}.txt").write_text(_STACK.format(call))
    return analyse([str(folder)], RankLogOptions())


@pytest.mark.parametrize("head", ["train: rank {rank} of 4 starts", "[rank {rank}/4] starts"])
def test_who_is_missing_is_told_as_likely(tmp_path: Path, head: str, prose: Prose) -> None:
    report = _report(tmp_path, 3, head)
    assert report.failed
    assert [row["rank"] for row in report.body["candidates"]] == [3]
    prose(report.body["world_size_source"])


@pytest.mark.parametrize(
    ("ranks", "head"),
    [
        (4, "train: rank {rank} of 4 starts"),
        (3, "train: tp rank {rank} of 4 starts"),
        (3, "train: starts"),
        (2, "train: rank {rank} of 4 starts"),
    ],
    ids=["all are there", "a smaller group", "how many is not told", "half of them"],
)
def test_nobody_is_missed(tmp_path: Path, ranks: int, head: str) -> None:
    assert not _report(tmp_path, ranks, head).failed


@pytest.mark.parametrize(
    ("missed", "world", "ranks"), [((0, 2), 3, [1]), ((0,), 3, None), ((0,), 2, [1])]
)
def test_who_missed_a_peer_waited_where_its_stack_is_not_there(
    tmp_path: Path, missed: tuple[int, ...], world: int, ranks: list[int] | None
) -> None:
    lost = (
        'Traceback (most recent call last):\n  File "/job/train.py", line 9, in <module>\n'
        "RuntimeError: [unbound_buffer.cc:78] Timed out waiting 22000ms for recv operation\n"
    )
    for rank in range(world):
        text = f"step 1\n{lost}" if rank in missed else "step 1\n"
        (tmp_path / f"rank{rank}.log").write_text(text)
    for rank in (0, 1):
        text = _STACK.format("all_reduce")
        text = text.replace("torch/distributed/distributed_c10d", "words/sync") if rank else text
        (tmp_path / f"stack.rank{rank}.txt").write_text(text)
    body = analyse([str(tmp_path)], RankLogOptions()).body
    first = body["first_failure"]
    assert (first and first["ranks"]) == ranks
    assert first or [row["rank"] for row in body["candidates"]] == [1]


@pytest.mark.parametrize(("stuck", "shown"), [("encode", True), ("all_reduce", False)])
def test_where_a_rank_stands_is_told_beside_the_call_that_it_missed(
    tmp_path: Path, stuck: str, shown: bool
) -> None:
    job = jammed(Layout(4, 4, 4), {5: "stuck"}, 1)
    for rank, dump in job.dumps().items():
        (tmp_path / f"trace_rank_{rank}").write_bytes(pickle.dumps(dump))
        text = _STACK.format(stuck if rank == 5 else "all_reduce")
        if rank == 5 and shown:
            text = text.replace("torch/distributed/distributed_c10d", "tokenizers/words")
        (tmp_path / f"stack.rank{rank}.txt").write_text(text)
    report = analyse([str(tmp_path)], RankLogOptions())
    assert report.body["first_failure"]["ranks"] == [5]
    told = [one.where for one in report.diagnoses[0].evidence]
    assert told == (["trace_rank_5", "stack.rank5.txt"] if shown else ["trace_rank_5"])


@pytest.mark.parametrize(("behind", "stuck"), [(15, False), (400, True)])
def test_recorders_of_a_job_whose_next_line_was_not_due_show_nothing(
    tmp_path: Path, behind: int, stuck: bool
) -> None:
    end = 1_800_000_000
    lines = (
        f"{datetime.fromtimestamp(end - 20 * n):%Y-%m-%d %H:%M:%S} step {9 - n} loss 0.{n}\n"
        for n in range(8, -1, -1)
    )
    (tmp_path / "train.log").write_text("".join(lines))
    os.utime(tmp_path / "train.log", (end, end))
    for rank, dump in jammed(Layout(4, 4, 4), {5: "stuck"}, 1).dumps().items():
        (tmp_path / f"trace_rank_{rank}").write_bytes(pickle.dumps(dump))
        os.utime(tmp_path / f"trace_rank_{rank}", (end + behind, end + behind))
    first = analyse([str(tmp_path)], RankLogOptions()).body["first_failure"]
    assert (first is not None) is stuck


@pytest.mark.parametrize(
    ("head", "behind", "ranks"),
    [
        ("Timeout (0:00:14)!", "", [2]),
        ("Timeout (0:00:14)!", "[default2]:step 8 loss 0.4\n", []),
        ("got signal 10, stacks follow", "", [2]),
        ("Fatal Python error: Segmentation fault", "", []),
    ],
    ids=["stuck", "went on", "at a signal", "crashed"],
)
def test_stacks_in_the_lines_of_ranks_tell_where_they_stood_last(
    tmp_path: Path, head: str, behind: str, ranks: list[int]
) -> None:
    text = ""
    for rank in range(3):
        stack = _STACK.format("all_reduce" if rank < 2 else "tokens")
        stack = stack if rank < 2 else stack.replace("torch/distributed/distributed_c10d", "words")
        lines = f"step 7 loss 0.5\n{head}\n{stack}".splitlines()
        text += "".join(f"[default{rank}]:{line}\n" for line in lines)
    (tmp_path / "job.log").write_text(text + behind)
    body = analyse([str(tmp_path)], RankLogOptions()).body
    assert (body["first_failure"]["ranks"] if body["decided_by"] == "stack" else []) == ranks


def test_stacks_below_the_only_line_of_a_log_are_of_its_rank(tmp_path: Path) -> None:
    """Whatever the log is called: little else than stacks is no dump where a line has a time."""
    for rank in range(3):
        stack = _STACK.format("all_reduce" if rank else "tokens")
        stack = stack if rank else stack.replace("torch/distributed/distributed_c10d", "words")
        lines = f"2026-01-02 03:04:05,678 INFO start: rank {rank}/3 pid 71{rank}\n"
        (tmp_path / f"worker{rank}.out").write_text(lines + stack * 3)
    body = analyse([str(tmp_path)], RankLogOptions()).body
    assert (body["decided_by"], body["first_failure"]["ranks"]) == ("stack", [0])


_PYSPY = """Process {pid}: /usr/bin/python -u train.py
Python v3.11.7 (/usr/bin/python3.11)

Thread {pid} (idle): "MainThread"
    {inner}
    main (train.py:183)
    <module> (train.py:211)
"""
_ENDED = """Root Cause (first observed failure):
[0]:
  time      : 2026-01-02_03:04:05
  host      : node1
  rank      : {rank} (local_rank: {rank})
  exitcode  : -15 (pid: {pid})
"""
_IN_STEP = "all_reduce (torch/distributed/distributed_c10d.py:3252)"
_LOADING = "_MultiProcessingDataLoaderIter._try_get_data (torch/utils/data/dataloader.py:1291)"
_WORKING = "Tokens.__getitem__ (train.py:33)\n    fetch (torch/utils/data/_utils/fetch.py:54)"
_LOOP = "_worker_loop (torch/utils/data/_utils/worker.py:334)"


def test_dumps_that_are_called_after_pids_are_of_the_ranks_that_had_them(
    tmp_path: Path, prose: Prose
) -> None:
    ends = "".join(_ENDED.format(rank=r, pid=4710 + r) for r in range(3))
    (tmp_path / "job.log").write_text(ends)
    inner = {
        4710: _IN_STEP,
        4711: _IN_STEP,
        4712: _LOADING,
        4720: f"get (multiprocessing/queues.py:113)\n    {_LOOP}",
        4721: f"{_WORKING}\n    {_LOOP}",
    }
    for pid, frames in inner.items():
        (tmp_path / f"pyspy-{pid}.txt").write_text(_PYSPY.format(pid=pid, inner=frames))
    report = analyse([str(tmp_path)], RankLogOptions())
    assert report.body["first_failure"]["rank"] == 2
    prose(report.verdict)
    waiting = [row["ranks"] for row in report.body["stacks"]["classes"]]
    assert sorted(waiting) == [[0, 1], [2]]


_THREAD = """Exception in thread prefetch:
Traceback (most recent call last):
  File "/usr/lib/python3.11/threading.py", line 1045, in _bootstrap_inner
    self.run()
  File "/home/user/train.py", line 31, in prefetch
ValueError: shard 3 is cut
"""


@pytest.mark.parametrize(
    ("tags", "said"),
    [(["[rank2]: "], True), (["[rank0]: "], False), ([""], True), (["", ""], False)],
    ids=["its own", "another one's", "of nobody", "of two"],
)
def test_of_who_stands_elsewhere_the_death_of_its_thread_is_told(
    tmp_path: Path, tags: list[str], *, said: bool
) -> None:
    ends = "".join(_ENDED.format(rank=r, pid=4710 + r) for r in range(3))
    died = "".join(f"{tag}{line}\n" for tag in tags for line in _THREAD.splitlines())
    (tmp_path / "job.log").write_text(died + ends)
    waits = "Queue.get (queue.py:171)\n    rows (train.py:44)"
    for pid, frames in {4710: _IN_STEP, 4711: _IN_STEP, 4712: waits}.items():
        (tmp_path / f"pyspy-{pid}.txt").write_text(_PYSPY.format(pid=pid, inner=frames))
    report = analyse([str(tmp_path)], RankLogOptions())
    assert report.body["first_failure"]["rank"] == 2
    assert ("ValueError: shard 3 is cut" in report.verdict) == said


def test_a_module_of_pythons_own_is_not_the_programs(tmp_path: Path) -> None:
    (tmp_path / "job.log").write_text(
        "".join(_ENDED.format(rank=r, pid=4710 + r) for r in range(3))
    )
    opens = "Path.open (pathlib.py:1044)\n    read_row (train.py:65)"
    for pid, frames in {4710: _IN_STEP, 4711: _IN_STEP, 4712: opens}.items():
        (tmp_path / f"pyspy-{pid}.txt").write_text(_PYSPY.format(pid=pid, inner=frames))
    report = analyse([str(tmp_path)], RankLogOptions())
    assert "train.py:65 in read_row" in report.body["first_failure"]["what"]


@pytest.mark.parametrize(
    ("state", "args", "end", "failed"),
    [
        ("Tsl  do_signal_stop", "python3 train.py", "", True),
        ("TNsl", "/opt/bin/python3 train.py", "", True),
        ("Tsl", "tail -f python.log", "", False),
        ("Ssl  futex_do_wait", "python3 train.py", "", False),
        ("T    do_signal_stop", "vim train.py", "", False),
        ("Tsl  do_signal_stop", "python3 train.py", "training finished\n", False),
    ],
    ids=["stopped", "without WCHAN", "a reader", "waits", "an editor", "the job came to its end"],
)
def test_a_process_that_ps_shows_stopped_is_why_logs_only_end(
    tmp_path: Path, state: str, args: str, end: str, failed: bool
) -> None:
    (tmp_path / "job.log").write_text("step 3 loss 0.41\nstep 4 loss 0.40\n" + end)
    head = "  PID  PPID STAT WCHAN              ELAPSED COMMAND\n"
    (tmp_path / "ps.txt").write_text(f"{head} 4711  4700 {state}       00:17 {args}\n")
    report = analyse([str(tmp_path)], RankLogOptions())
    assert report.failed is failed
    found = report.body["first_failure"]
    assert (found["label"] if found else None) == ("pid 4711" if failed else None)


_LOST = """Traceback (most recent call last):
  File "/home/user/train.py", line 31, in step
    dist.all_reduce(t)
RuntimeError: [../gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 8000ms for recv operation to complete
"""  # noqa: E501
_STANDS = """Current thread 0x00007f843b1bcb80 (most recent call first):
  File "/home/user/shards.py", line 9 in fetch
  File "/home/user/train.py", line 55 in main
"""


@pytest.mark.parametrize("seen", [True, False])
def test_of_the_silent_rank_its_own_stack_tells_where_it_stood(tmp_path: Path, seen: bool) -> None:
    for rank in (0, 2):
        (tmp_path / f"rank{rank}.log").write_text(_LOST)
    ends = "exited with 1", "was killed by SIGTERM, after another had failed or time was over"
    rows = [f"rank {r} of 3 (pid {4710 + r}) {ends[r == 1]}\n" for r in (0, 2, 1)]
    (tmp_path / "endings.txt").write_text("".join(rows))
    if seen:
        (tmp_path / "stack.rank1.txt").write_text(_STANDS)
    report = analyse([str(tmp_path)], RankLogOptions())
    assert report.body["first_failure"]["ranks"] == [1]
    first = report.diagnoses[0]
    assert first.id == "rank_silent"
    assert ("shards.py:9" in report.verdict) == seen
    assert ("stack.rank1.txt" in {one.where for one in first.evidence}) == seen
    assert not any("PID" in step for step in first.next_steps)  # it has ended


def test_the_steps_have_the_process_that_the_dump_names(tmp_path: Path) -> None:
    c10d = "    all_reduce (torch/distributed/distributed_c10d.py:2810)\n"
    for rank in range(4):
        call = "    save (train.py:9)\n" if rank == 2 else c10d
        head = f"Process 410{rank}: python train.py\nPython v3.11.7 (/usr/bin/python3.11)\n\n"
        stack = f'Thread 410{rank} (idle): "MainThread"\n{call}    main (train.py:90)\n'
        (tmp_path / f"rank{rank}.txt").write_text(head + stack)
    (found,) = filled(analyse([str(tmp_path)], RankLogOptions())).diagnoses
    assert found.id == "rank_stuck"
    assert any("postmortem hang 4102 " in step for step in found.next_steps)


@pytest.mark.parametrize(
    ("below", "stuck"),
    [("", True), ("INFO rank=1 batch=9\n", False), ("Fatal Python error: Aborted\n", False)],
    ids=["stood there to the end", "went on", "a crash"],
)
def test_stacks_that_processes_without_names_wrote_one_by_one(
    tmp_path: Path, below: str, stuck: bool
) -> None:
    text = "".join(f"INFO rank={rank} batch={at}\n" for at in range(3) for rank in range(3))
    library = "/usr/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"
    waits = f'  File "{library}", line 3252 in all_reduce\n'
    for number, frame in enumerate([waits, '  File "/job/fit.py", line 51 in upload\n', waits]):
        text += f"Current thread 0x00007f00000{number}1b80 (most recent call first):\n{frame}"
        text += '  File "/job/fit.py", line 90 in main\n'
    stop = "slurmstepd: error: *** JOB 812 ON n1 CANCELLED AT 2026-01-02T03:04:05 ***\n"
    (tmp_path / "job.log").write_text(text + below + stop)
    found = analyse([str(tmp_path)], RankLogOptions()).body["first_failure"]
    assert (found is not None and "fit.py:51 in upload" in found["what"]) is stuck


@pytest.mark.parametrize(
    ("start", "rank"),
    [
        ("INFO train: rank {rank} of 3 is pid {pid}", 2),
        ("INFO:train:rank={rank} starting, pid {pid}, 8 threads", 2),
        ("INFO train: rank {rank} launched pid {pid}", None),
    ],
    ids=["is", "starting", "another process"],
)
def test_a_rank_is_the_process_that_it_says_it_is_at_its_start(
    tmp_path: Path, start: str, rank: int | None
) -> None:
    heads = [start.format(rank=r, pid=4710 + r) + "\n" for r in range(3)]
    (tmp_path / "job.log").write_text("".join(heads))
    opens = "Path.open (pathlib.py:1044)\n    read_row (train.py:65)"
    for pid, frames in {4710: _IN_STEP, 4711: _IN_STEP, 4712: opens}.items():
        (tmp_path / f"pyspy-{pid}.txt").write_text(_PYSPY.format(pid=pid, inner=frames))
    found = analyse([str(tmp_path)], RankLogOptions()).body["first_failure"]
    assert (found["rank"], "read_row" in found["what"]) == (rank, True)


@pytest.mark.parametrize(
    ("mains", "failed"), [((0x740, 0x1740, 0x2740), True), ((0x740,) * 3, False)]
)
def test_processes_that_have_no_name_differ_in_their_threads(
    tmp_path: Path, mains: tuple[int, ...], failed: bool
) -> None:
    wait = '  File "/usr/lib/python3.11/threading.py", line 331 in wait\n'
    c10d = '  File "/opt/torch/distributed/distributed_c10d.py", line 2810 in all_reduce\n'
    dumps = [
        f"Timeout (0:05:00)!\nThread 0x{main - 0x80:016x} (most recent call first):\n{wait}"
        f"Thread 0x{main:016x} (most recent call first):\n"
        + (c10d if at != 1 else '  File "/srv/data.py", line 7 in read_shard\n')
        + '  File "/srv/train.py", line 40 in <module>\n'
        for at, main in enumerate(mains)
    ]
    (tmp_path / "dump.txt").write_text("".join(dumps))
    report = analyse([str(tmp_path / "dump.txt")], RankLogOptions())
    assert report.failed is failed
    found = report.body["first_failure"]
    assert (found["label"] if found else None) == (f"thread {0x1740:#x}" if failed else None)


@pytest.mark.parametrize(("pid", "ranks"), [(300, [0]), (999, [])], ids=["its own", "of nobody"])
def test_a_crash_in_gdb_is_of_the_rank_that_says_it_is_that_process(
    tmp_path: Path, pid: int, ranks: list[int]
) -> None:
    lost = (
        'Traceback (most recent call last):\n  File "/job/train.py", line 9, in <module>\n'
        "RuntimeError: [pair.cc:553] Connection closed by peer [127.0.0.1]:4139\n"
    )
    for rank in (0, 1):
        said = f"INFO rank={rank} starting, pid {300 + rank}\nstep 1\nstep 2\n"
        (tmp_path / f"p{rank}.out").write_text(said + lost * rank)
    frames = "".join(f"#{n}  0x{n:012x} in step_{n} () at run.c:{n}\n" for n in range(40))
    (tmp_path / "gdb.txt").write_text(
        f"[New LWP {pid + 7}]\n[New LWP {pid}]\nCore was generated by `python train.py'.\n"
        f"Program terminated with signal SIGBUS, Bus error.\n{frames}"
    )
    body = analyse([str(tmp_path)], RankLogOptions()).body
    assert body["first_failure"]["ranks"] == ranks
    assert body["first_failure"]["file"].endswith("gdb.txt")


_CLOSED = (
    "[rank0]: Traceback (most recent call last):\n"
    '[rank0]:   File "/job/t.py", line 9, in <module>\n'
    "[rank0]: RuntimeError: [pair.cc:553] Connection closed by peer [127.0.0.1]:4139\n"
)


@pytest.mark.parametrize(
    ("hello", "ranks"),
    [
        ("hello, pid=4711", [1]),
        ('{"msg": "hello", "pid": 4711}', [1]),
        ("launched pid 4711", []),
        ("step 1 of 9\n" * 8 + "pid=4711", []),
    ],
)
def test_a_process_is_the_rank_whose_log_begins_with_it(
    tmp_path: Path, hello: str, ranks: list[int]
) -> None:
    (tmp_path / "rank0.log").write_text(f"step 1\nstep 2\n{_CLOSED}")
    (tmp_path / "rank1.log").write_text(f"{hello}\nstep 1\nstep 2\n")
    killed = "Out of memory: Killed process 4711 (python) total-vm:9kB, anon-rss:9kB, file-rss:0kB"
    (tmp_path / "dmesg.txt").write_text(f"[ 812.101010] {killed}, shmem-rss:0kB, UID:0\n")
    body = analyse([str(tmp_path)], RankLogOptions()).body
    assert [row["ranks"] for row in body["kernel_events"] if row["joined_by"] == "pid"] == (
        [ranks] if ranks else []
    )


@pytest.mark.parametrize(
    ("at", "outlived"), [("08:00:02", True), ("08:00:39", False), ("07:00:39", False)]
)
def test_logs_that_went_on_outlived_a_kill_but_in_another_zone(
    tmp_path: Path, at: str, outlived: bool
) -> None:
    for rank in (0, 1):
        lines = (f"2025-11-23 08:00:{second:02} step {second}\n" for second in range(40))
        (tmp_path / f"rank{rank}.log").write_text("".join(lines))
    killed = "Out of memory: Killed process 4711 (python) total-vm:9kB, anon-rss:9kB, file-rss:0kB"
    text = f"[Sun Nov 23 {at} 2025] {killed}, shmem-rss:0kB, UID:0\n"
    (tmp_path / "dmesg.txt").write_text(text)
    report = analyse([str(tmp_path)], RankLogOptions())
    assert [row["outlived"] for row in report.body["kernel_events"]] == [outlived]


@pytest.mark.parametrize(
    ("rows", "rank", "memory"),
    [("llm-worker-0   0/1   OOMKilled   0   41m\n", 1, [True]), ("", 1, []),
     ("llm-worker-0   0/1   OOMKilled   0   41m\nllm-worker-0   1/1   Running   1   43m\n", 1, [])],
)  # fmt: skip
def test_a_worker_is_counted_behind_its_master(
    tmp_path: Path, rows: str, rank: int, memory: list[bool]
) -> None:
    for name, number in (("llm-master-0", 0), ("llm-worker-1", 2)):
        text = _CLOSED.replace("rank0", f"rank{number}")
        (tmp_path / f"{name}.log").write_text(f"step 1\nstep 2\n{text}")
    (tmp_path / "pods.txt").write_text(f"NAME   READY   STATUS   RESTARTS   AGE\n{rows}")
    body = analyse([str(tmp_path)], RankLogOptions()).body
    assert [(row["rank"], row["memory"]) for row in body["exits"]] == [(rank, m) for m in memory]


@pytest.mark.parametrize(("others", "ranks"), [((0, 2), [1]), ((1, 2), [])])
def test_a_pod_without_a_log_is_the_rank_of_its_number_where_others_are(
    tmp_path: Path, others: tuple[int, ...], ranks: list[int]
) -> None:
    for pod, rank in zip((0, 2), others, strict=True):
        text = _CLOSED.replace("rank0", f"rank{rank}")
        (tmp_path / f"seg-worker-{pod}.log").write_text(f"step 1\nstep 2\n{text}")
    (tmp_path / "describe.txt").write_text(
        "Name:             seg-worker-1\n    State:          Terminated\n"
        "      Reason:       OOMKilled\n      Exit Code:    137\n"
    )
    body = analyse([str(tmp_path)], RankLogOptions()).body
    assert [row["rank"] for row in body["exits"]] == (ranks or [None])


@pytest.mark.parametrize(
    ("above", "calls", "kind", "ranks"),
    [
        ("", ("all_reduce", "all_reduce", "read"), "stack", [2]),
        ("", ("all_reduce",) * 3, "crash", [0, 1, 2]),
        ("free(): invalid pointer\n", ("all_reduce", "all_reduce", "read"), "crash", [0, 1, 2]),
    ],
    ids=["for their stacks", "all wait", "one says why"],
)
def test_all_ranks_that_aborted_without_a_word_show_where_they_stood(
    tmp_path: Path, above: str, calls: tuple[str, ...], kind: str, ranks: list[int]
) -> None:
    for rank, call in enumerate(calls):
        stack = _STACK.format(call)
        if call == "read":
            stack = stack.replace("/usr/lib/python3.11/site-packages/torch/distributed/", "/job/")
        words = above if call == "read" else ""
        text = f"step 1\nstep 2\n{words}Fatal Python error: Aborted\n\n{stack}\n"
        (tmp_path / f"rank{rank}.log").write_text(f"{text}Extension modules: a.b (total: 1)\n")
    body = analyse([str(tmp_path)], RankLogOptions()).body
    assert (body["decided_by"], body["first_failure"]["ranks"]) == (kind, ranks)


@pytest.mark.parametrize(
    ("calls", "kind", "ranks"),
    [
        (("all_reduce",) * 3, "undecided", [3]),
        (("all_reduce", "all_reduce", "read"), "crash", [0, 1, 2]),
    ],
    ids=["all wait", "one of them stands elsewhere"],
)
def test_who_aborted_without_a_word_as_it_waited_for_another_did_not_fail_first(
    tmp_path: Path, calls: tuple[str, ...], kind: str, ranks: list[int]
) -> None:
    for rank, call in enumerate(calls):
        stack = _STACK.format(call)
        if call == "read":
            stack = stack.replace("/usr/lib/python3.11/site-packages/torch/distributed/", "/job/")
        text = f"step 1\nstep 2\nFatal Python error: Aborted\n\n{stack}\n"
        (tmp_path / f"rank{rank}.log").write_text(text)
    (tmp_path / "rank3.log").write_text("step 1\nstep 2\n")
    body = analyse([str(tmp_path)], RankLogOptions()).body
    first = body["first_failure"]
    assert body["decided_by"] == kind
    named = body["candidates"] if first is None else [{"rank": rank} for rank in first["ranks"]]
    assert [row["rank"] for row in named] == ranks
