"""Short pieces of logs: what their lines say of an end, of other ranks, and of a traceback."""

from pathlib import Path

import pytest

from builders.prose import Prose
from builders.ranklogs import report_of

_WAITS = (
    "[rank{rank}]:[E1121 02:03:32.000000 ProcessGroupNCCL.cpp:607] [Rank {named}] Watchdog caught "
    "collective operation timeout: WorkNCCL(SeqNum={number}, OpType=ALLREDUCE, NumelIn={size}, "
    "NumelOut={size}, Timeout(ms)=600000) ran for 600080 milliseconds before timing out.\n"
)
_STEPS = "".join(f"INFO:lumen:step {n} of 40\n" for n in range(9))

_PARTS = "".join(f"INFO lumen: {c}{c} is there\n" for c in "abcdefghijklmnopqrstuvwxyz")

_CANCELS = "".join(f"INFO lumen: cancelling worker a1b2c{n}d4e5f6\n" for n in range(4))
_FATAL = "CRITICAL lumen: got a fatal signal\n"
_LATE = "[rank3] Watchdog caught collective operation timeout:\nWorkNCCL(SeqNum=6, OpType=SEND)\n"

_BEATS = "".join(f"INFO: {word} the pool\n" for word in ("asked", "swept", "left"))
_SHUTS = "INFO lumen: shutting down\nINFO lumen: the link is closed\n"
_SHUT = "INFO lumen: server shutdown\nINFO lumen: files are closed\nINFO lumen: server is closed\n"
_WARNS = "".join(f"a.cc:{n}:3: warning: the error of 'f' is lost [-Wx]\n" for n in range(9))
_ASK = "Look at the names.\nIt may help to try:\n  lum avail\nAsk whoever runs it\nor read on.\n"

_CONDA = "CondaError: Run 'conda init' before 'conda "


