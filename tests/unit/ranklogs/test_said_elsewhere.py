"""What an exception, a library or a stack says in lines other than the one that ends a program."""

from pathlib import Path

import pytest

from builders.ranklogs import report_of

_STEPS = "".join(f"step {n} of 40: loss {2.4 - n / 100:.2f}\n" for n in range(30))
_RULE = "-" * 22
_RAISED = (
    'Traceback (most recent call last):\n  File "/job/train.py", line 9, in main\n    exe.run()\n'
    "paddle.fluid.core.EnforceNotMet: \n\n"
)
_C_STACK = f"{_RULE}\nC++ Traceback (most recent call last):\n{_RULE}\n0   lumen::Op::Run()\n\n"
_SUMMARY = f"{_RULE}\nError Message Summary:\n{_RULE}\n"
_TOLD = "ExternalError:  Cuda error(719), unspecified launch failure.\n"


@pytest.mark.parametrize("above", ["", _STEPS])
def test_a_summary_below_a_stack_of_cpp_is_what_its_exception_says(
    tmp_path: Path, above: str
) -> None:
    report = report_of(tmp_path, above + _RAISED + _C_STACK + _SUMMARY + _TOLD)
    told = report.body["tracebacks"]
    assert [one["exception"] for one in told] == ["paddle.fluid.core.EnforceNotMet"]
    assert told[0]["message"] == _TOLD.strip()


def test_a_summary_is_of_no_exception_that_has_words_of_its_own(tmp_path: Path) -> None:
    raised = _RAISED.replace("Met: ", "Met: no kernel")
    told = report_of(tmp_path, raised + _SUMMARY + "(lumen had more)\n").body["tracebacks"]
    assert [one["message"] for one in told] == ["no kernel"]


@pytest.mark.parametrize(
    ("signal", "named"), [("SIGBUS", "Bus error"), ("SIGTERM", "Termination signal")]
)
def test_paddles_word_on_a_signal_is_no_exception(tmp_path: Path, signal: str, named: str) -> None:
    head = _STEPS + _C_STACK + _SUMMARY
    said = f"FatalError: `{named}` is detected by the operating system.\n"
    info = f"  [SignalInfo: *** {signal} (@0x7f) received by PID 71 (TID 0x7f) from PID 9 ***]\n"
    report = report_of(tmp_path, head + said + info)
    assert report.failed
    assert report.body["first_failure"]["what"].startswith(f"{signal}: (@0x7f) received by PID 71")
    assert report.body["first_failure"]["what"].endswith("from PID 9")


_MPI = (
    "[n1:4711] *** An error occurred in MPI_Isend\n"
    "[n1:4711] *** reported by process [1564344321,1]\n"
    "[n1:4711] *** on communicator MPI_COMM_WORLD\n"
    "[n1:4711] *** MPI_ERR_OTHER: known error not in list\n"
    "[n1:4711] *** MPI_ERRORS_ARE_FATAL (processes in this communicator will now abort,\n"
)
_UCX = (
    "[1767323045.001] [n1:{pid}:0]  lumen_md.c:3  UCX  ERROR ibv_reg_mr() failed: no memory\n"
    "[1767323045.000002] [n1:{pid}:0]   lumen_rq.c:5  UCX  ERROR the request is gone\n"
    "[n1:{pid}] pml_lumen.c:8  Error: send failed\n"
)


@pytest.mark.parametrize(("pid", "told"), [(4711, True), (4712, False)])
def test_why_a_call_of_mpi_failed_stands_above_in_its_process(
    tmp_path: Path, pid: int, told: bool
) -> None:
    what = report_of(tmp_path, _UCX.format(pid=pid) + _MPI).body["first_failure"]["what"]
    assert ("failed: no memory; known" in what) is told
    assert "in MPI_Isend" in what


_GDB = "[New LWP 4711]\n[Thread debugging using libthread_db enabled]\n"
_NATIVE = "WARNING: Using native backtrace. Set GGML_BACKTRACE_LLDB for more info.\n"


