"""Errors that were logged, and which their program survived, are no failures."""

from pathlib import Path
from typing import Any

import pytest

from builders.prose import Prose
from builders.ranklogs import report_of
from postmortem.analyses.ranklogs import RankLogOptions, analyse
from postmortem.readers.ranklogs.sources import find_rank_logs
from postmortem.report.model import Outcome

AT = "2026-01-02 03:04:05,678"
TRACEBACK = (
    'Traceback (most recent call last):\n  File "save.py", line 3, in save\n    write()\n'
    "OSError: [Errno 28] No space left on device\n"
)
KILLED = (
    "W0102 03:04:05.678000 9 torch/distributed/elastic/multiprocessing/api.py:1028] "
    "Sending process 11 closing signal SIGTERM\n"
    "Root Cause (first observed failure):\n[0]:\n  rank      : 1 (local_rank: 1)\n"
    "  exitcode  : -9 (pid: 12)\n"
    "[1]:\n  rank      : 0 (local_rank: 0)\n  exitcode  : -15 (pid: 11)\n"
)


def body(folder: Path, *behind: str) -> dict[str, Any]:
    lines = (f"{AT} ERROR train: cannot save here", *TRACEBACK.splitlines(), *behind)
    text = "".join(f"[default0]:{line}\n" for line in lines)
    (folder / "job.log").write_text("[default1]:step 1\n" + text + KILLED)
    return dict(analyse([str(folder)], RankLogOptions()).body)


@pytest.mark.parametrize(
    ("behind", "failed_too"),
    [((f"{AT} INFO train: saved",), []), ((f"{AT} ERROR train: nor there",), [0]), ((), [0])],
)
def test_a_logged_error_with_calm_lines_behind_it_was_caught(
    tmp_path: Path, behind: tuple[str, ...], failed_too: list[int]
) -> None:
    found = body(tmp_path, *behind)
    assert found["first_failure"]["ranks"] == [*failed_too, 1]
    assert [row["rank"] for row in found["also_failed"]] == failed_too


@pytest.mark.parametrize(("again", "failed"), [("save.py", False), ("load.py", True)])
def test_what_was_caught_once_is_caught_in_the_same_place_again(
    tmp_path: Path, again: str, failed: bool
) -> None:
    caught = f"{AT} ERROR train: cannot save here\n{TRACEBACK}"
    parts = [f"{AT} INFO train: part {n} saved\n" for n in range(18)]
    last = caught.replace("save.py", again) + f"{AT} INFO train: the mean is 3.5\n"
    (tmp_path / "job.log").write_text("".join([*parts[:4], caught, *parts[4:], last]))
    assert analyse([str(tmp_path / "job.log")], RankLogOptions()).failed is failed


_LONG = "".join(f'  File "m{n}.py", line {n}, in f{n}\n    f{n + 1}()\n' for n in range(20))


@pytest.mark.parametrize(
    ("behind", "failed"),
    [
        ("(Api pid=7) INFO: Application shutdown complete.\n", False),
        ("(Api pid=7) INFO: waits for requests\n", True),
    ],
)
def test_a_long_traceback_that_a_logger_wrote_was_caught_too(
    tmp_path: Path, behind: str, failed: bool
) -> None:
    head, end = TRACEBACK.split("  File", 1)[0], "OSError: [Errno 28] No space left on device\n"
    lines = ["call of save failed", *(head + _LONG + end).splitlines()]
    core = "".join(f"(Core pid=71) ERROR 01-02 03:04:05 [core.py:31] {line}\n" for line in lines)
    went_on = "(Core pid=71) INFO 01-02 03:05:05 [core.py:33] the cache is reset\n"
    text = (
        "save.cpp:31: Error: no space is left\n"
        + core
        + went_on
        + behind
        + "a leak, leaked semaphore\n"
    )
    (tmp_path / "job.log").write_text("(Api pid=7) INFO: a start\n" * 2 + text)
    report = analyse([str(tmp_path / "job.log")], RankLogOptions())
    assert report.failed is failed
    assert report.body["first_failure"] is None


def test_what_services_of_ray_log_is_left_out_and_said_to_be(tmp_path: Path, prose: Prose) -> None:
    for name in ("dashboard.log", "dashboard_agent.log", "monitor.err", "worker-a-01-7.err"):
        (tmp_path / name).write_text(TRACEBACK)
    everything = find_rank_logs([str(tmp_path)])
    assert len(everything.logs) == 4  # a folder of no session: anybody may call a log so
    (tmp_path / "raylet.out").write_text("[2026-01-02 03:04:05,1 I 1 1] raylet.cc:1: started\n")
    found = find_rank_logs([str(tmp_path)])
    assert [Path(one.path).name for one in found.logs] == ["raylet.out", "worker-a-01-7.err"]
    prose(*[problem.what for problem in found.problems])