@pytest.mark.parametrize(
    ("text", "failed"),
    [
        ("lumen.cc:31 device error, the error code is 5071.\n", True),
        ("lumen.cc:31 errors so far: 0\n", False),
        ("How do I get rid of the error with eight workers?\n", False),
        ("I got this error with eight workers\nand went on\n", False),
        ("Phase I got an error with eight workers\n", True),
        ("error: no such link, is it up?\n", True),
        ("LX04: the wait for the link's mark times out. It never came.\n", True),
        ("the limit was exceeded; it can be raised by using LUMEN_LIMIT\n", True),
        ("no plug-in was found: using the internal one\n", False),
        (_STEPS + "INFO:lumen:on exit: lame hosts found: Beat(node3)\n", True),
        (_STEPS + "INFO:lumen:lame hosts: none\n", False),
        (_STEPS + "Training completed in 3 h\nwandb: ERROR Dropped streaming file chunk\n", False),
        (_STEPS + "wandb: ERROR Dropped streaming file chunk\n", True),
        (_STEPS + "Training completed in 3 h\nlumen: ERROR cannot write the model\n", True),
        ("-- Performing Test HAVE_LUMEN - Failed\n[100%] Built target lumen\n", False),
        ("-- Performing Test HAVE_LUMEN - Failed\nCMake Error at a.cmake:3 (message):\n", True),
        ("rank is up\n2026:01:02-03:04:05:(9) |CCL_WARN| could not get the count\n", False),
        ("rank is up\n2026:01:02-03:04:05:(9) |CCL_ERROR| could not get the count\n", True),
        ("".join(f"[{n:2}] /lib/lumen.so(+0x7{n})[0x7f5a6c0b6b{n}]\n" for n in (9, 10, 11)), True),
        ("ERROR:lumen:no model\n" + "INFO:lumen:the model is there\n" * 9, False),
        ("ERROR:lumen:no model\n" + "INFO:lumen:the model is there\n" * 3, True),
        ("| epoch 003 | loss 3.97 | loss_scale 0.000 |\n", False),
        ("  Ready: True\n  Liveness: http-get :8080 timeout=3s #success=1 #failure=3\n", False),
        ("  Ready: False\n  Warning  Unhealthy: Liveness probe failed\n", True),
        (f"{_CONDA}activate'\nUserWarning: a bar\n{_CONDA}deactivate'\n", False),
        (f"UserWarning: a bar\n{_CONDA}activate'\n", True),
        (f"{_CONDA}activate'\n{_CONDA}activate'\n", True),
        ("x: lumen: command not found\nUserWarning: a\nx: lum: command not found\n", True),
        (_CANCELS + _FATAL + _CANCELS.replace("d4", "d5"), True),
        (_STEPS + _FATAL + _STEPS.replace("step ", "step 1"), False),
        (_PARTS + _LATE, True),
        (_PARTS + _LATE.replace("caught", "minds every"), False),
        (_STEPS + "^C\n", True),
        (_STEPS + "# Received cancellation signal, interrupting\n", True),
        (_STEPS + "# Waits for a cancellation signal\n", False),
        ("INFO:tf:Error reported to Coordinator: <class 'tf.UnavailableError'>, EOF\n", True),
        ("INFO:tf:Error reported to Coordinator: <class 'tf.OutOfRangeError'>, end\n", False),
        (_STEPS + "rm: cannot remove 'out/*': No such file or directory\n", False),
        (_STEPS + "rm: cannot remove 'out/*': Input/output error\n", True),
        ("LumenError: no room\nrm: cannot remove 'out/*': No such file or directory\n", True),
        (_STEPS + "all done\n^C\n", False),
        (_STEPS + "^CINFO: shutting down\nINFO: Application shutdown complete.\n", False),
        ('{"level":"ERROR","message":"no link (os error 2)"}\n', True),
        ('{"level":"INFO","message":"no link (os error 2)"}\n', False),
        ("job 71.head has exceeded its walltime limit\n", True),
        ("[n1:4711:0:4711] ib_mlx5_log.c:171  no answer on mlx5_0:1/IB\n", True),
        ("[1767323045.1] [n1:4711:0] ib_mlx5_log.c:171 UCX  DEBUG no answer\n", False),
        (_PARTS + _BEATS + "INFO: <-- lost: lum.LumenException: no link\n" + _BEATS, False),
        (_PARTS + _BEATS + "ERROR: <-- lost: lum.LumenException: no link\n" + _BEATS, True),
        (_PARTS + _BEATS + "INFO: <-- lost: lum.LumenException: no link\nINFO: a part\n", True),
        ("slurmstepd: error: task/cgroup: no mask for task[0]\nlumen is here\n", False),
        ("slurmstepd: error: mpi/lum: no mask for task[0]\nlumen is here\n", True),
        ("AddressSanitizer:DEADLYSIGNAL\n==71==ABORTING\n", True),
        (_STEPS + "==71==WARNING: MemorySanitizer: use-of-uninitialized-value\nExiting\n", True),
        (_STEPS + "==71== ERROR SUMMARY: 0 errors from 0 contexts (suppressed: 0 from 0)\n", False),
        (_STEPS + "==71== ERROR SUMMARY: 2 errors from 1 contexts (suppressed: 0 from 0)\n", True),
        (_PARTS + "a.cc:5:3: runtime error: shift by 71 is too large\n    #0 0x4a in f\n", True),
        ("a.cc:5:3: runtime error: shift by 71 is too large\n" + _STEPS, False),
        (_PARTS + "quit code seven\n    #0 0x7f1e2d in f a.cc:5\n    #1 0x7f1e2e in main\n", True),
        (_PARTS + "quit code seven\n f+0x1a/0x30 [lumen]\n run+0x4/0x9 [lumen]\nr8: 0000\n", True),
        (_PARTS + "lumen!run\n0012ff7c 00401a2b lumen!main+0x1b\n0012ff80 004 lumen!a+0x2\n", True),
        (_PARTS + "masks of a part\nfirst 0x1a2b3c4d\nlast 0x1a2b3c4e\n", False),
        (_PARTS + "\tlumen.cc [0x00401A2B]\n\tlumen.cc [0x00401A2C]\n" + _STEPS, False),
        ("a.cc:5:3: error: no rank\n" + _WARNS, True),
        (_WARNS + "    0 Error(s)\nTime Elapsed 00:00:06.02\n", False),
        (_WARNS + "    2 Error(s)\nTime Elapsed 00:00:06.02\n", True),
        (_PARTS + "lnk: returned 1 exit status\n", True),
        ("Lum has detected the following error: no module\n'lum/3'\n\n" + _ASK, True),
        (_PARTS + "libl.so 00001534C199F310 lum Unknown Unknown\n" * 2, True),
        (
            _PARTS + "lum at /lum/gf.c:2322\n_start at ./client.jl:4\nAllocations: 7 (Pool: 4)\n",
            True,
        ),
        (_PARTS + "\nError in lum (line 113)\n   = lum(t);\nError in run (line 4)\n", True),
        (_PARTS + "a:3:in 'lum': Lum\n\tfrom a:9:in 'b'\n\tfrom a:1:in '<main>'\n", True),
        (_PARTS + "7f1e2d000000-7f1e2d021000 rw-p 00000000 00:00 0\n" * 3, True),
        (_PARTS + "STOP 3\n", True),
        (_PARTS + "It has unexpectedly come to a halt.\n", True),
        ("It unexpectedly was slow.\n" + _STEPS, False),
        ("INFO:lumen:a\nCRITICAL:lumen:Begin\nINFO:lumen:Finetuning done!\n", False),
        ("INFO:lumen:a\nCRITICAL:lumen:Begin\nINFO:lumen:parts are there\n", True),
        (_STEPS + "no job exceeded a walltime here\n", False),
        ("reducing loss scale to 0.0\n", True),
        (
            _PARTS
            + "ERROR lumen: TokenError: no words\nWARN lumen: falling back to the plain one\n"
            "INFO lumen: port 80\n",
            False,
        ),
        (_PARTS + "It failed to solve that. Falling back to the plain one.\n[1, 2]\n", False),
        (_PARTS + "It failed to solve that. All was tried.\n[1, 2]\n", True),
        (_SHUTS + "ERROR lumen: cannot flush\n" + _SHUT, False),
        ("ERROR lumen: cannot flush\n" + _SHUTS + _SHUT, True),
        (_SHUTS.replace("INFO lumen:", "WARN LumenError:", 1) + "ERROR lumen: no\n" + _SHUT, True),
        ("CRASH: 2026-01-02 03:04:05\n", True),
        ("START: 2026-01-02 03:04:05\n", False),
        (
            _PARTS + "ERROR lumen: TokenError: no words\nWARN lumen: nothing to fall back on\n"
            "INFO lumen: port 80\n",
            True,
        ),
    ],
)
def test_no_failure_is_said_of_calm_pieces_alone(tmp_path: Path, text: str, failed: bool) -> None:
    assert report_of(tmp_path, text).failed is failed


