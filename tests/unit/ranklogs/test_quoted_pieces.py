"""Pieces as people quote them: marks around lines, the error above an effect, who did not come."""

from pathlib import Path

import pytest

from builders.ranklogs import raised_first, report_of
from postmortem.facts.confidence import Confidence
from postmortem.report.model import Outcome, Report

_WAITS = (
    "INFO:root:Waiting in store based barrier to initialize process group for rank: {rank}, key: "
    "store_based_barrier_key:1 (world_size=4, worker_count={came}, timeout=0:30:00)\n"
)
_WAIT = "".join(_WAITS.format(rank=rank, came=3) for rank in (3, 0, 1))
_CAME = "INFO:root:Rank 0: Completed store-based barrier for key:store_based_barrier_key:1\n"
_BARRIER = (
    '  File "save.py", line 7, in save\n    wait()\n'
    "jax.errors.JaxRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Barrier_id: save_7. "
    "Timed out task names:\n/job:jax_worker/replica:0/task:3\n/job:jax_worker/replica:0/task:0\n"
)
_PARENT = (
    "Traceback (most recent call last):\n"
    '  File "train.py", line 60, in main\n    worker.start()\n'
    '  File "D:\\env\\lib\\multiprocessing\\reduction.py", line 60, in dump\n'
    "    ForkingPickler(file, protocol).dump(obj)\n"
    "AttributeError: Can't pickle local object 'main.<locals>.<lambda>'\n"
)
_CHILD = (
    "Traceback (most recent call last):\n"
    '  File "<string>", line 1, in <module>\n'
    '  File "D:\\env\\lib\\multiprocessing\\spawn.py", line 116, in spawn_main\n'
    "    exitcode = _main(fd, parent_sentinel)\n"
    '  File "D:\\env\\lib\\multiprocessing\\spawn.py", line 126, in _main\n'
    "    self = reduction.pickle.load(from_parent)\n"
)
_CUT = 'Traceback (most recent call last):\n  File "t.py", line 3, in f\n    g()\n'
_RULE = "[Mon Jan  5 10:00:{s} 2026]\nError in rule lumen:\n    jobid: 0\n"


def _first(report: Report) -> dict[str, object]:
    first = report.body["first_failure"]
    assert isinstance(first, dict)
    return first


def _exits(report: Report) -> list[dict[str, object]]:
    exits = report.body["exits"]
    assert isinstance(exits, list)
    return exits


@pytest.mark.parametrize(
    ("text", "signal"),
    [
        ("Aborted (core dumped)”\n", "SIGABRT"),
        ("Abort trap: 6\n", "SIGABRT"),
        ("Killed: 9\n", "SIGKILL"),
        ("  0%|   | 0/50 [00:00<?, ?it/s]Trace/BPT trap: 5\n\nreal\t1m7.1s\n", "SIGTRAP"),
        ("  0%|   | 0/8 [00:00<?, ?it/s][1]    4711 trace trap  python t.py\n", "SIGTRAP"),
        ("[1]+  Bus error               (core dumped) python t.py\n", "SIGBUS"),
    ],
)
def test_a_shells_notice_is_known_in_each_form(tmp_path: Path, text: str, signal: str) -> None:
    report = report_of(tmp_path, "loading\n" + text)
    assert report.outcome is Outcome.FAILED
    assert [end["signal"] for end in _exits(report)] == [signal]


def test_a_sentence_with_the_word_is_no_notice(tmp_path: Path) -> None:
    text = "[1] Killed the old cache\nKilled: 9 of 12 jobs\n“Killed” was the word\n"
    assert _exits(report_of(tmp_path, text)) == []


@pytest.mark.parametrize("mark", ["> ", "> > "])
def test_a_traceback_that_is_quoted_between_other_lines_is_one(tmp_path: Path, mark: str) -> None:
    quoted = "".join(f"{mark}{line}\n" for line in (*_CUT.splitlines(), "KeyError: 'lumen'"))
    assert raised_first(report_of(tmp_path, "it says this:\n\n" + quoted)) == (
        None,
        "KeyError: 'lumen'",
    )


