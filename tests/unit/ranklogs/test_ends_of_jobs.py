"""How jobs of many kinds end: clients, cancelled tasks, signals, threads, tools and shells."""

from pathlib import Path

import pytest

from postmortem.analyses.ranklogs import RankLogOptions, analyse
from postmortem.report.model import Outcome, Report

TORCHRUN = (
    "W0102 03:04:05.678000 9 torch/distributed/elastic/multiprocessing/api.py:1028] "
    "Sending process 11 closing signal SIGTERM\n"
    "E0102 03:04:05.900000 9 torch/distributed/elastic/multiprocessing/api.py:1002] "
    "failed (exitcode: {code}) local_rank: {local} (pid: 12) of binary: /usr/bin/python\n"
)
LOST = (
    "[rank0]: Traceback (most recent call last):\n"
    '[rank0]:   File "fit.py", line 5, in <module>\n[rank0]:     dist.all_reduce(t)\n'
    "[rank0]: RuntimeError: [pair.cc:553] Connection closed by peer [127.0.0.1]:59567\n"
)


def _report(folder: Path, text: str) -> Report:
    (folder / "job.log").write_text(text)
    return analyse([str(folder / "job.log")], RankLogOptions())


@pytest.mark.parametrize(
    ("raised", "frame"),
    [
        ("redis.exceptions.ConnectionError: Error 111 connecting to q:6379.", "redis/client.py"),
        ("pymongo.errors.AutoReconnect: connection closed", "pymongo/pool.py"),
    ],
)
def test_a_service_that_refuses_is_no_peer(tmp_path: Path, raised: str, frame: str) -> None:
    text = (
        f'Traceback (most recent call last):\n  File "/lib/{frame}", line 7, in _connect\n'
        "    sock.connect(address)\nConnectionRefusedError: [Errno 111] Connection refused\n\n"
        "During handling of the above exception, another exception occurred:\n\n"
        'Traceback (most recent call last):\n  File "work.py", line 2, in <module>\n'
        f"    take()\n{raised}\n"
    )
    report = _report(tmp_path, text)
    assert report.outcome is Outcome.FAILED
    assert raised in report.diagnoses[0].title


def test_a_database_that_refuses_is_no_peer(tmp_path: Path) -> None:
    line = 'psql: error: connection to server at "db", port 5432 failed: Connection refused'
    report = _report(tmp_path, f"load 3 tables\n{line}\n")
    assert report.diagnoses[0].title == line


def test_a_service_of_grpc_that_refuses_is_no_peer(tmp_path: Path) -> None:
    text = (
        'Traceback (most recent call last):\n  File "fit.py", line 6, in <module>\n'
        "    call(b'x')\ngrpc._channel._InactiveRpcError: <_InactiveRpcError of RPC that terminated"
        ' with:\n\tstatus = StatusCode.UNAVAILABLE\n\tdetails = "failed to connect to all'
        ' addresses; last error: UNKNOWN: ipv4:10.0.0.2:7000: Connection refused"\n>\n'
    )
    assert _report(tmp_path, text).body["decided_by"] == "own exception"


@pytest.mark.parametrize(
    ("then", "decided"), [("TimeoutError", "own exception"), ("KeyboardInterrupt", "stopped")]
)
def test_what_was_raised_for_a_cancelled_task_says_why(
    tmp_path: Path, then: str, decided: str
) -> None:
    text = (
        'Traceback (most recent call last):\n  File "play.py", line 7, in step\n    await reply()\n'
        "asyncio.exceptions.CancelledError\n\n"
        "The above exception was the direct cause of the following exception:\n\n"
        'Traceback (most recent call last):\n  File "play.py", line 9, in <module>\n'
        f"    asyncio.run(main())\n{then}\n"
    )
    assert _report(tmp_path, f"round 1\n{text}").body["decided_by"] == decided


