"""Files that several runs were appended to: the last one is judged."""

from pathlib import Path

import pytest

from builders.prose import Prose
from builders.ranklogs import raised_first, report_of
from postmortem.analyses.ranklogs import RankLogOptions, analyse
from postmortem.readers.ranklogs.later_runs import last_run
from postmortem.report.model import Outcome, Report

_HEAD = "loading the tokenizer of the model\nthe data loader has started its workers\n"


def _run(hour: int, end: str) -> str:
    steps = "".join(f"2026-01-02 {hour:02}:00:{n:02} step {n} loss 2.{n}\n" for n in range(20))
    return _HEAD + steps + end


def _raised(words: str) -> str:
    return f'Traceback (most recent call last):\n  File "t.py", line 3, in f\n    f()\n{words}\n'


def test_the_last_run_is_judged_with_the_lines_of_the_file(tmp_path: Path) -> None:
    text = _run(3, _raised("ValueError: first")) + _run(4, _raised("KeyError: 'second'"))
    report = report_of(tmp_path, text)
    assert raised_first(report) == (None, "KeyError: 'second'")
    assert report.diagnoses[0].evidence[0].where == f"job.log:{text.count(chr(10))}"
    assert ["from line 27 on" in problem.what for problem in report.problems] == [True]


def test_a_run_that_came_through_is_no_failure(tmp_path: Path) -> None:
    text = _run(3, _raised("ValueError: first")) + _run(4, "Training complete.\n")
    assert not report_of(tmp_path, text).failed


def test_logs_of_ranks_one_behind_the_other_are_one_run(tmp_path: Path) -> None:
    text = _run(3, _raised("ValueError: first")) + _run(3, "Training complete.\n")
    report = report_of(tmp_path, text)
    assert report.problems == ()


def test_a_rank_that_starts_behind_the_end_of_another_is_of_its_run(tmp_path: Path) -> None:
    """The launcher's rules, which come again below, are no head."""
    text = ""
    for rank in (1, 0):
        raised = _raised("ValueError: first").replace("\n", f"\n[rank{rank}]: ", 3)
        text += f"2026-01-02 03:00:0{2 - rank} | rank {rank}/2 | reads its shards\n"
        text += f"2026-01-02 03:00:0{2 - rank} | rank {rank}/2 | resumes at step 9\n"
        text += f"[rank{rank}]: {raised}"
    rules = f"{'=' * 60}\n/job/t.py FAILED\n{'-' * 60}\nFailures:\n{'-' * 60}\n{'=' * 60}\n"
    report = report_of(tmp_path, text + rules)
    assert report.problems == ()
    assert report.body["first_failure"]["ranks"] == [0, 1]


def test_a_head_that_comes_again_without_an_end_is_no_new_run(tmp_path: Path) -> None:
    report = report_of(tmp_path, _run(3, "") + _run(4, "ValueError: first\n"))
    assert report.problems == ()
    assert report.body["earlier"] == []


def _earlier(report: Report) -> list[tuple[str, int]]:
    """What earlier runs ended with, and in which line."""
    return [(row["text"], row["line"]) for row in report.body["earlier"]]  # type: ignore[attr-defined]


@pytest.mark.parametrize(("prefix", "runs"), [("[rank1]: ", 1), ("[default1]:", 0)])
def test_numbers_of_the_head_may_differ_where_no_launcher_names_all_writers(
    tmp_path: Path, prefix: str, runs: int
) -> None:
    """PyTorch names the rank before the lines of an exception alone."""
    text = ""
    for hour in (3, 4):
        head = f"== try {hour} on n{hour}\nthe job {hour} has 2 ranks and a seed of {hour}\n"
        raised = prefix + _raised("ValueError: x").rstrip().replace("\n", "\n" + prefix) + "\n"
        text += head + _run(hour, raised).removeprefix(_HEAD)
    assert len(_earlier(report_of(tmp_path, text))) == runs


@pytest.mark.parametrize(("above", "runs"), [("At line:1 char:1\n", 0), ("", 1)])
def test_a_command_that_powershell_quotes_begins_no_run(
    tmp_path: Path, above: str, runs: int
) -> None:
    quoted = (
        f"python : ValueError: first\n{above}+ python t.py 2>&1 | Tee-Object job.txt\n+ ~~~~~\n"
    )
    assert len(_earlier(report_of(tmp_path, _run(3, quoted + "KeyError: 'lr'\n")))) == runs