@pytest.mark.parametrize(
    "line", ["Job 'train-71' succeeded", "[INFO] - >>> Pipeline Complete. Shutting down."]
)
def test_a_job_that_is_said_to_have_succeeded_is_done(
    tmp_path: Path, line: str, prose: Prose
) -> None:
    prose(report_of(tmp_path, _STEPS + line + "\n").verdict)


@pytest.mark.parametrize(
    "above", ["save failed (3/3): [Errno 28] No space left on device", "it is slow"]
)
def test_why_somebody_gives_up_is_told(tmp_path: Path, above: str) -> None:
    told = report_of(tmp_path, f"step 3\n{above}\ngiving up\n").diagnoses[0].evidence[0].where
    assert told.endswith(":2" if "Errno" in above else ":3")


def test_what_holds_memory_stands_below_the_error(tmp_path: Path) -> None:
    said = "XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 7 B."
    rows = "BufferAssignment stats:\n             parameter allocation:   71.00MiB\nPeak buffers:\n"
    report = report_of(tmp_path, f"{said}\n{rows}\tBuffer 1:\n\t\tOperator: op_name=x\n")
    assert report.body["decided_by"] == "last words"


def test_of_a_message_the_line_where_it_begins_is_told(tmp_path: Path) -> None:
    text = "LX04: the wait for the link times out.\n    Possible cause: an exception at a peer\n"
    assert report_of(tmp_path, text).diagnoses[0].evidence[0].where.endswith(":1")


