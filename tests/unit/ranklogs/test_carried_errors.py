"""Errors that other errors carry, that are cut off, or that a process survives again and again."""

from pathlib import Path
from typing import Any

import pytest

from builders.ranklogs import raised_first, report_of
from postmortem.analyses.ranklogs import RankLogOptions, analyse
from postmortem.facts.rank_logs import ExceptionText
from postmortem.report.model import Confidence, Outcome

_FRAME = '  File "/job/train.py", line {line}, in {function}\n    {function}()\n'


def _raised(words: str, function: str = "main", line: int = 3) -> str:
    frame = _FRAME.format(line=line, function=function)
    return f"Traceback (most recent call last):\n{frame}{words}\n"


def test_spawn_tells_the_error_of_its_child_whatever_it_raises_itself(tmp_path: Path) -> None:
    spawn = (
        '  File "/opt/lib/torch/multiprocessing/spawn.py", line 118, in join\n    raise Exception\n'
    )
    text = (
        f"Traceback (most recent call last):\n{spawn}Exception: \n\n"
        "-- Process 1 terminated with the following error:\n" + _raised("ValueError: no shard 7")
    )
    assert raised_first(report_of(tmp_path, text)) == (1, "ValueError: no shard 7")


@pytest.mark.parametrize(
    ("raised", "rest"),
    [
        ("nbclient.exceptions.CellExecutionError: An error occurred while executing:", "rows[5]"),
        ("papermill.exceptions.PapermillExecutionError: ", 'Exception encountered at "In [3]":'),
    ],
)
def test_a_cell_that_a_program_runs_tells_its_own_error(
    tmp_path: Path, raised: str, rest: str
) -> None:
    text = _raised(raised)
    text += (
        f"----------\n{rest}\n----------\n\nIndexError         Traceback (most recent call last)\n"
    )
    text += "Cell In[3], line 2\n----> 2 rows[5]\n\nIndexError: list index out of range\n"
    assert raised_first(report_of(tmp_path, text)) == (None, "IndexError: list index out of range")


def test_what_a_worker_of_spark_raised_is_told(tmp_path: Path) -> None:
    text = _raised("pyspark.sql.utils.PythonException: ")
    text += "  An exception was thrown from the Python worker. Its stack trace is below.\n"
    text += _raised("ModuleNotFoundError: No module named 'lumen'", "read_command", 74)
    assert raised_first(report_of(tmp_path, text)) == (
        None,
        "ModuleNotFoundError: No module named 'lumen'",
    )


@pytest.mark.parametrize("behind", [0, 1])
def test_an_error_behind_which_its_process_works_is_not_certain(
    tmp_path: Path, behind: int
) -> None:
    steps = [f"(Trainer pid=71) step:{n} loss:{2.4 - n / 100:.2f}\n" for n in range(61)]
    error = "".join(
        f"(Trainer pid=71) {x}\n" for x in _raised("KeyError: 'lr'", "<module>").splitlines()
    )
    other = "".join(f"(Loader pid=72) batch {n} read\n" for n in range(6))
    at = len(steps) - behind
    report = report_of(tmp_path, "".join(steps[:at]) + error + other + "".join(steps[at:]))
    assert raised_first(report) == (None, "KeyError: 'lr'")
    assert (report.diagnoses[0].confidence is Confidence.CERTAIN) is (not behind)


def test_an_error_of_ray_inside_another_one_is_told(tmp_path: Path) -> None:
    ray = "ray.exceptions.RayTaskError(ValueError): ray::{name}() (pid={pid}, ip=10.0.0.2)\n"
    frame = _FRAME.format(line=5, function="run")
    text = _raised(ray.format(name="Driver.run", pid=4711).strip()) + frame
    text += ray.format(name="Trainer.step", pid=4712) + frame + "ValueError: no shard 7\n"
    first: Any = report_of(tmp_path, text).body["first_failure"]
    assert first["label"].startswith("Trainer pid=4712")
    assert first["what"] == "ValueError: no shard 7"


def test_a_chain_that_is_cut_keeps_its_first_error(tmp_path: Path) -> None:
    text = _raised("ValueError: no shard 7") + "\nDuring handling of the above exception, anoth"
    report = report_of(tmp_path, text)
    assert [one.id for one in report.diagnoses] == ["rank_raised"]
    assert raised_first(report) == (None, "ValueError: no shard 7")


def test_an_error_is_survived_by_work_with_empty_lines_in_any_script(tmp_path: Path) -> None:
    work = "".join(f"\nзагрузка {n} из 60: успешно\nготово {n}\n" for n in range(60))
    report = report_of(tmp_path, work[:200] + _raised("ValueError: no shard 7") + work)
    assert not report.failed


def test_what_one_process_raises_again_and_again_it_survives(tmp_path: Path) -> None:
    prefix = "(Actor pid=4711) "
    lines = [*(_raised("ValueError: no action") * 4).splitlines(), "next"]
    text = "".join(f"{prefix}{line}\n" for line in lines)
    assert not report_of(tmp_path, text).failed
    once = "".join(f"{prefix}{line}\n" for line in _raised("ValueError: no action").splitlines())
    assert report_of(tmp_path, once).failed