_BEGINS = "wandb: Agent Starting Run: a1b2c3 with config:\nwandb: \tseed: 1\n"


def _program(script: str, words: str) -> str:
    return (
        f'Traceback (most recent call last):\n  File "{script}", line 3, in <module>\n'
        f"    main()\n{words}\n"
    )


def test_a_kill_at_the_end_outweighs_an_error_of_an_earlier_run(
    tmp_path: Path, prose: Prose
) -> None:
    one = _BEGINS + "epoch 1 of 9\n" + _program("t.py", "ValueError: first")
    killed = "run.sh: line 3:  4711 Killed                  python t.py\n"
    report = report_of(tmp_path, one + _BEGINS + "epoch 1 of 9\n" + killed)
    assert [one.id for one in report.diagnoses] == ["process_ended"]
    assert _earlier(report) == [("ValueError: first", 7)]
    prose(report.problems[0].what)


def test_a_run_that_has_just_begun_tells_how_the_one_before_ended(tmp_path: Path) -> None:
    one = _BEGINS + "epoch 1 of 9\n" + _program("t.py", "ValueError: first")
    report = report_of(tmp_path, one + _BEGINS)
    assert report.failed
    assert report.outcome is Outcome.UNKNOWN
    assert _earlier(report) == [("ValueError: first", 7)]


def test_a_run_that_works_behind_a_failed_one_is_no_failure(tmp_path: Path) -> None:
    one = _BEGINS + "epoch 1 of 9\n" + _program("t.py", "ValueError: first")
    report = report_of(tmp_path, one + _BEGINS + "epoch 1 of 9\nepoch 2 of 9\n")
    assert not report.failed
    assert _earlier(report) == [("ValueError: first", 7)]


@pytest.mark.parametrize(
    ("last", "failed"),
    [("joined\n37 rows taken\n", False), ("", True), ("error: no row\nbye\n", True)],
)
def test_a_try_that_goes_on_where_the_one_before_failed_outlived_its_error(
    tmp_path: Path, last: str, failed: bool
) -> None:
    tried = "try {} of the queue of rows\nconnecting to the queue\n"
    error = 'Traceback (most recent call last):\n  File "a.py", line 4, in <module>\nOSError: no\n'
    text = "".join(f"{tried.format(n)}{error}try {n} failed, again\n" for n in (1, 2))
    (tmp_path / "job.log").write_text(text + tried.format(3) + last)
    assert analyse([str(tmp_path / "job.log")], RankLogOptions()).failed is failed


def test_of_two_programs_the_last_one_is_how_it_ended(tmp_path: Path) -> None:
    first = _run(3, "") + _program("prepare.py", "ValueError: first")
    text = first + "rm: cannot remove 'x'\n" + _program("train.py", "KeyError: 'second'")
    report = report_of(tmp_path, text)
    assert raised_first(report) == (None, "KeyError: 'second'")
    assert "ValueError: first" in report.problems[0].what


@pytest.mark.parametrize(
    ("script", "second"), [("train.py", "KeyError: 'second'"), ("prepare.py", "ValueError: first")]
)
def test_of_two_programs_under_srun_the_last_one_is_how_it_ended(
    tmp_path: Path, script: str, second: str
) -> None:
    text = _program("prepare.py", "ValueError: first") + _program(script, "KeyError: 'second'")
    report = report_of(tmp_path, text + "srun: error: n1: task 0: Exited with exit code 1\n")
    assert raised_first(report) == (0, second)


def test_an_error_of_julia_below_a_traceback_is_another_programs(tmp_path: Path) -> None:
    stack = "Stacktrace:\n" + " [1] step(x::Int)\n   @ Main /job/t.jl:3\n" * 40
    text = _program("prepare.py", "ValueError: first") + "ERROR: LoadError: KeyError: 7\n"
    report = report_of(tmp_path, text + stack + "in expression starting at /job/t.jl:9\n")
    assert [one.id for one in report.diagnoses] == ["rank_crashed"]
    assert _earlier(report) == [("ValueError: first", 4)]