@pytest.mark.parametrize(
    ("code", "signal", "core"),
    [(-12, "SIGUSR2", False), (-24, "SIGXCPU", False), (-11, "SIGSEGV", True)],
)
def test_a_signal_that_nobody_handles_ends_a_rank(
    tmp_path: Path, code: int, signal: str, core: bool
) -> None:
    report = _report(tmp_path, LOST + TORCHRUN.format(code=code, local=1))
    best = report.diagnoses[0]
    assert report.body["first_failure"]["ranks"] == [1]
    assert signal in best.title
    assert ("postmortem core" in " ".join(best.next_steps)) is core


def test_a_thread_of_nobody_died_in_the_rank_that_is_missed(tmp_path: Path) -> None:
    thread = (
        'Exception in thread feed:\nTraceback (most recent call last):\n  File "fit.py", line 3,'
        " in feed\n    q.put(read())\nValueError: page 7 is empty\n"
    )
    table = (
        "Root Cause (first observed failure):\n[0]:\n  rank      : 0 (local_rank: 0)\n"
        "  exitcode  : 1 (pid: 12)\n"
        "[1]:\n  rank      : 1 (local_rank: 1)\n  exitcode  : -15 (pid: 11)\n"
    )
    report = _report(tmp_path, thread + LOST + TORCHRUN.format(code=1, local=0) + table)
    assert report.body["decided_by"] == "thread"
    assert report.body["first_failure"]["ranks"] == [1]


def test_a_thread_of_nobody_died_right_above_what_its_rank_raised(tmp_path: Path) -> None:
    thread = (
        'Exception in thread feed:\nTraceback (most recent call last):\n  File "fit.py", line 3,'
        " in feed\n    got['page'] = read()\nValueError: page 7 is empty\n"
    )
    raised = (
        "[rank1]: Traceback (most recent call last):\n"
        "[rank1]:   File \"fit.py\", line 9, in <module>\n[rank1]: KeyError: 'page'\n"
    )
    for between in ("", "step 4\nstep 5\nstep 6\n"):
        best = _report(tmp_path, thread + between + raised + LOST).diagnoses[0]
        assert ("page 7 is empty" in best.title) is not between


@pytest.mark.parametrize(
    "line",
    [
        "./fit.sh: line 5: run_tag: unbound variable",
        "./fit.sh: line 5: RUN_TAG: is to be set",
        "./fit.sh: 5: RUN_TAG: parameter not set",
        "./fit.sh: line 2: $OUT: ambiguous redirect",
        "gzip: part-7.gz: unexpected end of file",
        "[n1:71] [[9815,0],0] ORTE_ERROR_LOG: Out of resource in file util/show_help.c at line 501",
        "This progress looks :| because there were missing external dependencies",
    ],
)
def test_what_a_shell_or_a_tool_gives_up_for_is_a_failure(tmp_path: Path, line: str) -> None:
    report = _report(tmp_path, f"read 3 files\nset up for 4 folds\n{line}\n")
    assert report.failed
    assert report.diagnoses[0].title == line


@pytest.mark.parametrize(
    ("said", "word"),
    [
        ("Error in mean_of(d$age) : column 'age' is empty", "Execution halted"),
        (
            "Can't locate Lumen.pm in @INC (@INC contains: /etc/perl)",
            "BEGIN failed--compilation aborted at fit.pl line 1.",
        ),
    ],
)
def test_why_a_language_stops_is_told_not_that_it_does(
    tmp_path: Path, said: str, word: str
) -> None:
    assert _report(tmp_path, f"fold 1\n{said}\n{word}\n").diagnoses[0].title == said


FOLD = (
    "fold 1 step 1\nTraceback (most recent call last):\n"
    '  File "fold.py", line 6, in <module>\n    fit()\nValueError: fold 1 is empty\n'
)
OTHERS = "".join(f"fold 2 step {n}\n" for n in range(30))


