"""Errors whose words leave open what they mean, or whose they are: a frame or a name tells."""

from pathlib import Path

import pytest

from builders.ranklogs import raised_first, report_of
from postmortem.analyses.ranklogs import RankLogOptions, analyse
from postmortem.diagnose.ranks.phrases import known_match
from postmortem.facts.confidence import Confidence
from postmortem.facts.rank_logs import ExceptionText, LogFailure, LogFrame
from postmortem.facts.signature import Match

LOST = "RuntimeError: [pair.cc:553] Connection closed by peer [127.0.0.1]:155."


def raised(rank: int, code: str, error: str, file: str = "/job/train.py") -> str:
    rows = (
        "Traceback (most recent call last):",
        f'  File "{file}", line 7, in step',
        f"    {code}",
    )
    return "".join(f"[rank{rank}]: {row}\n" for row in (*rows, error))


@pytest.mark.parametrize(
    ("code", "first"),
    [
        ("tokenizer.stdin.write(row)", (1, "BrokenPipeError: [Errno 32] Broken pipe")),
        ("self.sock.sendall(row)", None),
    ],
)
def test_a_pipe_that_the_program_writes_to_leads_to_no_rank(
    tmp_path: Path, code: str, first: tuple[int, str] | None
) -> None:
    text = raised(0, "dist.all_reduce(x)", LOST)
    text += raised(1, code, "BrokenPipeError: [Errno 32] Broken pipe")
    assert raised_first(report_of(tmp_path, text)) == first


def test_who_had_no_more_inputs_is_told_by_none_but_itself(tmp_path: Path) -> None:
    error = "RuntimeError: Detected at least one rank that exhausted inputs. Throwing across all."
    text = "".join(raised(rank, "loss = model(x)", error) for rank in (0, 2))
    text += raised(1, "with Join([model]):", "RuntimeError: Rank 1 exhausted all inputs.")
    found = raised_first(report_of(tmp_path, text))
    assert found is not None
    assert found[0] == 1


@pytest.mark.parametrize(("worker", "rank"), [(2, 2), (9, 0)])
def test_what_an_rpc_raised_is_of_the_worker_that_ran_it(
    tmp_path: Path, worker: int, rank: int
) -> None:
    text = raised(0, "job.wait()", f"ValueError: KeyError: On WorkerInfo(id={worker}, name=enc):")
    text += "".join(raised(rank, "rpc.shutdown()", LOST) for rank in (1, 2))
    report = report_of(tmp_path, text)
    found = raised_first(report)
    assert found is not None
    assert found[0] == rank
    assert {row["rank"] for row in report.body["victims"]} == {0, 1, 2} - {rank}


@pytest.mark.parametrize(
    ("function", "sure"), [("rebuild_storage_fd", Confidence.LIKELY), ("step", Confidence.CERTAIN)]
)
def test_a_worker_that_was_gone_when_its_tensor_was_taken_over_is_behind_that(
    tmp_path: Path, function: str, sure: Confidence
) -> None:
    error = "ConnectionResetError: [Errno 104] Connection reset by peer"
    loader = "/v/torch/utils/data/dataloader.py"
    text = raised(0, "dist.all_reduce(x)", LOST)
    text += raised(1, "fd = df.detach()", error, loader).replace("in step", f"in {function}")
    report = report_of(tmp_path, text)
    assert raised_first(report) == (1, error)
    assert report.diagnoses[0].confidence is sure


@pytest.mark.parametrize(
    ("said", "file", "code", "known"),
    [
        ("error-eagain", "/py/subprocess.py", None, "threads-limit"),
        ("error-eagain", "/py/multiprocessing/util.py", "fork_exec(args)", "threads-limit"),
        ("error-eagain", "/job/train.py", "fcntl.flock(f, LOCK_EX | LOCK_NB)", None),
        ("error-einval", "/v/torch/serialization.py", "PyTorchFileReader(x)", "ckpt-central-dir"),
        ("error-einval", "C:\\v\\torch\\serialization.py", None, "ckpt-central-dir"),
        ("error-einval", "/job/train.py", "f.seek(-1)", None),
        ("enospc-log", "/py/multiprocessing/synchronize.py", None, "semlock-enospc"),
        ("enospc-log", "/job/train.py", "f.write(x)", "enospc-log"),
    ],
)
def test_the_innermost_frame_tells_what_the_words_leave_open(
    said: str, file: str, code: str | None, known: str | None
) -> None:
    text = ExceptionText("OSError", "x", (Match(said, {}),))
    failure = LogFailure("exception", text, 0, "a.log", 3, frames=(LogFrame(file, 3, "f", code),))
    found = known_match(failure)
    assert (found and found.id) == known


def test_of_files_without_ranks_the_one_that_ends_with_an_error_of_its_own_is_told(
    tmp_path: Path,
) -> None:
    own, lost = tmp_path / "p0.log", tmp_path / "p1.log"
    own.write_text("step 4\nstep 5\nFATAL: config: the schedule ended before step 6\n")
    lost.write_text(raised(0, "sync()", LOST).replace("[rank0]: ", ""))
    report = analyse([str(own), str(lost)], RankLogOptions())
    assert report.diagnoses[0].id == "last_words"
    assert report.diagnoses[0].evidence[0].where.endswith("p0.log:3")


@pytest.mark.parametrize(
    ("last", "told"), [("quota of project 17 is used up", True), ("step 8 loss 0.08", False)]
)
def test_the_last_line_of_who_left_is_told_where_it_is_none_of_its_work(
    tmp_path: Path, last: str, told: bool
) -> None:
    rows = "".join(f"[default1]:step {n} loss 0.{n}\n" for n in range(8))
    end = "E0102 03:04:06.000000 9 torch/distributed/elastic/multiprocessing/api.py:1002] "
    end += "failed (exitcode: 122) local_rank: 1 (pid: 12) of binary: /usr/bin/python\n"
    told_of = report_of(tmp_path, f"{rows}[default1]:{last}\n{end}").diagnoses[0]
    assert told_of.id == "rank_exited_silently"
    assert (last in told_of.title) is told


@pytest.mark.parametrize(
    ("between", "said"), [("STDERR:", "KeyError: 'a'"), ("SlowShard:", "SlowShard: part 3")]
)
def test_a_heading_below_a_frame_is_no_exception(tmp_path: Path, between: str, said: str) -> None:
    head = 'Traceback (most recent call last):\n  File "/job/train.py", line 7, in step\n    f()\n'
    report = report_of(tmp_path, f"{head}{between}\npart 3\n\n{head}KeyError: 'a'\n")
    assert report.failed
    assert said in report.verdict