def test_a_session_of_ray_without_what_its_driver_printed_tells_no_end(tmp_path: Path) -> None:
    logs = tmp_path / "session_1" / "logs"
    logs.mkdir(parents=True)
    lines = "[2026-01-02 03:04:05,1 I 1 1] {}\n"
    (logs / "gcs_server.out").write_text(lines.format("received SIGTERM, shutting down"))
    (logs / "raylet.out").write_text(lines.format("agent_manager.cc:83: Agent exited, exit code 0"))
    (logs / "worker-a-01-7.out").write_text("batch 1\nbatch 2\n")
    alone = analyse([str(tmp_path)], RankLogOptions())
    assert alone.outcome is Outcome.UNKNOWN
    (tmp_path / "train.log").write_text("Training complete.\n")
    assert analyse([str(tmp_path)], RankLogOptions()).verdict != alone.verdict


ANSWERS = (
    'INFO:     10.2.0.7:51514 - "POST /v1/rank HTTP/1.1" 200 OK\n'
    "ERROR 11-20 09:12:44 [serving.py:214] cannot answer\n"
    'Traceback (most recent call last):\n  File "/srv/serving.py", line 9, in create\n'
    "    check(text)\nValueError: {said}\n"
    'INFO:     10.2.0.7:51533 - "POST /v1/rank HTTP/1.1" {code}\n'
    'INFO:     10.2.0.7:51538 - "{later} HTTP/1.1" 200 OK\n'
    "INFO:     Shutting down\nINFO:     Waiting for application shutdown.\n"
    "INFO:     Application shutdown complete.\nINFO:     Finished server process [4711]\n"
)


_SERVES = 'INFO:     10.2.0.7:51538 - "{} HTTP/1.1" {}\n'
_RATE = "INFO 11-20 09:13:{} [loggers.py:87] Engine 000: Running: 2 reqs\n"
_CREATE = '  File "/srv/serving.py", line 9, in create\n'


@pytest.mark.parametrize(
    ("answer", "code", "frame", "ends"),
    [
        ("POST /v1/rank", "200 OK", _CREATE, Outcome.UNKNOWN),
        ("GET /metrics", "200 OK", _CREATE, Outcome.FAILED),
        ("POST /v1/rank", "500 Internal Server Error", _CREATE, Outcome.FAILED),
        ("POST /v1/rank", "200 OK", _CREATE.replace("create", "<module>"), Outcome.FAILED),
    ],
)
def test_a_server_that_took_work_behind_an_error_that_it_logged_served_on(
    tmp_path: Path, answer: str, code: str, frame: str, ends: Outcome
) -> None:
    head = "ERROR 11-20 09:12:44 [serving.py:214] "
    told = ("cannot answer", "Traceback (most recent call last):", frame[:-1], "KeyError: 'role'")
    error = "".join(f"{head}{line}\n" for line in told)
    rates = "".join(_RATE.format(at) for at in (30, 40))
    closed = "INFO:     Shutting down\nINFO:     Finished server process [4711]\n"
    text = (
        "INFO 11-20 09:10:00 [api.py:3] serving\n"
        + _RATE.format(20)
        + error
        + _SERVES.format(answer, code)
        + rates
    )
    for one in (text, text + closed):
        (tmp_path / "job.log").write_text(one)
        assert analyse([str(tmp_path / "job.log")], RankLogOptions()).outcome is ends


@pytest.mark.parametrize(
    ("code", "later", "ends"),
    [
        ("400 Bad Request", "POST /v1/rank", Outcome.UNKNOWN),
        ("400 Bad Request", "GET /health", Outcome.UNKNOWN),  # the server called it no fault of its
        ("500 Internal Server Error", "GET /health", Outcome.FAILED),
        ("500 Internal Server Error", "POST /v1/rank", Outcome.FAILED),
    ],
)
def test_a_server_that_answers_well_what_it_had_refused_went_on(
    tmp_path: Path, code: str, later: str, ends: Outcome
) -> None:
    (tmp_path / "serve.log").write_text(ANSWERS.format(said="too long", code=code, later=later))
    assert analyse([str(tmp_path)], RankLogOptions()).outcome is ends