@pytest.mark.parametrize(
    ("started", "finished", "another"),
    [("part 2", "part 2", True), ("part 2", "part 3", False), ("the end", "the end", False)],
)
def test_what_a_script_starts_and_finishes_in_turn_behind_an_interrupt_is_another_program(
    tmp_path: Path, started: str, finished: str, another: bool
) -> None:
    behind = "== Starting part 1 ==\n== Finished part 1 ==\n"
    behind += f"== Starting {started} ==\n== Finished {finished} ==\nn: 7\n"
    report = report_of(tmp_path, _run(3, "") + _program("train.py", "KeyboardInterrupt") + behind)
    assert [one.id for one in report.diagnoses] == (
        ["last_words"] if another else ["stopped_from_outside"]
    )


def test_who_raises_because_its_program_failed_is_no_later_run(tmp_path: Path) -> None:
    command = "subprocess.CalledProcessError: Command 'train.py' returned non-zero exit status 1."
    text = _run(3, "") + _program("train.py", "ValueError: first") + _program("go.py", command)
    report = report_of(tmp_path, text)
    assert raised_first(report) == (None, "ValueError: first")


def test_a_program_that_worked_to_its_end_outlived_what_another_one_raised(tmp_path: Path) -> None:
    text = _program("prepare.py", "ValueError: first") + _run(3, "Training complete.\n")
    report = report_of(tmp_path, text)
    assert report.outcome is Outcome.HEALTHY
    assert "ValueError: first" in report.problems[0].what


def test_work_is_told_by_its_form_in_any_language(tmp_path: Path) -> None:
    work = "".join(f"Runde {n} von 40, Verlust 2.{n}, Güte 0.{n}\n" for n in range(20))
    report = report_of(tmp_path, _program("prepare.py", "ValueError: first") + work)
    assert not report.failed
    assert _earlier(report) == [("ValueError: first", 4)]


@pytest.mark.parametrize("steps", [0, 8])
def test_what_is_said_again_and_again_behind_work_does_not_hide_it(
    tmp_path: Path, steps: int
) -> None:
    work = "".join(f"step {n} of 40: loss 2.{n}\n" for n in range(steps))
    said = "the process was forked, see below\nset FORKS to be asked no more\n" * 30
    report = report_of(tmp_path, _program("prepare.py", "ValueError: first") + work + said)
    assert _earlier(report) == ([("ValueError: first", 4)] if steps else [])


def test_a_list_at_the_end_of_a_message_is_no_work(tmp_path: Path) -> None:
    names = "".join(f"/job:worker/replica:0/task:{n}\n" for n in range(20))
    report = report_of(tmp_path, _program("train.py", "ValueError: missing tasks:") + names)
    assert report.failed
    assert report.problems == ()


_STOPPED = (
    "slurmstepd: error: *** JOB 71 ON n1 CANCELLED AT 2026-11-21T02:03:32 DUE TO JOB REQUEUE ***\n"
)


@pytest.mark.parametrize(
    ("end", "told"),
    [(_raised("ValueError: bad row"), "ValueError: bad row"), (_STOPPED, "DUE TO JOB REQUEUE")],
    ids=["error", "requeued"],
)
def test_the_first_line_again_below_a_bad_end_begins_a_run(
    tmp_path: Path, end: str, told: str
) -> None:
    runs = [f"Backup of day {n} on node{n}\nread 9{n} rows\n" for n in (1, 2)]
    report = report_of(tmp_path, f"{runs[0]}{end}{runs[1]}Training complete.\n")
    assert report.outcome is Outcome.HEALTHY
    assert told in report.verdict


@pytest.mark.parametrize(
    ("said", "runs"),
    [("loop: job exited with 1, restart 1 of 3\n", 2), ("loop: job exited with 1, giving up\n", 1)],
)
def test_a_loop_says_that_it_starts_a_job_again(tmp_path: Path, said: str, runs: int) -> None:
    work = "".join(f"step {n} of 40: loss 2.{n}\n" for n in range(3))
    report = report_of(tmp_path, work + _raised("ValueError: first") + said + work)
    assert len(_earlier(report)) == runs - 1