@pytest.mark.parametrize("head", [_GDB, _NATIVE])
def test_a_stack_that_a_program_prints_goes_on_with_its_error(tmp_path: Path, head: str) -> None:
    frames = "".join(
        f"{n}   liblumen.0.9.dylib      0x000000010579936c lumen_{n} + {n}76\n" for n in range(3)
    )
    report = report_of(tmp_path, f"{_STEPS}error: CUDA out of memory\n{head}{frames}")
    assert report.failed
    assert report.diagnoses[0].evidence[0].where.endswith(":31")


def test_an_address_and_a_cut_stack_below_it_are_an_end(tmp_path: Path) -> None:
    text = (
        "[n1:4711] Failing at address: 0xb8\n"
        "[n1:4711] [ 0] linux-vdso.so.1(__kernel_rt_sigreturn+0x0)[0xffff97f657c0]\n"
        "[n1:4711] [ 1] /opt/lumen/lib/liblumen.so(_ZN5lumen4OpenE"
    )
    report = report_of(tmp_path, text)
    assert report.failed
    assert report.diagnoses[0].evidence[0].where.endswith(":1")


@pytest.mark.parametrize(
    ("line", "failed"),
    [
        ("Error named symbol not found at line 31 in file /job/lumen.cu", True),
        ("GPUassert: invalid argument lumen.cu 31", True),
        ("nvidia-container-cli: mount error: no such file", True),
        ("2026/01/02 03:04:05 [error] 71#0: the link is gone, error:2, rank:1", True),
        ("no Error was found at line 31 in file lumen.cu", False),
        ("nvidia-container-cli: version 1.17", False),
        ("ERROR: 0.125", False),
    ],
)
def test_an_error_in_a_form_of_its_own_is_the_last_word(
    tmp_path: Path, line: str, failed: bool
) -> None:
    assert report_of(tmp_path, f"{_STEPS}{line}\n").failed is failed


@pytest.mark.parametrize(
    ("last", "failed"),
    [
        ("[Convert] Writing 71 bytes to lumen.ipynb", False),
        ("[Convert] Reading lumen.ipynb", True),
        ("[Convert] Writing 71 bytes to lumen.ipynb\nfatal: no disk", True),
    ],
)
def test_what_a_tool_wrote_at_last_it_wrote_behind_its_errors(
    tmp_path: Path, last: str, failed: bool
) -> None:
    text = f"on branch lumen\nfatal: no name could be read\n[Convert] begins\n{last}\n"
    assert report_of(tmp_path, text).failed is failed


_BAR = "".join(
    f" {n}0%|{'#' * n}{' ' * (9 - n)}| {n}/10 [00:{n}0<01:00, 9.8s/it]\n" for n in range(9)
)
_HEADLESS = (
    '  File "/job/train.py", line 9, in <module>\n    main()\n'
    '  File "/job/train.py", line 5, in main\n    step()\n'
)


def test_a_traceback_whose_head_a_bar_was_drawn_over_is_one(tmp_path: Path) -> None:
    report = report_of(tmp_path, f"{_BAR}{_HEADLESS}ValueError: no shard\n")
    assert report.body["first_failure"]["what"] == "ValueError: no shard"
    assert [one["function"] for one in report.body["tracebacks"][0]["frames"]] == [
        "<module>",
        "main",
    ]
    assert "above" not in report.diagnoses[0].cause


@pytest.mark.parametrize(
    "behind",
    [
        "step 3 is next\nValueError: no shard\nstep 4 is next\n",
        "Note: the stack was asked for\n",
        "\nValueError: no shard was left\n",
    ],
)
def test_a_stack_that_a_program_shows_is_no_traceback(tmp_path: Path, behind: str) -> None:
    assert not report_of(tmp_path, f"{_BAR}{_HEADLESS}{behind}").body["tracebacks"]


def test_what_ucx_cannot_go_on_from_is_why_its_process_aborted(tmp_path: Path) -> None:
    text = (
        "[n1:4711:0:4712]    lumen.c:31  Fatal: no key came\n==== backtrace ====\n"
        "[n1:4711] *** Process received signal ***\n[n1:4711] Signal: Aborted (6)\n"
        "[n1:4711] Signal code:  (-6)\n"
    )
    what = report_of(tmp_path, text).body["first_failure"]["what"]
    assert what == "UCX: no key came"