def test_what_was_got_over_when_it_came_once_more_was_got_over_before(tmp_path: Path) -> None:
    refused = ANSWERS.format(said="too many", code="400 Bad Request", later="GET /health")
    deep = "".join(f'  File "/srv/serving.py", line {n}, in step\n    go()\n' for n in range(20))
    last = refused.replace("    check(text)\n", "    check(text)\n" + deep)
    first = last.partition('INFO:     10.2.0.7:51538 - "')[0]
    for said, ends in (
        (first, Outcome.UNKNOWN),
        (first.replace("ValueError", "MemoryError"), Outcome.FAILED),
    ):
        (tmp_path / "serve.log").write_text(said + last)
        assert analyse([str(tmp_path)], RankLogOptions()).outcome is ends


@pytest.mark.parametrize(
    ("last", "failed"),
    [
        (f"{AT} - train - INFO - Experiment completed successfully", False),
        (f"{AT} - train - INFO - shard 7 comes next", True),
        ("Job finished", True),
    ],
)
def test_a_program_that_says_that_it_is_done_caught_what_it_logged(
    tmp_path: Path, last: str, failed: bool
) -> None:
    lines = (f"{AT} - train - ERROR - shard 6 failed", TRACEBACK, f"{AT} - train - INFO - more")
    (tmp_path / "job.log").write_text("\n".join([*lines, last]) + "\n")
    assert analyse([str(tmp_path / "job.log")], RankLogOptions()).failed is failed


@pytest.mark.parametrize("stamp", ["", "2026-01-02 03:04:05,678 ERROR ", "ERROR:asyncio:"])
def test_a_task_of_asyncio_that_raised_has_ended_nothing(tmp_path: Path, stamp: str) -> None:
    log = f"{stamp}Task exception was never retrieved\nfuture: <Task finished name='Task-2'>\n"
    log += TRACEBACK + "step 0 loss 1.0\nstep 1 loss 0.5\ntraining complete\n"
    (tmp_path / "job.log").write_text(log)
    assert analyse([str(tmp_path)], RankLogOptions()).outcome is Outcome.HEALTHY
    (tmp_path / "job.log").write_text(log.replace("Task exception was never retrieved", "x"))
    assert analyse([str(tmp_path)], RankLogOptions()).outcome is Outcome.FAILED


@pytest.mark.parametrize(("times", "decided"), [(30, "stopped"), (1, "last words")])
def test_a_server_that_was_told_to_end_had_gone_on_from_what_it_logged(
    tmp_path: Path, times: int, decided: str
) -> None:
    traceback = "".join(f"    {line}\n" for line in TRACEBACK.splitlines())
    one = f"[W {AT} lumen] wrote error: 'no'\n{traceback}[W {AT} lumen] 403 GET /shards/{{}}\n"
    text = f"[I {AT} lumen] it listens\n" + "".join(map(one.format, range(times)))
    (tmp_path / "serve.log").write_text(f"{text}[C {AT} lumen] received signal 15, stopping\n")
    found: Any = analyse([str(tmp_path)], RankLogOptions()).body
    assert found["decided_by"] == decided


def test_a_program_that_says_that_all_epochs_are_done_caught_what_it_logged(tmp_path: Path) -> None:
    said = "\n".join(f"{AT} [INFO] epoch {n} loss 0.{9 - n}" for n in range(5))
    logged = f"{AT} [ERROR] cannot save here\n{TRACEBACK}"
    text = said.replace(f"{AT} [INFO] epoch 3", f"{logged}{AT} [INFO] epoch 3")
    for end, failed in (("all epochs done", False), ("all epochs failed", True)):
        (tmp_path / "job.log").write_text(f"{text}\n{AT} [INFO] {end}\n")
        assert analyse([str(tmp_path / "job.log")], RankLogOptions()).failed is failed


def test_a_thread_that_lost_its_peer_ends_nothing_while_work_goes_on(tmp_path: Path) -> None:
    steps = [f"step {n} loss 0.{9 - n}\n" for n in range(8)]
    died = "Exception in thread heartbeat:\n" + TRACEBACK.replace(
        "OSError: [Errno 28] No space left on device", "ConnectionRefusedError: [Errno 111] refused"
    )
    for behind, failed in ((8, False), (2, True)):
        text = "".join([*steps[:2], died, *steps[2:behind]])
        (tmp_path / "job.log").write_text(text)
        assert analyse([str(tmp_path)], RankLogOptions()).failed is failed


