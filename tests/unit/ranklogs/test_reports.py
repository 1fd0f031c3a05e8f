"""Reports of people: blocks of a log with text between them, and what is cut off in them."""

from pathlib import Path

import pytest

from builders.ranklogs import report_of


def test_blocks_of_a_report_are_its_log_and_its_text_is_not(tmp_path: Path) -> None:
    """Whichever of them is cut off, and with what the text between them quotes as an error."""
    log = "[n1 ~]# kubectl get pods\nlumen-0  1/1  Running  0  3m\n"
    asked = "The logs of `lumen-0` tell of a network error in `lumen-1`.\n"
    between = report_of(tmp_path, f"{log}```\n{asked}```\n+ NAME=lumen-1\n+ shift\n")
    assert between.diagnoses == ()
    head = "If I leave it out, training throws a different error:\n```\n"
    cut = '  File "a.py", line 9, in f\n    g()\n  File "b.py", line 7, in g\n    h(\n'
    assert [one.id for one in report_of(tmp_path, head + cut).diagnoses] == ["only_victims"]
    quoted = f"It went further, but `RuntimeError: no room for shard 3` came:\n```\n{cut}"
    assert "RuntimeError: no room for shard 3" in report_of(tmp_path, quoted).verdict


def test_a_text_between_two_blocks_keeps_them_apart(tmp_path: Path) -> None:
    first = "```\nsrun: error: task 0 launch failed: Plugin initialization failed\n```\n"
    text = f"{first}The node has these lines:\n```\nerror: lumen: no folder /run/lumen\n```\n"
    assert report_of(tmp_path, text).diagnoses[0].evidence[0].where.endswith(":6")


def test_a_stack_behind_a_level_that_has_neither_head_nor_end_is_cut_off(tmp_path: Path) -> None:
    level = "(Engine pid=71) ERROR 01-02 03:04:05 [core.py:84]"
    rows = ["    out = step()", '  File "/job/a.py", line 9, in f', "    g(", '  File "/job/li']
    report = report_of(tmp_path, "".join(f"{level} {row}\n" for row in rows))
    assert [one.id for one in report.diagnoses] == ["only_victims"]


@pytest.mark.parametrize(
    "code",
    [
        "RuntimeError: NCCL error: invalid usage (run with NCCL_DEBUG=WARN for details)",
        "n1:71:72 [0] NCCL INFO init.cc:916 -> 5",
    ],
)
def test_a_code_of_nccl_is_told_by_its_warning(tmp_path: Path, code: str) -> None:
    warned = "n2:41:42 [1] NCCL WARN Duplicate GPU detected : rank 1 and rank 0 both on device 40"
    others = f"[1,1]<stdout>:{code}\n[1,0]<stdout>:{warned}\n[1,0]<stdout>:n2:\n"
    for text in (f"{warned}\n{code}\n", others):
        assert "Duplicate GPU" in report_of(tmp_path, text).verdict
    assert report_of(tmp_path, f"step 1\n{code}\n").diagnoses[0].id == "last_words"


def test_the_output_that_pip_shows_of_a_failed_command_is_no_work(tmp_path: Path) -> None:
    head = "  × python setup.py bdist_wheel did not run successfully.\n  │ exit code: 1\n"
    shown = "  ╰─> [9 lines of output]\n      fatal: not a git repository\n" + "".join(
        f"      copying lumen/{name}.py -> build/lib/lumen\n" for name in "abcdefgh"
    )
    report = report_of(tmp_path, f"  error: subprocess-exited-with-error\n  \n{head}{shown}")
    assert report.failed
    assert "git" not in report.verdict


def test_a_watchdog_that_does_not_know_what_it_saw_waited(tmp_path: Path) -> None:
    said = "Exception (either an error or timeout) detected by watchdog at work: 32"
    text = f"[rank3]:[E227 16:30:43.52 ProcessGroupNCCL.cpp:1785] [PG ID 2 Rank 3] {said}"
    numbers = ", last enqueued NCCL work: 32, last completed NCCL work: 31."
    assert report_of(tmp_path, text + numbers + "\n").diagnoses[0].id == "only_victims"