def test_what_a_program_had_still_to_print_is_no_exception(tmp_path: Path) -> None:
    text = (
        "Traceback (most recent call last):\n"
        "Step: 99 (0) | Loss: 1.26\nStep: 199 (0) | Loss: 0.61\n"
        '  File "train.py", line 3, in <module>\n    f()\n'
        "LumenError: no room\n"
    )
    assert report_of(tmp_path, text).verdict.startswith("LumenError: no room")


def test_a_rank_of_a_group_is_not_one_of_all(tmp_path: Path) -> None:
    waits = _WAITS.format(rank=10, named=1, number=1, size=1)
    [found] = report_of(tmp_path, waits).diagnoses
    assert found.id == "only_victims"
    assert "silent" not in found.title


def test_two_watchdogs_that_wait_in_works_of_other_sizes_are_compared(tmp_path: Path) -> None:
    both = [
        _WAITS.format(rank=rank, named=rank, number=n, size=s)
        for rank, n, s in ((0, 1516, 254), (1, 1517, 1))
    ]
    assert report_of(tmp_path, "".join(both)).diagnoses[0].id == "undecided_mismatch"
    same = _WAITS.format(rank=1, named=1, number=1517, size=254)
    assert report_of(tmp_path, both[0] + same).diagnoses[0].id == "only_victims"


def test_a_named_process_is_the_rank_that_its_watchdog_says(tmp_path: Path) -> None:
    both = [
        _WAITS.format(rank=0, named=rank, number=n, size=n).replace("[rank0]:", name)
        for rank, n, name in ((1, 1516, "(Lumen pid=71) "), (0, 1517, ""))
    ]
    assert report_of(tmp_path, "".join(both)).diagnoses[0].id == "undecided_mismatch"
    of_group = both[0].replace("[E1", "[rank4]:[E1")
    assert report_of(tmp_path, of_group).body["candidates"][0]["rank"] == 4  # type: ignore[index]


def test_tasks_below_the_word_on_their_heartbeats_are_named(tmp_path: Path) -> None:
    tasks = "".join(f"/job:jax_worker/replica:0/task:{n}\n" for n in (7, 3))
    word = (
        "F0920 10:12:44.654663   17682 client.h:75] Terminating process because the JAX distributed"
        " service detected fatal errors. absl::Status: UNAVAILABLE: The following tasks are"
        " unhealthy (stopped sending heartbeats):\n"
    )
    first = report_of(tmp_path, word + tasks).body["first_failure"]
    assert isinstance(first, dict)
    assert first["ranks"] == [3, 7]
    apart = report_of(tmp_path, word + "the list:\n" + tasks).body["first_failure"]
    assert not isinstance(apart, dict) or "ranks" not in apart


def test_an_error_that_is_whole_above_a_cut_traceback_is_the_answer(tmp_path: Path) -> None:
    said = "Exception in device=TPU:6: Failed precondition: the link is not open\n"
    cut = 'Traceback (most recent call last):\n  File "t.py", line 3, in f\n    g()\n'
    assert "the link is not open" in report_of(tmp_path, f"{said}0 tasks left\n{cut}").verdict
    assert "cut off" in report_of(tmp_path, f"{said}{_STEPS}{cut}").verdict


def test_an_error_is_told_in_place_of_a_traceback_that_is_cut_at_its_head(tmp_path: Path) -> None:
    cut = 'Traceback (most recent call last):\n  File "a.py", line 3, i\n'
    said = "[critical] lumen.core.Error: no core is left\nError raised in:\n  [0] a::b\n\n\n"
    assert "no core is left" in report_of(tmp_path, _PARTS + said + cut).verdict