def test_ranks_that_raise_alike_under_a_clock_are_one_run(tmp_path: Path) -> None:
    lines = (_raised("ValueError: first") * 2).splitlines()
    text = "".join(f"2026-01-02T03:04:{n:02}.114593Z {line}\n" for n, line in enumerate(lines))
    assert _earlier(report_of(tmp_path, text)) == []


def _of_rank(rank: int) -> str:
    lines = _program("t.py", "KeyError: 3").splitlines()
    return "".join(f"[rank{rank}]: {line}\n" for line in lines)


@pytest.mark.parametrize(
    ("ranks", "script", "runs"), [(2, "t.py", 2), (2, "u.py", 1), (1, "t.py", 1)]
)
def test_who_raises_behind_all_ranks_was_started_anew(
    tmp_path: Path, ranks: int, script: str, runs: int
) -> None:
    text = "".join(map(_of_rank, range(ranks))) + "reads shards\n" + _program(script, "OSError: 5")
    report = report_of(tmp_path, text)
    assert [row[1] for row in _earlier(report)] == [8] * (runs - 1)
    assert raised_first(report)[1] == ("OSError: 5" if runs == 2 else "KeyError: 3")


_NODE = "| loading the shards of 4 nodes |\n| they are on a local disk now |\n"
_CANCELLED = "slurmstepd: error: *** JOB 71 ON n1 CANCELLED AT 2026-11-21T02:03:32 ***\n"


@pytest.mark.parametrize(
    ("date", "runs"), [("Sat Nov 21 03:00:01", 2), ("Sat Nov 21 02:00:01", 1)], ids=["new", "same"]
)
def test_a_head_below_a_date_begins_a_run_behind_a_cancellation(
    tmp_path: Path, date: str, runs: int
) -> None:
    first = "Fri Nov 20 01:00:01 2026\n" + _NODE + "epoch 1 of 9\n" + _CANCELLED
    report = report_of(tmp_path, first + f"{date} UTC 2026\n" + _NODE + "a score of 0.18\n" * 3)
    assert [row[1] for row in _earlier(report)] == [5] * (runs - 1)


def test_a_run_of_many_lines_has_not_just_begun(tmp_path: Path) -> None:
    first = "Fri Nov 20 01:00:01 2026\n" + _NODE + "epoch 1 of 9\n" + _CANCELLED
    told = "".join(f"a kernel of {'x' * (n % 7)} blocks\n" for n in range(600))
    second = "Sat Nov 21 03:00:01 UTC 2026\n" + _NODE
    assert not report_of(tmp_path, first + second + told).failed
    assert report_of(tmp_path, first + second).failed


def test_logs_of_peers_that_were_joined_are_one_run(tmp_path: Path) -> None:
    one = "Backup of day 1 on node1\n" + _raised("ValueError: first")
    other = "Backup of day 1 on node1\n" + _raised("RuntimeError: Connection closed by peer")
    assert report_of(tmp_path, one + other).problems == ()


def test_the_steps_of_a_ci_are_one_run(tmp_path: Path) -> None:
    steps = "[Pipeline] sh\n+ python3 prepare.py\n[Pipeline] }\n[Pipeline] sh\n+ python3 test.py\n"
    text = f"[Pipeline] Start of Pipeline\n{steps}[Pipeline] End of Pipeline\nFinished: SUCCESS\n"
    report = report_of(tmp_path, text)
    assert report.outcome is Outcome.HEALTHY
    assert report.problems == ()


def test_all_earlier_runs_are_counted(tmp_path: Path) -> None:
    runs = "".join(_run(hour, _raised(f"ValueError: {hour}")) for hour in (1, 2, 3))
    report = report_of(tmp_path, runs + _run(4, "Training complete.\n"))
    assert report.outcome is Outcome.HEALTHY
    assert _earlier(report) == [("ValueError: 3", 78), ("ValueError: 2", 52), ("ValueError: 1", 26)]


def test_ranks_that_work_on_behind_an_exception_are_one_run(tmp_path: Path) -> None:
    ranks = "".join(f"[rank1]: step {n} of 40\n" for n in range(20))
    text = ranks + _program("train.py", "ValueError: first") + ranks
    assert report_of(tmp_path, text).problems == ()