def test_a_message_about_a_loss_is_no_loss_that_is_printed(tmp_path: Path) -> None:
    trials = [
        f"[I 2026-11-20 03:{n}:02,001] Trial {n} finished with value: 0.{n} and parameters: {{}}.\n"
        for n in range(10, 40)
    ]
    trials[17] = (
        "[W 2026-11-20 03:27:02,001] Trial 27 failed because of: ValueError('loss is nan').\n"
        "Traceback (most recent call last):\n"
        '  File "/venv/site-packages/optuna/study/_optimize.py", line 201, in _run_trial\n'
        "    values = func(trial)\n"
        '  File "/a/tune.py", line 8, in objective\n'
        '    raise ValueError("loss is nan")\n'
        "ValueError: loss is nan\n"
        "[W 2026-11-20 03:27:02,101] Trial 27 failed with value None.\n"
    )
    (tmp_path / "study.log").write_text("".join(trials))
    report = analyse([str(tmp_path / "study.log")], RankLogOptions())
    assert (report.failed, report.diagnoses) == (False, ())


@pytest.mark.parametrize(
    ("above", "below", "failed"),
    [
        ("no native library: 'a' has no 'split'", "Device set to use cuda:0", False),
        ("no native library: 'a' has no 'split'", "Read the manual of it", True),
        ("no native library", "Device set to use cuda:0", True),
    ],
)
def test_who_printed_the_words_of_an_exception_above_it_and_went_on_had_caught_it(
    tmp_path: Path, above: str, below: str, *, failed: bool
) -> None:
    raised = TRACEBACK.rpartition("OSError")[0] + "AttributeError: 'a' has no 'split'\n"
    (tmp_path / "job.log").write_text(f"{above}\n{raised}\nSet-up is odd\n{below}\n")
    assert analyse([str(tmp_path)], RankLogOptions()).failed is failed


@pytest.mark.parametrize(
    ("level", "begins", "failed"),
    [("WARNING", "_load", False), ("WARNING", "<module>", True), ("INFO", "_load", True)],
)
def test_a_warning_with_a_traceback_that_begins_within_a_program_ends_nothing(
    tmp_path: Path, level: str, begins: str, failed: bool
) -> None:
    word = "error reading the version" if level == "WARNING" else "reading the version"
    (tmp_path / "job.log").write_text(
        f"{AT} - lumen - INFO - begins\n{AT} - lumen.keys - {level} - {word}\n"
        f'Traceback (most recent call last):\n  File "keys.py", line 7, in {begins}\n'
        "    keys.version\nAttributeError: module 'keys' has no attribute 'version'\n"
        + "".join(f"{AT} - lumen.{name} - INFO - was asked\n" for name in ("mail", "rows", "user"))
    )
    assert analyse([str(tmp_path)], RankLogOptions()).failed is failed


@pytest.mark.parametrize("level", ["ERROR - ", ""])
def test_what_a_logger_wrote_far_above_a_quiet_end_is_not_told_for_it(
    tmp_path: Path, level: str
) -> None:
    head = f"{AT} - lumen - {level}cannot read the ratings\n" if level else "ratings\n"
    quiet = "".join(f"{AT} - lumen - INFO - part {'x' * n}\n" for n in range(400))
    (tmp_path / "job.log").write_text(head + TRACEBACK + quiet + "  key  rows\n  A1B2   15\n")
    report = analyse([str(tmp_path)], RankLogOptions())
    assert [one.id for one in report.diagnoses] == ([] if level else ["last_words"])


@pytest.mark.parametrize(("times", "failed"), [(2, False), (1, True)])
def test_what_was_logged_in_the_same_place_again_was_survived(
    tmp_path: Path, times: int, failed: bool
) -> None:
    crates = [f"INFO - crate {a}{b} is shut\n" for a in "abcdefgh" for b in "uvwxyz"]
    text = ("ERROR - the lens failed\n" + TRACEBACK + "".join(crates)) * times
    assert report_of(tmp_path, "the lens is new\n" + text).failed is failed