def test_why_a_container_could_not_start_is_told_for_the_wait_that_ends_with_it(
    tmp_path: Path,
) -> None:
    text = (
        "docker: Error response from daemon: OCI runtime create failed: running hook #0: exit "
        "status 1, stdout: , stderr: no lumen is there: unknown.\n"
        "ERRO[0000] error waiting for container: context canceled \n"
    )
    assert report_of(tmp_path, text).verdict.startswith("docker: ")


def test_of_what_is_announced_before_a_blank_the_next_line_is_told(tmp_path: Path) -> None:
    assert "lumen=10" in report_of(tmp_path, "ResolvePackageNotFound: \n  - lumen=10\n").verdict


def test_a_traceback_within_a_string_is_a_message(tmp_path: Path) -> None:
    within = "LumenError: 'a worker raised:\\nTraceback (most recent call last):\\n  File \\n'\n"
    frames = 'Traceback (most recent call last):\n  File "a.py", line 3, in <module>\n    g()\n'
    assert report_of(tmp_path, frames + within).verdict.startswith("LumenError: 'a worker raised:")


def test_a_local_rank_is_told_where_the_rank_is_not_known(tmp_path: Path) -> None:
    agent = "WARNING:torch.distributed.elastic.multiprocessing.api:"
    ends = "".join(f"{agent}Sending process {n} closing signal SIGTERM\n" for n in (4709, 4710))
    failed = "failed (exitcode: -9) local_rank: 3 (pid: 4711) of binary: /usr/bin/python\n"
    assert "local rank 3" in report_of(tmp_path, f"{ends}{agent}{failed}").verdict


_BAR = " 11%|#         | 32/310 [00:57<49:56,  4.92s/it, loss=[0.1, 0.2]]"


@pytest.mark.parametrize(
    ("behind", "rule"),
    [
        ("malloc(): corrupted top size", "rank_crashed"),
        (
            "free(): invalid pointer\n 12%|#         | 33/310 [01:02<49:51,  4.91s/it]",
            "rank_crashed",
        ),
        ("Terminated", "stopped_from_outside"),
    ],
)
def test_what_others_write_behind_a_bar_is_a_line(tmp_path: Path, behind: str, rule: str) -> None:
    assert [one.id for one in report_of(tmp_path, f"{_BAR}{behind}\n").diagnoses] == [rule]


@pytest.mark.parametrize("line", [_BAR, f"{_BAR} epoch 3", "m [3<4] malloc(): is fast [a<b, c]x"])
def test_a_bar_with_calm_words_is_no_failure(tmp_path: Path, line: str) -> None:
    assert not report_of(tmp_path, line + "\n").failed


_STACK = (
    " 0  /opt/lumen/lib/liblink.so.0(link_handle_error+0x2dc) [0x7f5a6c0b6bdc]\n"
    " 1  /lib/x86_64-linux-gnu/libc.so.6(+0x43090) [0x7f5a7c0b6bdc]\n"
    " 2  /opt/lumen/lib/liblumen.so(step+0x1f) [0x7f5a7c0b6bdc]\n"
)


@pytest.mark.parametrize("prefix", ["", "worker-0: ", "[trainer-3] ", "rank:  3 | "])
def test_a_prefix_of_native_frames_is_none_of_theirs(tmp_path: Path, prefix: str) -> None:
    lines = ["step 12", *_STACK.splitlines(), "====="]
    report = report_of(tmp_path, "".join(f"{prefix}{line}\n" for line in lines))
    assert "0 /opt/lumen/lib/liblink.so.0(" in report.verdict


@pytest.mark.parametrize(
    ("said", "rule"),
    [
        ("severe (174): SIGSEGV, segmentation fault occurred", "rank_crashed"),
        ("error (73): floating divide by zero", "rank_crashed"),
        ("error (200): program aborting due to window-CLOSE event", "stopped_from_outside"),
    ],
)
def test_what_ended_a_program_of_fortran_is_told(tmp_path: Path, said: str, rule: str) -> None:
    stack = "Image    PC        Routine  Line  Source\nlumen.x  00408B22  MAIN__   31    m.f90\n"
    report = report_of(tmp_path, f" step 12\nforrtl: {said}\n{stack}")
    assert [one.id for one in report.diagnoses] == [rule], report.verdict