@pytest.mark.parametrize(
    "head",
    [b"\x00\x01\xff\xfe (?P<a>[b\\ " * 2, b"one line that goes on and on " * 400, b"\xff" * 30],
    ids=["no text", "long", "not UTF-8"],
)
@pytest.mark.parametrize("end", [b"\n", b"\r\n"], ids=["lf", "crlf"])
def test_any_line_may_be_the_head_that_comes_again(head: bytes, end: bytes) -> None:
    steps = b"2026-01-02 0%d:00:00 step 1 loss 2.1"
    runs = [
        end.join([head, b"the data loader has started", steps % hour, b"ValueError: 3", b""])
        for hour in (3, 4)
    ]
    run = last_run(b"".join(runs))
    assert run is not None
    assert run.begin == len(runs[0])
    lines = len(runs[0].split(b"\n")) - 1
    assert run.earlier == (("ValueError: 3", lines),)


def test_programs_that_wrote_with_a_hole_between_are_several(tmp_path: Path) -> None:
    runpy = '  File "<frozen runpy>", line 88, in _run_code\n'
    run = f'{runpy}  File "t.py", line 3, in <module>\n    main()\n'
    first, last = (
        f"Traceback (most recent call last):\n{run}{words}\n"
        for words in ("ValueError: 1", "KeyError: 2")
    )
    holes = report_of(tmp_path, f"{first}{chr(0) * 70}{last}")
    assert raised_first(holes) == (None, "KeyError: 2")
    assert not any(
        "several" in problem.what for problem in report_of(tmp_path, first + last).problems
    )


def test_a_login_to_the_tracker_behind_an_end_begins_a_run(tmp_path: Path) -> None:
    login = "wandb: Currently logged in as: somebody to https://api.wandb.ai.\n"
    first, last = (
        f"{login}step 1 loss 2\n{_raised(end)}" for end in ("ValueError: 1", "KeyError: 2")
    )
    assert raised_first(report_of(tmp_path, first + last)) == (None, "KeyError: 2")


def test_what_another_program_wrote_is_not_called_earlier(tmp_path: Path) -> None:
    work = "".join(f"step {n} loss 2.{n}\n" for n in range(8))
    report = report_of(tmp_path, _program("/home/user/a.py", "ValueError: 1") + work)
    assert [("earlier" in one.what, "several programs" in one.what) for one in report.problems] == [
        (False, True)
    ]


@pytest.mark.parametrize(("since", "caught"), [("05:41", True), ("00:01", False)])
def test_a_bar_that_goes_on_is_of_the_program_that_caught_the_error(
    tmp_path: Path, since: str, caught: bool
) -> None:
    bars = "".join(f"{n}/900 [{since}<50:57, 2.1s/it]\n" for n in range(107, 130))
    text = "106/900 [05:38<50:57, 2.1s/it]\n" + _program("/home/user/a.py", "ValueError: 1") + bars
    report = report_of(tmp_path, text)
    assert not report.failed
    assert [("caught" in one.what) for one in report.problems] == [caught]


_ENDED = (
    "[default1]:KeyError: 'lr'\nRoot Cause (first observed failure):\n[0]:\n"
    "  rank      : 1 (local_rank: 1)\n  exitcode  : 1 (pid: 7)\n" + "=" * 60 + "\n"
)


def _worked(hour: int) -> str:
    """Two ranks whose lines come in another order in each run."""
    rows = [
        f"[default{rank}]:2026-01-02 {hour:02}:00:{n:02} step {n}"
        for n in range(6)
        for rank in (0, 1)
    ]
    return "\n".join(rows[hour:] + rows[:hour]) + "\n"


def test_work_behind_torchruns_last_word_is_another_run(tmp_path: Path) -> None:
    report = report_of(tmp_path, _worked(3) + _ENDED + _worked(4))
    assert not report.failed
    assert len(report.problems) == 1


def test_last_lines_behind_torchruns_last_word_are_none(tmp_path: Path) -> None:
    report = report_of(tmp_path, _worked(3) + _ENDED + "[default0]:uploading the log\n")
    assert report.failed
    assert report.problems == ()


def _epilogue(code: int) -> str:
    rule = "=" * 60
    return f"{rule}\n    Job Id:             71.head\n    Exit Status:        {code}\n{rule}\n"