def test_the_seconds_of_a_date_are_no_rank(tmp_path: Path) -> None:
    lines = "".join(f"[01/05/2026-10:00:{n}] [LUM] [I] part {n} is there\n" for n in range(30, 39))
    report = report_of(tmp_path, lines + "[01/05/2026-10:00:39] [LUM] [E] no room on the device\n")
    assert report.failed
    assert len(report.body["ranks"]) == 1  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "ranks"),
    [
        (_WAIT, [2]),
        ("it goes on like that:\n" + _WAIT, [2]),
        ("ops: conv.weight [ready ranks: 5, 1, 3, 4, 2], bn.weight [ready ranks: 5]\n", [0]),
        (_BARRIER, [0, 3]),
    ],
)
def test_who_did_not_come_is_named(tmp_path: Path, text: str, ranks: list[int]) -> None:
    assert _first(report_of(tmp_path, text))["ranks"] == ranks


def test_who_waited_and_went_on_lacks_nobody(tmp_path: Path) -> None:
    assert not report_of(tmp_path, _WAIT + _CAME).failed


def test_two_who_wait_name_nobody_where_three_came(tmp_path: Path) -> None:
    report = report_of(tmp_path, _WAITS.format(rank=0, came=3) + _WAITS.format(rank=1, came=3))
    assert report.failed
    assert report.body["first_failure"] is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            _PARENT + _CHILD + "EOFError: Ran out of input\n",
            "AttributeError: Can't pickle local object 'main.<locals>.<lambda>'",
        ),
        (
            _CHILD + "AttributeError: Can't get attribute 'f' on <module '__main__'>\n",
            "AttributeError: Can't get attribute 'f' on <module '__main__'>",
        ),
    ],
)
def test_a_child_without_its_parents_words_is_a_victim(
    tmp_path: Path, text: str, said: str
) -> None:
    assert raised_first(report_of(tmp_path, text)) == (None, said)


def test_an_error_right_above_a_victim_is_told(tmp_path: Path) -> None:
    lost = _CHILD + "EOFError: Ran out of input\n"
    alone = report_of(tmp_path, lost)
    told = report_of(tmp_path, "LumenError: the page file is too small\n" + lost)
    far = report_of(tmp_path, "LumenError: it is too small\n" + "a part\n" * 9 + lost)
    ids = [[one.id for one in report.diagnoses] for report in (alone, told, far)]
    assert ids == [["only_victims"], ["last_words"], ["only_victims"]]


def test_what_a_logger_calls_an_error_right_above_a_cut_traceback_is_told(tmp_path: Path) -> None:
    level = "2026-01-05 (4711) |CCL_ERROR| global.cpp:150 the place among the tasks is not known\n"
    assert [one.id for one in report_of(tmp_path, level + _CUT).diagnoses] == ["last_words"]
    far = level + "a part\n" * 9 + _CUT
    assert [one.id for one in report_of(tmp_path, far).diagnoses] == ["only_victims"]


@pytest.mark.parametrize(
    ("text", "failed"),
    [
        ("The strides differ. This is not an error, but it may be slow.\n", False),
        ("The strides differ. This is an error.\n", True),
        ("The node with node id: 0f and ip: 10.0.0.2 has been marked dead\n", True),
        ("The node with node id: 0f is marked in red\n", False),
        ("EI0002: The wait times out.\n        Solution: see whether an error was told.\n", True),
    ],
)
def test_a_short_text_fails_by_what_it_says(tmp_path: Path, text: str, failed: bool) -> None:
    assert report_of(tmp_path, text).failed is failed


def test_the_code_of_a_library_is_told_and_not_its_advice(tmp_path: Path) -> None:
    report = report_of(
        tmp_path, "EI0002: The wait times out.\n        Solution: see whether an error was told.\n"
    )
    assert report.diagnoses[0].evidence[0].where.endswith(":1")


def test_an_error_that_comes_again_is_no_head_of_a_run(tmp_path: Path) -> None:
    killed = "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0.\n"
    task = "srun: error: n1: task 0: Out Of Memory\n"
    end = "Exiting because a job execution failed. Look below for error messages\n"
    text = killed + task + _RULE.format(s="01") + end + _RULE.format(s="02")
    assert [end["memory"] for end in _exits(report_of(tmp_path, text))] == [True]