def test_a_state_that_says_why_is_told_in_place_of_a_code(tmp_path: Path) -> None:
    text = "job 71 begins\nJob 71 is over (status: FAILED_SETUP).\nended with exit code 100\n"
    assert "FAILED_SETUP" in report_of(tmp_path, text).verdict
    assert "code 100" in report_of(tmp_path, text.replace("_SETUP", "")).verdict


@pytest.mark.parametrize(
    ("state", "rules"),
    [
        ("CANCELLED+", ["stopped_from_outside"]),
        ("COMPLETED", []),
        ("TIMEOUT", ["stopped_from_outside"]),
    ],
)
def test_a_table_without_codes_tells_how_a_job_ended(
    tmp_path: Path, state: str, rules: list[str]
) -> None:
    row = f"      812 train-57+   lumen        n7       gpu {state} 2026-01-02T03:04:05\n"
    assert [one.id for one in report_of(tmp_path, row).diagnoses] == rules


@pytest.mark.parametrize(
    ("above", "told"),
    [
        ("[/build/lumen/link/uv.h:596] accept: invalid argument", True),
        ("step 12 of 40: loss 2.31", False),
        ("INFO lumen: the link is up", False),
    ],
)
def test_what_stands_above_an_abort_is_told_with_it(tmp_path: Path, above: str, told: bool) -> None:
    dump = (
        "*** SIGABRT received at time=1734086759 ***\n"
        "PC: @        0x19ea96600  (unknown)  __pthread_kill\n"
        "    @        0x1046b6bf0  (unknown)  absl::lts_20230125::WriteFailureInfo()\n"
    )
    verdict = report_of(tmp_path, f"{above}\n{dump}").verdict
    assert ("before it: " + above.replace("/build/lumen/link/", "") in verdict) is told, verdict


def test_of_what_a_shell_says_of_a_script_the_first_word_is_told(tmp_path: Path) -> None:
    text = "a.sh: line 9: syntax error near unexpected token `lum'\na.sh: line 9: `lum (7)'\n"
    verdict = report_of(tmp_path, _PARTS + text + "a.sh: line 9: END: command not found\n").verdict
    assert "near unexpected token `lum'" in verdict


@pytest.mark.parametrize("said", ["lum: permission denied to reach it", "lum: is here with it"])
def test_of_an_error_and_advice_below_it_the_error_is_told(tmp_path: Path, said: str) -> None:
    text = f"all parts are there now\n{said}\n\nRun 'lum --help' to read on\n"
    end = "##[error]Process completed with exit code 126.\n"
    verdict = report_of(tmp_path, _PARTS + text + end).verdict
    assert (said in verdict) is ("denied" in said), verdict


def test_of_warnings_on_a_pod_the_one_that_comes_again_is_told(tmp_path: Path) -> None:
    events = (
        "  Warning  FailedScheduling  30m  default-scheduler  pod lumen-0 is there twice\n"
        "  Warning  Failed  {} kubelet  Error: no plug-in of lumen answers\n"
    )
    for again, told in ("2m (x12 over 30m)", "plug-in"), ("2m", "there twice"):
        assert told in report_of(tmp_path, events.format(again)).verdict
        refused = "  Warning  UnexpectedAdmissionError  31m  kubelet  no device of lumen is left\n"
        assert "no device" in report_of(tmp_path, refused + events.format(again)).verdict


@pytest.mark.parametrize("said", ["lost communication", "a long way to go"])
def test_of_a_box_about_a_lost_daemon_its_head_is_told(tmp_path: Path, said: str) -> None:
    box = (
        f"ORTE has {said} with a remote daemon.\n\n  Remote daemon: [[71,0],1] on node n2\n\n"
        "This is due to a failure of the link, or possibly of\n"
        "the daemon itself. We cannot recover from this failure, and\nwill end the job.\n"
    )
    evidence = report_of(tmp_path, _PARTS + box).diagnoses[0].evidence
    assert evidence[0].what.startswith("ORTE has lost") is ("lost" in said)