@pytest.mark.parametrize(("codes", "failed"), [((1, 0), False), ((0, 1), True)])
def test_each_epilogue_of_a_batch_system_ends_a_run(
    tmp_path: Path, codes: tuple[int, int], failed: bool
) -> None:
    runs = [("epoch 1\n" + _raised("KeyError: 'w'") * code) + _epilogue(code) for code in codes]
    report = report_of(tmp_path, "".join(runs))
    assert (report.failed, len(report.problems)) == (failed, 1)


def test_the_one_epilogue_of_a_job_is_of_its_run(tmp_path: Path) -> None:
    report = report_of(tmp_path, "epoch 1\n" + _raised("KeyError: 'w'") + _epilogue(1) + "left\n")
    assert (report.failed, report.problems) == (True, ())


def _lsf(status: str) -> str:
    return (
        "------------------------------------------------------------\n"
        "Sender: LSF System <lsfadmin@head>\nSubject: Job 71: <lumen> in cluster <c> ended\n\n"
        f"{status}\n\nThe output (if any) is above this job summary.\n\n"
    )


_BY_OWNER = "TERM_OWNER: job killed by owner.\nExited with exit code 143."


@pytest.mark.parametrize(
    ("reports", "rule"),
    [
        (("Exited with exit code 1.", _BY_OWNER), "stopped_from_outside"),
        ((_BY_OWNER, "Successfully completed."), ""),
    ],
)
def test_each_report_of_lsf_ends_a_run(tmp_path: Path, reports: tuple[str, str], rule: str) -> None:
    report = report_of(tmp_path, "".join(f"epoch 1\nepoch 2\n{_lsf(one)}" for one in reports))
    assert [one.id for one in report.diagnoses[:1]] == [rule] * bool(rule)


_INNER = """\
Traceback (most recent call last):
  File "/env/site-packages/lumen/__init__.py", line 3, in <module>
    from lumen import _core
ModuleNotFoundError: No module named 'lumen._core'
{}Traceback (most recent call last):
  File "/job/train.py", line 2, in <module>
    import lumen
ImportError: lumen is not whole
"""
_LINK = "\nDuring handling of the above exception, another exception occurred:\n\n"


@pytest.mark.parametrize("link", ["", _LINK])
def test_what_began_a_chain_is_no_program(tmp_path: Path, link: str) -> None:
    report = report_of(tmp_path, _INNER.format(link))
    assert len(report.problems) == (not link)


def test_where_errors_go_is_none(tmp_path: Path) -> None:
    assert not report_of(tmp_path, "epoch 1\nepoch 2\nError messages go to train.err\n").failed


def _ranks(hour: int, *ranks: int, steps: int = 3) -> str:
    """Ranks that say which they are, each in a line of its own, and work."""
    rows = [f"2026-01-02 {hour:02}:00:00 INFO rank {r} of 3 is pid {hour}{r}" for r in ranks]
    rows += [f"2026-01-02 {hour:02}:00:0{n} INFO step {n} loss 0.{n}" for n in range(steps)]
    return "\n".join(rows) + "\n"


_OF_RANK = "".join(f"[rank1]: {line}\n" for line in _raised("KeyError: 'lr'").splitlines())
_OF_OTHER = _OF_RANK.replace("[rank1]", "[rank0]").replace("KeyError: 'lr'", "ValueError: width 7")


def test_ranks_that_say_again_which_they_are_begin_a_run(tmp_path: Path) -> None:
    text = _ranks(3, 0, 1, 2) + _OF_RANK + _ranks(4, 2, 0, 1) + _OF_OTHER
    assert raised_first(report_of(tmp_path, text)) == (0, "ValueError: width 7")


@pytest.mark.parametrize(
    "text",
    [
        _ranks(3, 0, 1) + _OF_RANK + _ranks(3, 2) + _OF_OTHER,
        _ranks(3, 0, 1, 2) + _ranks(3, 0, 1, 2) + _OF_RANK + _ranks(3, 0) + _OF_OTHER,
        _ranks(3, 0, 1, 2) + _ranks(4, 2, 0, 1) + _OF_RANK,
    ],
    ids=["one came late", "said in every epoch", "no end between"],
)
def test_ranks_that_say_which_they_are_side_by_side_are_one_run(tmp_path: Path, text: str) -> None:
    assert raised_first(report_of(tmp_path, text)) == (1, "KeyError: 'lr'")