@pytest.mark.parametrize(
    ("head", "above", "behind", "failed"),
    [
        ("[E 03:04:05.678 Lumen] Uncaught exception", "saved rows", "saved rows", False),
        ("[E 03:04:05.678 Lumen] Uncaught exception", "saved rows", "swept the rooms", True),
        ("[W 03:04:05.678 Lumen] slow", "saved rows", "saved rows", True),
        ("the lens failed", "saved rows", "saved rows", True),
    ],
)
def test_a_logger_that_writes_what_it_wrote_above_its_error_goes_on(
    tmp_path: Path, head: str, above: str, behind: str, failed: bool
) -> None:
    record = "".join(f"    {line}\n" for line in TRACEBACK.splitlines())
    calm = "[I 03:04:{}.678 Lumen] {}\n"
    text = "the lens is new\n" + calm.format("01", above) + f"{head}\n{record}"
    text += calm.format("07", behind) + calm.format("08", behind)
    assert report_of(tmp_path, text).failed is failed


def test_the_head_of_a_record_that_is_indented_is_a_logger_s(tmp_path: Path) -> None:
    record = "".join(f"    {line}\n" for line in ("Request('/')", *TRACEBACK.splitlines()))
    head = "[E 2026-01-02 03:04:05.678 Lumen] {}\n"
    text = head.format("Uncaught exception") + record + head.format("500 GET /")
    told = {o.id: o.confidence.value for o in report_of(tmp_path, text).diagnoses}
    assert told == {"rank_raised": "possible"}


def test_an_error_of_what_runs_at_exit_ends_nothing(tmp_path: Path) -> None:
    text = "step 1\nError in atexit._run_exitfuncs:\n" + TRACEBACK
    assert not report_of(tmp_path, text).failed


_RAN = "-----\nRan 3 tests in 0.4s\n\n{}\n"
_DIED = (
    "test_dies (t.Pool.test_dies) ... Fatal Python error: Segmentation fault\n\n"
    "Current thread 0x00007f1e3a2c1740 (most recent call first):\n"
    '  File "/t/c.py", line 4 in <module>\n'
)


@pytest.mark.parametrize(
    "died",
    [
        _DIED + "ok\n",
        "..terminate called after throwing an instance of 'lumen::Lost'\n.\n",
        TRACEBACK,
    ],
)
@pytest.mark.parametrize(
    ("end", "failed"),
    [
        (_RAN.format("OK"), False),
        (_RAN.format("FAILED (failures=1)"), True),
        ("[  PASSED  ] 3 tests.\n", False),
        ("===== 3 passed in 0.41s =====\n", False),
        ("", True),
    ],
)
def test_what_a_test_started_died_and_the_runner_counts_all_as_well(
    tmp_path: Path, died: str, end: str, failed: bool
) -> None:
    assert report_of(tmp_path, died + end).failed is failed


@pytest.mark.parametrize(
    "last",
    [
        "",
        "[rank0]:[W1120 08:05:40.100 ProcessGroupNCCL.cpp:1479] Warning: WARNING: "
        "destroy_process_group() was not called before program exit, which can leak resources.\n",
    ],
)
def test_what_a_tracker_complained_of_above_the_end_of_a_short_log_ended_nothing(
    tmp_path: Path, last: str
) -> None:
    path = tmp_path / "train.log"
    path.write_text(
        "{'loss': 2.31, 'epoch': 0.5}\n"
        "tracker: ERROR Error while calling the API: internal error (<Response [500]>)\n"
        "{'loss': 1.91, 'epoch': 1.0}\n"
        "{'train_runtime': 312.11, 'train_loss': 2.085, 'epoch': 1.0}\n" + last
    )
    report = analyse([str(path)], RankLogOptions())
    assert (report.outcome, report.diagnoses) == (Outcome.HEALTHY, ()), report.verdict


_SCARED = "free(): this build only warns of what it frees twice\n"


def _steps(first: int, last: int) -> str:
    return "".join(f"{AT} INFO it={n}/40 loss=0.{50 - n}\n" for n in range(first, last))


@pytest.mark.parametrize(
    ("behind", "failed"),
    [
        (_steps(1, 12) + f"{AT} [INFO] worker 0: finished 11 iterations\n", False),
        (
            _steps(1, 3) + f"{AT} [INFO] worker 0: finished 2 iterations\n",
            True,
        ),  # heads of two runs
        (_steps(1, 12), True),
        (_steps(1, 4) + f"{AT} ERROR cannot save\n{TRACEBACK}" + _steps(4, 8), False),
        (f"{AT} ERROR cannot save\n{TRACEBACK}", True),
    ],
)
def test_words_of_an_end_above_what_their_writer_survived_are_no_end(
    tmp_path: Path, behind: str, failed: bool
) -> None:
    (tmp_path / "rank0.log").write_text(f"{AT} INFO begins\n{_SCARED}{behind}")
    assert analyse([str(tmp_path / "rank0.log")], RankLogOptions()).failed is failed