_SERVED = (
    "ERROR:    Exception in ASGI application\nTraceback (most recent call last):\n"
    '  File "/venv/uvicorn/protocols/http/h11_impl.py", line 403, in {0}\n    await app()\n'
    '  File "/job/serve.py", line 31, in draw\n    raise ValueError("no such shard")\n'
    "ValueError: no such shard\n"
)
_CLOSED = "INFO:     Shutting down\nINFO:     Application shutdown complete.\n"


@pytest.mark.parametrize(
    ("catches", "behind", "failed"),
    [
        ("run_asgi", _CLOSED, False),
        ("run_asgi", "INFO:     Shutting down\n", True),
        ("run_asgi", "", True),
        ("serve", _CLOSED, True),
    ],
)
def test_what_a_request_raised_ends_no_server_that_closed_in_order(
    tmp_path: Path, catches: str, behind: str, *, failed: bool
) -> None:
    assert report_of(tmp_path, f"{_STEPS}{_SERVED.format(catches)}{behind}").failed is failed


def test_the_rows_of_a_table_are_no_services(tmp_path: Path) -> None:
    words = ("a", "Lost", "E", "in", "Error", "the") * 5
    rows = "".join(f"{n:<6} | {word:<12} | N/A\n" for n, word in enumerate(words * 2))
    report = report_of(tmp_path, f"{rows}--- end of the table ---\n")
    assert not report.failed
    assert len(report.body["ranks"]) == 1


def test_a_group_from_which_its_own_exception_was_raised_again_is_told_once(tmp_path: Path) -> None:
    frame = '  File "/job/a.py", line 3, in <module>\n'
    text = (
        f"  + Exception Group Traceback (most recent call last):\n  |{frame}"
        "  | ExceptionGroup: unhandled errors (1 sub-exception)\n"
        "  +-+---------------- 1 ----------------\n    | Traceback (most recent call last):\n"
        f"    |{frame}    | ValueError: no shard\n    +------------------------------------\n\n"
        "During handling of the above exception, another exception occurred:\n\n"
        f"Traceback (most recent call last):\n{frame}ValueError: no shard\n"
    )
    assert report_of(tmp_path, text).body["first_failure"]["what"] == "ValueError: no shard"


@pytest.mark.parametrize("number", [1, 2, 15])
def test_an_agent_that_could_not_log_its_signal_was_told_to_end_by_it(
    tmp_path: Path, number: int
) -> None:
    text = (
        f"{_STEPS}--- Logging error ---\nOSError: [Errno 5] Input/output error\n"
        "Message: 'Received %s death signal, shutting down workers'\n"
        'Traceback (most recent call last):\n  File "/venv/bin/torchrun", line 8, in <module>\n'
        "    sys.exit(main())\ntorch.distributed.elastic.multiprocessing.api.SignalException: "
        f"Process 4711 got signal: {number}\n"
    )
    assert [one.id for one in report_of(tmp_path, text).diagnoses] == ["stopped_from_outside"]


def test_an_agent_that_crashed_was_not_told_to_end(tmp_path: Path) -> None:
    text = (
        f"{_STEPS}torch.distributed.elastic.multiprocessing.api.SignalException: "
        "Process 4711 got signal: 11\n"
    )
    ids = [one.id for one in report_of(tmp_path, text).diagnoses]
    assert ids != ["stopped_from_outside"]


_TIMED = "[2026-01-02 03:04:05{}] Watchdog timeout (self.watchdog_timeout=300)\n"
_QUIT = "[2026-01-02 03:04:09] Received sigquit from a child process. It may have failed.\n"


@pytest.mark.parametrize("ranks", [[""], [" TP0", " TP1"]])
def test_a_server_that_kills_itself_for_a_watchdog_was_not_killed_for_memory(
    tmp_path: Path, ranks: list[str]
) -> None:
    told = "".join(map(_TIMED.format, ranks))
    report = report_of(tmp_path, f"{_STEPS}{told}{_QUIT}Killed\n")
    assert report.failed
    assert "SIGKILL" not in report.verdict
    assert "Watchdog timeout" in str(report.body)


def test_a_server_that_somebody_else_killed_was_killed(tmp_path: Path) -> None:
    assert (
        "SIGKILL" in report_of(tmp_path, f"{_STEPS}[2026-01-02 03:04:05] serves\nKilled\n").verdict
    )