_CLOSING = (
    "W1120 10:00:20.000000 90 torch/distributed/elastic/multiprocessing/api.py:897] "
    "Sending process 102 closing signal SIGTERM\n"
)


@pytest.mark.parametrize(
    "raised", ["", "torch.distributed.elastic.multiprocessing.api.SignalException"]
)
@pytest.mark.parametrize(("end", "failed"), [("Training complete.\n", False), ("", True)])
def test_who_comes_to_an_end_behind_torchruns_signals_is_another_run(
    tmp_path: Path, raised: str, end: str, *, failed: bool
) -> None:
    told = _CLOSING + (_raised(f"{raised}: Process 90 got signal: 15") if raised else "")
    text = _ranks(3, 0, 1, 2) + _OF_RANK + told + "step 1 loss 0.4\nstep 2 loss 0.3\n" + end
    assert report_of(tmp_path, text).failed == failed


def test_wide_characters_of_utf_16_are_text(tmp_path: Path) -> None:
    """A progress bar that a shell has written anew: its characters are no control characters."""
    steps = "".join(f"{i}%|\u0393\u00fb\u00ea\u0393\u00fb\u00ea| loss 2.{i}\n" for i in range(60))
    trace = 'Traceback (most recent call last):\n  File "a.py", line 3, in <module>\n    f()\n'
    path = tmp_path / "job.log"
    path.write_text(steps + trace + "TypeError: no tensor\n", "utf-16")
    report = analyse([str(path)], RankLogOptions())
    assert [one.id for one in report.diagnoses] == ["rank_raised"]


@pytest.mark.parametrize(("between", "runs"), [("", 1), ("a loader is gone\n" * 4, 0)])
def test_a_head_right_behind_an_interrupt_begins_a_run_without_clocks(
    tmp_path: Path, between: str, runs: int
) -> None:
    head = "".join(
        f"{x}.py:%d: Warning:\nno version at all is set\nthe newest one is used\n" for x in "st"
    )
    steps = "".join(f"step {n} loss 2.{n}\n" for n in range(20))
    above = "no display\n" + head % (5, 6) + steps + _raised("KeyboardInterrupt") + between
    report = report_of(tmp_path, above + head % (7, 8) + "Cannot find the settings 'walker'\n")
    assert [said for said, _ in _earlier(report)] == ["KeyboardInterrupt"] * runs


_OUTERMOST = (
    'Traceback (most recent call last):\n  File "u.py", line 3, in <module>\n    import t\n'
)
_ODD = '  File "t.py", line 56\n    {3:}\n       ^\nSyntaxError: invalid syntax\n'


@pytest.mark.parametrize(
    ("above", "said", "earlier"),
    [
        (_raised("ValueError: first"), "SyntaxError: invalid syntax", ["ValueError: first"]),
        (_raised("ValueError: first").partition("V")[0], "SyntaxError: invalid syntax", []),
    ],
)
def test_a_script_that_python_cannot_compile_is_a_run_of_its_own_behind_a_bad_end(
    tmp_path: Path, above: str, said: str, earlier: list[str]
) -> None:
    report = report_of(tmp_path, _run(3, above + _ODD + _ODD))
    assert raised_first(report) == (None, said)
    assert [text for text, _ in _earlier(report)] == earlier


def test_a_script_that_python_cannot_compile_was_caught_by_nobody(tmp_path: Path) -> None:
    report = report_of(tmp_path, _ODD)
    assert report.diagnoses[0].cause == report_of(tmp_path, _OUTERMOST + _ODD).diagnoses[0].cause


@pytest.mark.parametrize("said", ["KeyboardInterrupt", "KeyboardInterrupt: ", "KeyError: 7"])
def test_who_stopped_a_run_and_began_it_anew_left_no_error_behind(
    tmp_path: Path, said: str
) -> None:
    head = "loading the settings of lumen\nlumen fits this version of them\n"
    stopped = head + "no lens was found\n" + _raised(said)
    report = report_of(tmp_path, stopped + head + "a lens was found\nit is asked for light\n")
    assert report.failed is (said == "KeyError: 7")