def test_a_server_of_models_names_its_shard(tmp_path: Path) -> None:
    shard = "ERROR shard-manager: Shard process was signaled to shutdown with signal 4 rank=1\n"
    (end,) = _exits(report_of(tmp_path, shard + "Error: ShardCannotStart\n"))
    assert (end["rank"], end["signal"]) == (1, "SIGILL")


@pytest.mark.parametrize(
    ("text", "event"),
    [
        (
            "```\n[ 1843.308] NVRM: The NVIDIA GPU 0000:b3:00.0\n"
            "               NVRM: fallen off the bus and is not responding to commands.\n"
            "[ 1843.439] NVRM: The NVIDIA probe routine failed for 1 device(s).\n```\n",
            "dmesg-gpu-gone",
        ),
        (
            "Message from syslogd@n1 at Jan  5 10:00:01 ...\n"
            " kernel:[  485.362134] watchdog: BUG: soft lockup - CPU#11 stuck for 27s! [k\n",
            "dmesg-lockup",
        ),
        (
            "[   73.091262] misc dxg: dxgk: dxgkio_make_resident: Ioctl failed: -12\n",
            "dmesg-wsl-memory",
        ),
        (
            "kernel: NVRM: Xid (PCI:0000:dc:00): 45, pid=4711, name=python3, Ch 00000001 caused by "
            "previous Xid 149\n",
            "Xid 149 ",
        ),
        ("NVRM: Xid (PCI:0000:dc:00): 79, GPU has fallen off the bus.\n", "Xid 79"),
    ],
)
def test_a_kernels_lines_are_known_as_they_are_pasted(
    tmp_path: Path, text: str, event: str
) -> None:
    assert event in str(report_of(tmp_path, text).body)


_GONE = (
    "n1 % nvidia-smi\nUnable to determine the device handle for GPU0000:03:00.0: Unknown Error\n"
)
_CORRECTED = "".join(
    f"[  +0.00000{n}] pcieport 0000:00:03.0: PCIe Bus Error: severity=Corrected, type=Link\n"
    for n in range(3, 9)
)


def test_a_gpu_that_is_gone_is_told_above_what_the_hardware_corrected(tmp_path: Path) -> None:
    report = report_of(tmp_path, f"{_GONE}```\nAnd `dmesg`:\n```\n...\n{_CORRECTED}")
    assert report.outcome is not Outcome.HEALTHY
    assert report.diagnoses[0].evidence[0].where.endswith(":2")


def test_what_the_hardware_corrected_ends_nothing(tmp_path: Path) -> None:
    assert not report_of(tmp_path, "n1 % dmesg\n" + _CORRECTED).failed


_ANSWER = "On Mon, Nov 3, 2026 Ann wrote:\n{}\nSo do I. Any idea?\n"


@pytest.mark.parametrize("fence", ["", "> ```\n"])
@pytest.mark.parametrize(
    "said", ["free(): invalid pointer\nAborted (core dumped)", "RuntimeError: no room\nKilled"]
)
def test_a_log_that_an_answer_quotes_is_taken_out(tmp_path: Path, said: str, fence: str) -> None:
    plain = report_of(tmp_path, f"{said}\n").verdict
    marked = "".join(f"> {line}\n" for line in said.split("\n"))
    report = report_of(tmp_path, _ANSWER.format(f"{fence}{marked}{fence}"))
    assert report.verdict == plain


@pytest.mark.parametrize("below", ["Segmentation fault (core dumped)", "RuntimeError: no room"])
def test_what_npm_runs_is_no_quotation(tmp_path: Path, below: str) -> None:
    report = report_of(tmp_path, f"> lumen@1.0.0 fit\n> python fit.py\n\n{below}\n")
    assert report.verdict == report_of(tmp_path, f"lumen\npython fit.py\n\n{below}\n").verdict


def test_a_log_in_fences_is_taken_out_of_its_report(tmp_path: Path) -> None:
    report = report_of(tmp_path, f"what failed in it:\n```\n{_CUT}KeyError: 'lumen'\n```\nhelp\n")
    assert raised_first(report) == (None, "KeyError: 'lumen'")