_CI = (
    "{time} ##[group]Run pytest\n"
    "{time} E   TypeError: no shard\n"
    "{time} =================== short test summary info ===================\n"
    "{time} FAILED tests/test_step.py::test_step - TypeError: no shard\n"
    "{time} ================= 1 failed, 2 passed in 3.1s =================\n"
    "{time} ##[{mark}]Process completed with exit code {code}.\n"
    "{time} ##[group]Run actions/upload-artifact@v4\n"
    + "".join(f"{{time}} Uploaded bytes {n}\n" for n in range(100, 1300, 100))
    + "{time} the artifact was uploaded\n{time} Post job cleanup.\n"
)


@pytest.mark.parametrize(("mark", "failed"), [("error", True), ("warning", False)])
def test_steps_behind_a_failed_one_undo_it_not(tmp_path: Path, mark: str, failed: bool) -> None:
    text = _CI.format(time="2026-01-02T03:04:05.6492134Z", mark=mark, code=1)
    assert report_of(tmp_path, text).failed is failed


def test_of_a_cancelled_job_and_one_that_failed_the_failed_one_is_told(tmp_path: Path) -> None:
    time = "2026-01-02T03:04:05.6492134Z"
    over = f"{time} ##[error]The operation was canceled.\n{time} the tree is clean\n"
    report = report_of(tmp_path, _CI.format(time=time, mark="error", code=1) + over)
    assert report.failed
    assert "canceled" not in report.verdict


_PINS = (
    "Exception in thread Thread-1 (pins):\n"
    "Traceback (most recent call last):\n"
    '  File "/usr/lib/python3.11/threading.py", line 1038, in _bootstrap_inner\n'
    "    self.run()\n"
    '  File "/job/pins.py", line 25, in pins\n'
)


def test_a_cut_traceback_of_a_thread_undoes_no_good_end(tmp_path: Path) -> None:
    done = "Training of experiment is done and the best score is 52.8\n"
    assert not report_of(tmp_path, _STEPS + done + _PINS).failed
    assert report_of(tmp_path, _STEPS + _PINS).failed


def test_threads_that_lose_their_peers_explain_no_interrupt(tmp_path: Path) -> None:
    lost = _PINS + "    r.get()\nConnectionResetError: [Errno 104] Connection reset by peer\n"
    word = "lumen - Keyboard interruption. Leaving the loop\n"
    after = "lumen - it took 00:09:17\n"
    [found] = report_of(tmp_path, _STEPS + lost + "step 10 of 40\n" + word + after).diagnoses
    assert found.id == "stopped_from_outside"
    assert report_of(tmp_path, _STEPS + lost).diagnoses[0].id != "stopped_from_outside"


def test_the_folder_of_the_file_that_a_full_disk_refused_is_filled_in(tmp_path: Path) -> None:
    said = "OSError: [Errno 28] No space left on device"
    head = 'Traceback (most recent call last):\n  File "lumen.py", line 3, in <module>\n'
    named = report_of(tmp_path, f"{head}{said}: '/shards/run 1/a.pt'\n").diagnoses[0].next_steps
    assert any("df -h '/shards/run 1'" in one for one in named)
    assert any(
        "FOLDER" in one for one in report_of(tmp_path, f"{head}{said}\n").diagnoses[0].next_steps
    )


@pytest.mark.parametrize(
    ("thrown", "crashed"), [("c10::DistBackendError", False), ("c10::Error", True)]
)
def test_what_a_watchdog_throws_is_no_crash_of_its_own(
    tmp_path: Path, thrown: str, crashed: bool
) -> None:
    waits = _WAITS.format(rank=0, named=0, number=7, size=4)
    report = report_of(
        tmp_path, f"{waits}terminate called after throwing an instance of '{thrown}'\n"
    )
    assert (report.body["first_failure"] is not None) is crashed