@pytest.mark.parametrize(
    "text",
    [
        f"python fold.py 0\npython fold.py 1\n{FOLD}make: *** [Makefile:3: fold1] Error 1\n"
        f"make: *** Waiting for unfinished jobs....\n{OTHERS}",
        f"[1/3] FOLD 0\nfold 0 step 1\n[2/3] FOLD 1\nFAILED: [code=1] f1\npython fold.py 1\n{FOLD}"
        f"[3/3] FOLD 2\n{OTHERS}ninja: build stopped: subcommand failed.\n",
        f"python fold.py 1\n{FOLD}make: *** [Makefile:3: fold1] Error 1\npython fold.py 2\n"
        f"{OTHERS}make: Target 'all' not remade because of errors.\n",
        f"rule fold1:\n{FOLD}Error in rule fold1:\n    jobid: 1\nrule fold2:\n{OTHERS}"
        "Exiting because a job execution failed. Look above for error messages\n",
        f"fold 2 step 0\n{FOLD}fold 1 ended with status 1, stopping the others\n{OTHERS}",
    ],
)
def test_what_a_tool_ran_beside_a_command_that_failed_undoes_nothing(
    tmp_path: Path, text: str
) -> None:
    report = _report(tmp_path, text)
    assert "ValueError: fold 1 is empty" in report.diagnoses[0].title
    assert not _report(tmp_path, f"{text}python fold.py 0\n{OTHERS}Training finished\n").failed


PANIC = (
    "\nthread 'main' (71) panicked at src/main.rs:4:5:\nrow 2 is bad\nstack backtrace:\n"
    "   0: std::panicking::begin_panic\n   1: lumen::main\n"
)
PRINTED = (
    'java.lang.NumberFormatException: For input string: "x"\n'
    "\tat java.base/java.lang.Integer.parseInt(Integer.java:668)\n\tat Job.main(Job.java:6)\n"
)


@pytest.mark.parametrize("error", [PANIC, PRINTED])
@pytest.mark.parametrize(
    ("behind", "failed"), [("row 2 left out\n2 of 3 rows written, done\n", False), ("", True)]
)
def test_an_error_with_its_stack_that_a_program_printed_and_was_done(
    tmp_path: Path, error: str, behind: str, failed: bool
) -> None:
    assert _report(tmp_path, f"row 1\n{error}{behind}").failed is failed


def test_a_warning_that_comes_again_and_again_ends_nothing(tmp_path: Path) -> None:
    warns = "03:04:05 WARNING asr: u-{}: aligner died of a segmentation fault, scored as empty\n"
    text = "4 parts\n" + "".join(
        f"03:04:05 INFO asr: part {n} of 4\n{warns.format(n)}" for n in range(4)
    )
    end = "most confused: (kill, till)\n03:04:06 INFO asr: part 3 is the best of all\n"
    assert not _report(tmp_path, text + end).failed
    assert _report(tmp_path, warns.format(1) + end).failed


@pytest.mark.parametrize(
    ("error", "failed"),
    [("[ctl] gap: 0.4{} m | angle error: -21.{}°", False), ("ERROR: no lock on beam {}{}", True)],
)
def test_a_word_that_a_line_has_each_time_is_no_error(
    tmp_path: Path, error: str, failed: bool
) -> None:
    turns = "".join(f"turn {n}\n{error.format(n, n)}\nrange {n}\nwalls\n" for n in range(4))
    assert _report(tmp_path, turns + error.format(7, 7) + "\n[ctl] next scan\n").failed is failed


def test_stacks_that_a_program_wrote_when_a_time_was_up_are_its_log(tmp_path: Path) -> None:
    stacks = "Timeout (0:00:06)!\nThread 0x00007fec7ffff6c0 (most recent call first):\n" + "".join(
        f'  File "queue.py", line {n}, in take\n' for n in range(20)
    )
    assert _report(tmp_path, f"queue is up\n{stacks}").failed
    assert not _report(tmp_path, stacks).failed


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("run.sh: line 3:  4711 File size limit exceededlumen --fit", "SIGXFSZ"),
        ("[reader] panicked at src/main.rs:4:5:\nno row 7", "no row 7"),
    ],
)
def test_an_end_whose_words_are_joined_or_put_otherwise(
    tmp_path: Path, line: str, said: str
) -> None:
    report = _report(tmp_path, f"row 1\n{line}\n")
    assert report.failed
    assert said in report.diagnoses[0].title