def test_a_line_of_the_kernel_that_grep_found_in_a_file(tmp_path: Path) -> None:
    rows = ["INFO: task lumen:78 blocked for more than 120 seconds.", "Call Trace:"]
    text = "".join(f"messages:Jun 17 20:18:08 n1 kernel: {row}\n" for row in rows)
    assert report_of(tmp_path, text).diagnoses[0].id == "kernel_log_notes"


def test_what_nccl_calls_its_last_error_is_told(tmp_path: Path) -> None:
    raised = "lumen.DistError: NCCL error in: a.cpp:71, invalid usage (run with NCCL_DEBUG=WARN)"
    more = "ncclInvalidUsage: This usually reflects invalid usage of NCCL library."
    text = (
        f"{raised}\n{more}\nLast error:\nDuplicate GPU detected : rank 0 and rank 1\n    wait()\n"
    )
    assert "Duplicate GPU" in report_of(tmp_path, text).verdict


def test_of_several_errors_that_are_counted_the_first_is_told(tmp_path: Path) -> None:
    text = (
        "tf.errors_impl.InternalError: 2 root error(s) found.\n  (0) Internal: no room at node 7\n"
    )
    assert "no room at node 7" in report_of(tmp_path, text).verdict


def test_what_announces_a_traceback_that_is_cut_off_is_no_error(tmp_path: Path) -> None:
    said = "2026-01-02 ERROR shard: its output:\n\n"
    cut = 'Traceback (most recent call last):\n  File "a.py", line 9, in f\n    g()\n  File "/op\n'
    assert [one.id for one in report_of(tmp_path, said + cut).diagnoses] == ["only_victims"]


def test_a_traceback_that_is_cut_off_in_its_first_frame_is_no_message(tmp_path: Path) -> None:
    text = 'step 7\nTraceback (most recent call last):\n  File "/job/bin/lumen",\n'
    assert not report_of(tmp_path, text).verdict.startswith("Traceback")


def test_frames_of_a_graph_that_stand_alone_are_cut_off(tmp_path: Path) -> None:
    rows = "".join(f"    /job/lumen/a.py:{n} step\n        call({n})\n" for n in (71, 72))
    assert [one.id for one in report_of(tmp_path, rows).diagnoses] == ["only_victims"]


def test_a_column_of_errors_is_none(tmp_path: Path) -> None:
    head = "#   size   count   type   time   busbw  error\n#   (B)   (elements)   (us)\n"
    assert not report_of(tmp_path, f"{head}   71   7   float   41.2   3.9   N/A\n").failed


def test_a_stack_above_the_end_of_the_others_is_no_calm_end(tmp_path: Path) -> None:
    frames = "".join(f"frame #{n}: lumen(int) + 0x{n}99 (0x7fe3c6483d89)\n" for n in range(5, 8))
    agent = "[2026-01-02 03:04:05,678] torch.distributed.elastic.multiprocessing.api: [WARNING] "
    report = report_of(tmp_path, f"{frames}\n{agent}Sending process 71 clo\n")
    assert report.failed
    assert "frame #7" in report.verdict


def test_what_python_calls_as_it_takes_an_object_down_ends_nothing(tmp_path: Path) -> None:
    gone = '  File "a.py", line 9, in __del__\n    self.close()\nAttributeError: no shard\n'
    cut = 'Traceback (most recent call last):\n  File "b.py", line 3, in <module>\n    g()\n'
    text = f"Traceback (most recent call last):\n{gone}{cut}"
    assert [one.id for one in report_of(tmp_path, text).diagnoses] == ["only_victims"]


def test_a_summary_of_torchrun_may_leave_the_pid_out(tmp_path: Path) -> None:
    rows = ("Root Cause (first observed failure):", "[0]:", "  host      : n1")
    end = "  rank      : 1 (local_rank: 0)\n  exitcode  : 1 \n  error_file: <N/A>\n"
    text = "train.py FAILED\n" + "\n".join(rows) + f"\n{end}"
    exits = report_of(tmp_path, text).body["exits"]
    assert [(end["rank"], end["code"], end["pid"]) for end in exits] == [(1, 1, None)]  # type: ignore