def test_tasks_that_never_came_are_named_without_a_head(tmp_path: Path) -> None:
    barrier = _BARRIER.split("\n", 2)[2].replace("save_7", "PjRT_Client_Connect")
    report = report_of(tmp_path, f'    client.connect()\n{barrier}\n:{{"created":"@17\n')
    assert [one.id for one in report.diagnoses] == ["rank_never_joined"]
    assert _first(report)["ranks"] == [0, 3]


def test_an_error_that_points_above_itself_is_not_the_one(tmp_path: Path) -> None:
    worker = "Exception in background worker 3:\n the page file is too small\n"
    points = "RuntimeError: MultiThreadedAugmenter.abort_event was set, something went wrong.\n"
    assert report_of(tmp_path, worker + _CUT + points).diagnoses[0].evidence[0].where.endswith(":1")
    assert raised_first(report_of(tmp_path, _CUT + points)) == (None, points.strip())


def test_a_traceback_that_is_cut_off_at_both_ends_names_its_rank(tmp_path: Path) -> None:
    cut = '    ^^^^^^\n  File "a.py", line 9, in f\n    g()\n  File "b.py", line 7, in g\n'
    report = report_of(tmp_path, "".join(f"[rank1]: {line}\n" for line in cut.splitlines()))
    assert [one.id for one in report.diagnoses] == ["only_victims"]
    assert [one["rank"] for one in report.body["candidates"]] == [1]  # type: ignore


_SCALE = "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: {0}, reducing to {1}\n"


def test_a_scale_that_cannot_fall_ends_the_training(tmp_path: Path) -> None:
    assert not report_of(tmp_path, _SCALE.format(65536, 32768) * 3).failed
    assert report_of(tmp_path, _SCALE.format(1, 1) * 3).failed


def test_of_errors_in_a_row_the_telling_one_is_told(tmp_path: Path) -> None:
    text = (
        "[n1:4711:0]  ib.c:430  UCX  ERROR a queue failed on mlx5_0\n"
        "[n1:4711] pml_ucx.c:472  Error: no endpoint for rank 19\n"
        "Waits for it\n"
    )
    assert report_of(tmp_path, text).diagnoses[0].evidence[0].where.endswith(":1")
    parted = text.replace("\n[n1:4711] ", "\nPart 2 is there\n[n1:4711] ")
    assert report_of(tmp_path, parted).diagnoses[0].evidence[0].where.endswith(":3")


def test_a_peer_that_is_not_there_yet_is_no_test(tmp_path: Path) -> None:
    wait = "[LightGBM] [Warning] Connecting to rank 1 failed, waiting for 200 milliseconds\n"
    assert not report_of(tmp_path, wait + "[LightGBM] [Info] Connected to rank 1\n").failed
    assert report_of(tmp_path, "==== 1 failed, 3 passed in 2.3s ====\n").failed


def test_what_lsf_heads_its_mail_with_is_no_run(tmp_path: Path) -> None:
    mail = (
        "TERM_RUNLIMIT: job killed after reaching LSF run time limit.\nExited with exit code 140.\n"
    )
    output = "Running job 3 of the array\nblock 12\n\nUser defined signal 2\n"
    told = report_of(tmp_path, f"{mail}\nThe output (if any) follows:\n\n{output}")
    assert (told.body["earlier"], report_of(tmp_path, mail + output).body["earlier"] == []) == (
        [],
        False,
    )


def test_objects_whose_last_one_is_cut_off_are_read(tmp_path: Path) -> None:
    first = '{"host":"n1","message":"node n2 is gone","severity":"ERROR","timestamp":17}\n'
    cut = '{"host":"n2","message":"[Timeout] no \\"beat\\" came","severity":"FATAL","timesta'
    report = report_of(tmp_path, f"{first}\n# and there:\n{cut}")
    assert [row.what for row in report.diagnoses[0].evidence] == [
        'FATAL: [Timeout] no "beat" came',
        "ERROR: node n2 is gone",
    ]
    quoted = report_of(tmp_path, "it says:\n" + first + "and then\nnothing more\n")
    assert "ERROR: node" not in quoted.verdict