@pytest.mark.parametrize(("number", "failed"), [(3, False), (1, True)])
def test_a_program_that_a_shell_holds_ends_as_one_in_a_file(
    tmp_path: Path, number: int, failed: bool
) -> None:
    raised = (
        f'Traceback (most recent call last):\n  File "<string>", line {number}, in <module>\n'
        "TimeoutError: no seat\n"
    )
    steps = "".join(f"step {n} loss {9 - n}\n" for n in range(6))
    report = _report(tmp_path, f"try 1\n{raised}try 2\n{steps}finished in 6 steps\n")
    assert report.failed is failed


@pytest.mark.parametrize(
    ("text", "failed"),
    [
        ("mesh 0 ok\nmesh 1 ok\nerror: mesh 2 is open\nmesh 3 ok\nmesh 4 ok\n5 meshes\n", False),
        ("mesh 0 ok\nmesh 1 ok\nerror: mesh 2 is open\n2 meshes\n", True),
        ("live log\nERROR db: no link\nPASSED\n==== 2 passed, 1 skipped in 0.20s ====\n", False),
        ("live log\nERROR db: no link\nPASSED\n==== 1 failed, 1 passed in 0.20s ====\n", True),
        ("caught: Error: no reply\n    at a.js:1:90\nframe 0\nall frames done\n", False),
        ("call 0 ok\nrecovered in call 1: runtime error: no map\nall calls served, bye\n", False),
        ("row 0\nno header at fit.pl line 3.\ndone, 1 row left out\n", False),
        ("row 0\nno header at fit.pl line 3.\n1 row left out\n", True),
        ("step 1\nprobe failed as expected\nsolver converged\nprobe failed as expected\n", False),
    ],
)
def test_an_error_in_a_few_lines_that_go_on_or_end_well(
    tmp_path: Path, text: str, failed: bool
) -> None:
    assert _report(tmp_path, text).failed is failed


def test_a_first_line_that_tells_of_a_try_is_no_head_of_runs(tmp_path: Path) -> None:
    tried = "03:04:0{0} WARNING request {0} failed\nValueError: no reply\n"
    report = _report(tmp_path, "".join(map(tried.format, range(3))))
    assert not report.body["earlier"]


@pytest.mark.parametrize(
    ("function", "behind", "failed"),
    [
        ("test_row", "ok\nRan 3 tests in 0.001s\nOK (skipped=1)\n", False),
        ("test_row", "ok\n\n-----\nRan 3 tests in 0.001s\n\nOK\n", False),
        ("test_row", "ok\nread 3 rows\n\nOK\n", True),
        ("test_row", "ERROR\nRan 3 tests in 0.001s\nFAILED (errors=1)\n", True),
        ("<module>", "ok\nRan 3 tests in 0.001s\nOK (skipped=1)\n", True),
    ],
)
def test_who_catches_what_it_prints_says_at_last_that_all_is_done(
    tmp_path: Path, function: str, behind: str, failed: bool
) -> None:
    raised = (
        f'Traceback (most recent call last):\n  File "rows.py", line 5, in {function}\n'
        "    int(row)\nValueError: row 2 is bad\n"
    )
    assert _report(tmp_path, f"row 1\n{raised}{behind}").failed is failed


def test_what_tcl_stops_for_stands_above_where_its_script_was(tmp_path: Path) -> None:
    stack = (
        '    while executing\n"dict get $rows $name"\n    (procedure "load" line 1)\n'
        '    invoked from within\n"load b"\n    (file "fit.tcl" line 2)\n'
    )
    report = _report(tmp_path, f'row a 1\nkey "b" not known in dictionary\n{stack}')
    assert 'key "b" not known in dictionary' in report.verdict