def test_only_aftermath_behind_an_error_in_one_line(tmp_path: Path) -> None:
    text = "RuntimeError: no device\nterminate called without an active exception\n"
    report = report_of(tmp_path, text)
    assert (report.outcome, report.verdict) == (Outcome.FAILED, "RuntimeError: no device")


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (
            "3 validation errors for Lumen\nlr\n  Input is too small\nsize\n  Field required",
            "small",
        ),
        ('while parsing a map\n  in "a.yaml", line 1\nfound [\n  in "a.yaml", line 4', "line 4"),
        ('while parsing a map\n  in "a.yaml", line 1\nfound [\n  in "a.yaml", line 4', "found ["),
        ("An error occurred while calling o7.fit.\n: java.io.IOException: no shard", "no shard"),
        ("<lum.Wrap (of what it called)\nno field of that name\n>", "of that name"),
        ("<lum.Wrap (of what it called)>\nno field of that name", "called)>"),
        (
            "{{function_node __wrapped__Next_device_/job:a/task:0}} no type\n\t [[{{node b}}]]",
            ": no",
        ),
        (
            "Graph execution error:\n\nDetected at node 'a' defined at (most recent call last):\n"
            "    File \"/job/t.py\", line 3, in <module>\nNode: 'a'\n"
            "Cast string to float is not supported\n\t [[{{node a}}]]",
            "Cast string to float",
        ),
    ],
)
def test_of_a_message_that_begins_with_a_count_or_a_place_what_failed_is_told(
    tmp_path: Path, message: str, told: str
) -> None:
    error = raised_first(report_of(tmp_path, _raised(f"lumen.ReadError: {message}")))[1]
    assert told in (error or "")


def test_where_the_thread_raised_that_another_waited_for_is_told(tmp_path: Path) -> None:
    thread = "Exception in thread reader:\n" + _raised("ValueError: no number", "read", 8)
    report = report_of(tmp_path, thread + _raised("_queue.Empty", "<module>", 21))
    [place] = report.highlights.places
    assert (place.line, place.function) == (8, "read")


@pytest.mark.parametrize(("stopped", "sure"), [(True, False), (False, True)])
def test_what_a_worker_raised_is_not_sure_where_the_driver_was_stopped(
    tmp_path: Path, stopped: bool, sure: bool
) -> None:
    raised = _raised("lumen.TimeoutError: no shard in 30 s", "ask")
    text = "".join(f"(Lumen pid=71) {line}\n" for line in raised.splitlines())
    text = f"started\n{text}(Other pid=72) waits for work\n"
    at = "[2026-01-02 03:04:05,678 E 70 70] logging.cc:474: "
    word = "*** SIGTERM received at time=1767323045 on cpu 0 ***"
    end = f"{word}\nPC: @     0x7f06  (unknown)\n{at}{word}\n" * stopped
    first = report_of(tmp_path, text + end).body["first_failure"]
    assert (first["confidence"] == "certain") is sure  # type: ignore[index]


def test_the_headline_has_the_whole_of_what_all_ranks_raised(tmp_path: Path) -> None:
    message = f"ValueError: the steps of saving {'and of evaluating ' * 6}differ: 40 and 25"
    raised = _raised(message).splitlines()
    text = "".join(f"[rank{rank}]: {line}\n" for rank in range(2) for line in raised)
    report = report_of(tmp_path, text)
    assert report.diagnoses[0].id == "every_rank_raised"
    assert message in (report.highlights.headline or "")
    assert message not in report.diagnoses[0].cause


@pytest.mark.parametrize(
    ("below", "message"),
    [
        ("ERROR 11-20 03:15:58 [lamp.py:87] and it is dark", "too few lumens\nand it is dark"),
        ("CRITICAL 11-20 03:15:58 [hall.py:12] Got fatal signal from worker", "too few lumens"),
        ("Killed", "too few lumens"),
    ],
)
def test_a_message_ends_where_a_logger_begins_another_record(
    tmp_path: Path, below: str, message: str
) -> None:
    head = "ERROR 11-20 03:15:58 [lamp.py:87] "
    lines = ["Traceback (most recent call last):", '  File "/j/lamp.py", line 80, in light']
    lines += ["    raise ValueError(few)", "ValueError: too few lumens"]
    path = tmp_path / "server.log"
    path.write_text("".join(f"{head}{line}\n" for line in lines) + f"{below}\n")
    body: Any = analyse([str(path)], RankLogOptions()).body
    assert [row["message"] for row in body["tracebacks"]] == [message]


@pytest.mark.parametrize(
    ("above", "end", "message"),
    [
        (
            "[09:50:35] src/lamp.h:39: Check failed: e == lumenSuccess: out of memory",
            "terminate called after throwing an instance of 'lamp::Error'",
            "Check failed: e == lumenSuccess: out of memory",
        ),
        ("E 09:50 lamp", "terminate called after throwing an instance of 'lamp::Error'", ""),
        (
            "F src/lamp.cc:103] Non-OK-status: Stop() status: UNKNOWN: no lamp",
            "Fatal Python error: Aborted",
            "Non-OK-status: Stop() status: UNKNOWN: no lamp (Aborted)",
        ),
        ("step 12 of 40, loss 1.25", "Fatal Python error: Aborted", "Aborted"),
    ],
)
def test_an_abort_without_a_reason_has_that_of_the_line_above(
    tmp_path: Path, above: str, end: str, message: str
) -> None:
    path = tmp_path / "job.log"
    path.write_text(f"step 11 of 40, loss 1.26\n{above}\n{end}\n")
    body: Any = analyse([str(path)], RankLogOptions()).body
    assert body["tracebacks"][-1]["message"] == message


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("[f 1214 20:38:47 lamp.cc:84] \nlamp 7 failed.\n[Input]: x", "lamp 7 failed."),
        ("[f 1214 20:38:47 lamp.cc:84] lamp 7\nfailed", "[f 1214 20:38:47 lamp.cc:84] lamp 7"),
        ("[lamp.cc:84]", "[lamp.cc:84]"),
    ],
)
def test_a_place_alone_is_no_reason(message: str, words: str) -> None:
    assert ExceptionText("E", message).words == f"E: {words}"