_OF_NCCL = (
    "n1:15:92 [1] NCCL INFO misc/socket.cc:546 -> 6\n"
    "n1:15:92 [1] proxy.cc:884 NCCL WARN Proxy Call to rank 1 failed (Connect)\n"
    "n1:15:92 [1] NCCL INFO init.cc:1089 -> 6\n"
    "n1:15:15 [1] NCCL INFO comm 0x1b83 rank 1 nranks 4 cudaDev 1 busId 7000 - Abort COMPLETE\n"
)
_CELL = (
    "the library is not as it should be\n"
    "[/usr/lib/lumen/llm.py](https://localhost:8080/#) in open(self, name)\n"
    "   1160 \n-> 1161             return fn(name)\n   1162 \n   1604 except LookupError as e:\n"
    "File <frozen importlib._bootstrap>:1050, in _gcd_import(name, package, level)\n"
)
_TORN = (
    '  File "/job/map.py", line 245, in forward\n    return f(x)  # type: ignore[misc]\n'
    'return f(x)  # type: ignore[misc]  File "/job/map.py", line 245, in forward\n'
    '  File "/job/map.py", line 245, in forward\n    return _Scatter.app\n'
)
_BOXED = (
    "╭───────────── Traceback (most recent call last) ─────────────╮\n"
    "│ /job/train.py:15 in <module>                                │\n"
    "│ ❱ 15 │   train()                                            │\n"
)


@pytest.mark.parametrize(
    ("text", "rule", "said"),
    [
        (
            f"n1:15:92 [1] NCCL WARN Net : Connection closed by peer n4<5>\n{_OF_NCCL}",
            "one_bad_peer",
            "n4",
        ),
        (f"n1:15:92 [1] shm.cc:9 NCCL WARN no room at 7f\n{_OF_NCCL}", "last_words", "no room"),
        ("n1:2:3 [0] NCCL WARN Bootstrap Root : mismatch of ranks\n", "last_words", "mismatch"),
        (_CELL, "only_victims", "_gcd_import"),
        (_TORN, "only_victims", "245"),
        (_TORN[:81] * 2 + '  File "/usr/lib/python3/lum\n', "only_victims", "python3/lum"),
        (
            "[W socket.cpp:4] The socket has failed to bind to [::]:29500 (errno: 98 - Address "
            "already in use).\n[E socket.cpp:5] The socket has failed to listen on any address.\n",
            "last_words",
            "29500",
        ),
        (_BOXED, "only_victims", "train.py:15"),
        (
            f"d.cu:9: g: block: [3,0,0], thread: [9,0] Assertion `a < n` failed.\n[rank0]: {_CUT}",
            "last_words",
            "a < n",
        ),
        (
            "RuntimeError: no lumen (see why):\n"
            "/opt/lib/liblum.so: undefined symbol: _ZN3lumEv\nWho saw it?\n",
            "last_words",
            "_ZN3lumEv",
        ),
    ],
)
def test_what_is_told_of_a_cut_piece(tmp_path: Path, text: str, rule: str, said: str) -> None:
    report = report_of(tmp_path, text)
    assert report.failed
    assert report.diagnoses[0].id.startswith(rule), report.verdict
    assert said in report.verdict or said in str(report.diagnoses[0].evidence)


def test_a_line_that_was_left_free_ends_what_a_console_broke(tmp_path: Path) -> None:
    said = "RuntimeError: the loader of shards has found no mark at the end of 3"
    asked = [
        "What is it?" in report_of(tmp_path, f"{said}\n{gap}What is it?\n").verdict
        for gap in ("", "\n")
    ]
    assert asked == [True, False]


@pytest.mark.parametrize("cut", ["```json\n{}", "{}```\n"])
def test_a_fence_of_which_the_other_one_is_cut_off_is_no_line(tmp_path: Path, cut: str) -> None:
    rows = [("info", f"step {n}") for n in range(5)] + [("error", "no room"), ("error", "no disk")]
    text = "".join(
        f'{{"time": "2026-01-02T03:04:0{n}Z", "level": "{level}", "message": "{said}"}}\n'
        for n, (level, said) in enumerate(rows)
    )
    verdict = report_of(tmp_path, cut.format(text)).verdict
    assert verdict == report_of(tmp_path, text).verdict