def test_what_valgrind_found_is_told_not_how_much(tmp_path: Path) -> None:
    found = "==71== Invalid write of size 4\n==71==    at 0x109196: main (fit.c:3)\n==71== \n"
    count = "==71== HEAP SUMMARY:\n==71==     in use at exit: 0 bytes in 0 blocks\n==71== \n"
    count += "==71== ERROR SUMMARY: 1 errors from 1 contexts (suppressed: 0 from 0)\n"
    report = _report(tmp_path, f"==71== Command: ./fit\n{found}sum 36\n{count}")
    assert "Invalid write of size 4" in report.diagnoses[0].title
    assert not _report(tmp_path, f"sum 36\n{count.replace('1 errors', '0 errors')}").failed


def test_what_mpirun_ends_when_its_time_is_up_was_stopped(tmp_path: Path) -> None:
    word = (
        "---------\nThe user-provided time limit for job execution has been reached:\n\n"
        "  Timeout: 8 seconds\n\nThe job will now be aborted.  Please check your code and/or\n"
        "adjust/remove the job execution time limit (as specified by --timeout\n"
        "command line option or MPIEXEC_TIMEOUT environment variable).\n---------\n"
    )
    assert _report(tmp_path, f"rank 0 round 1\n{word}").body["decided_by"] == "stopped"


def test_what_a_handler_of_logging_cannot_write_ends_nothing(tmp_path: Path) -> None:
    text = (
        "epoch 1\n--- Logging error ---\nTraceback (most recent call last):\n"
        '  File "/lib/python3.11/{0}", line 1110, in emit\n    msg = self.format(record)\n'
        "TypeError: not all arguments converted during string formatting\nCall stack:\n"
        '  File "fit.py", line 5, in <module>\n    log.info("lr", 1)\nMessage: \'lr\'\n'
        "Arguments: (1,)\nepoch 2\n"
    )
    assert not _report(tmp_path, text.format("logging/__init__.py")).failed
    assert _report(tmp_path, text.format("radio/__init__.py")).failed


def test_a_client_whose_server_failed_is_told_by_what_failed(tmp_path: Path) -> None:
    server = (
        "connection handler failed\nTraceback (most recent call last):\n"
        "  File \"serve.py\", line 4, in answer\n    rows[q]\nKeyError: 'b'\n"
    )
    client = (
        'Traceback (most recent call last):\n  File "serve.py", line 9, in <module>\n'
        "    await c.recv()\nwebsockets.exceptions.ConnectionClosedError: received 1011 (internal"
        " error); then sent 1011 (internal error)\n"
    )
    assert "KeyError: 'b'" in _report(tmp_path, server + client).diagnoses[0].title


def test_node_that_lost_its_terminal_aborts_behind_the_end(tmp_path: Path) -> None:
    abort = "{}(): Assertion `!(err != 0)' failed.\n 1: 0xb02ec0 node::Abort() [node]\n"
    said = 'error Command failed with signal "SIGKILL".\nnode[7]: ../src/node.cc:765:void '
    report = _report(tmp_path, said + abort.format("node::ResetStdio"))
    assert [one.id for one in report.diagnoses] == ["last_words"]
    report = _report(tmp_path, said + abort.format("node::Start"))
    assert [one.id for one in report.diagnoses] != ["last_words"]


@pytest.mark.parametrize(
    ("number", "decided"), [(15, "stopped"), (11, "last words"), (9, "last words")]
)
def test_children_that_their_server_asks_to_end_failed_in_nothing(
    tmp_path: Path, number: int, decided: str
) -> None:
    row = f"[UID:71][47] Child process with pid: {{}} was killed by signal: {number}, dumped: no\n"
    text = "the server listens\nanswered 7 requests\n" + "".join(map(row.format, range(300, 340)))
    assert _report(tmp_path, text).body["decided_by"] == decided