def test_a_handler_that_does_not_name_its_signal_is_not_certain(tmp_path: Path) -> None:
    cut, whole = "[1,7]<stderr>:*** Aborted at", " 1767323045 (unix time) ***\n"
    named = "[1,7]<stderr>:PC: @ 0x0\n[1,7]<stderr>:*** SIGSEGV (@0x0) received by PID 71 ***\n"
    sure = [report_of(tmp_path, cut + end).diagnoses[0].confidence for end in ("\n", whole + named)]
    assert sure == [Confidence.LIKELY, Confidence.CERTAIN]


def test_the_handler_of_glog_ends_its_process_at_any_level(tmp_path: Path) -> None:
    head = "W0102 03:04:05.67890{} 471{} init.cc:234] "
    at = '*** Aborted at 1767323045 (unix time) try "date -d @1767323045" ***'
    said = "*** SIGBUS (@0x7f00) received by PID 4710 (TID 0x7f01) from PID 0; stack trace: ***"
    dumped = (at, at, "PC: @ 0x0 (unknown)", "PC: @ 0x0 (unknown)", said, said)
    text = "".join(f"{head.format(n, n % 2)}{line}\n" for n, line in enumerate(dumped))
    report = report_of(tmp_path, text)
    assert "SIGBUS" in report.verdict
    assert report.diagnoses[0].confidence is Confidence.CERTAIN


def test_a_warning_of_glog_that_quotes_a_handler_is_none(tmp_path: Path) -> None:
    text = "W0102 03:04:05.678901 4710 init.cc:234] would write *** SIGBUS received by PID 1 ***\n"
    assert "SIGBUS:" not in report_of(tmp_path, text).verdict
    assert not any(d.confidence is Confidence.CERTAIN for d in report_of(tmp_path, text).diagnoses)


_SIDES = (
    (
        "│ /job/fit.py:15 in <module>        │",
        "│   13 │   open_all()               │",
        "│ ❱ 15 │   fit(a)                   │",
    ),
    (
        "| /job/fit.py:15 in <module>        |",
        "|   13     open_all()               |",
        "| > 15     fit(a)                   |",
    ),
    (
        "│ /job/fit.py:15 in",
        "<module>        │",
        "                  │",
        "│   13 │   open_all()",
        "         │",
        "│ ❱ 15 │   fit(a)",
        "         │",
    ),
)


@pytest.mark.parametrize("box", _SIDES)
@pytest.mark.parametrize("more", [0, 9])
def test_a_traceback_in_a_box_has_its_places(
    tmp_path: Path, box: tuple[str, ...], more: int
) -> None:
    side = box[0][0]
    empty = f"{side}{' ' * 35}{side}"
    head = f"+{'-' * 9} Traceback (most recent call last) {'-' * 9}+"
    lines = ("step 1", head, *box, *[empty] * more, f"+{'-' * 50}+", "KeyError: 'a'")
    [told] = report_of(tmp_path, "\n".join(lines) + "\n").body["tracebacks"]
    assert told["exception"] == "KeyError"
    [frame] = told["frames"]
    assert (frame["file"], frame["line"], frame["code"]) == ("/job/fit.py", 15, "fit(a)")


def test_a_traceback_without_the_frames_of_sacred_is_one(tmp_path: Path) -> None:
    head = "Traceback (most recent calls WITHOUT Sacred internals):\n"
    report = report_of(tmp_path, f'{head}  File "/job/fit.py", line 3, in main\nKeyError: 3\n')
    assert report.body["first_failure"]["what"] == "KeyError: 3"


@pytest.mark.parametrize("below", ["", "\nThanks, Ann\n"])
@pytest.mark.parametrize(
    "head", ["", "Traceback (most recent call last):\n", "epoch 3 begins\nits part is read\n"]
)
def test_what_a_person_writes_below_a_cut_stack_was_not_raised(
    tmp_path: Path, head: str, below: str
) -> None:
    frame = (
        '  File "/venv/torch/distributed/run.py", line {0}, in run\n    go({0})  # type: ignore\n'
    )
    report = report_of(tmp_path, f"{head}{frame.format(7)}{frame.format(9)}{below}")
    assert report.failed
    assert "Ann" not in report.verdict
