"""Pieces of logs as people paste them: a few lines, the launcher's word without its end."""

from pathlib import Path

import pytest

from builders.ranklogs import raised_first, report_of
from postmortem.analyses.ranklogs import RankLogOptions, analyse
from postmortem.report.model import Outcome

_AGENT = (
    "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: {code}) "
    "local_rank: 3 (pid: 4711) of binary: /usr/bin/python\n"
)
_LAUNCHER = (
    "Traceback (most recent call last):\n"
    '  File "/usr/bin/torchrun", line 8, in <module>\n'
    "    sys.exit(main())\n"
    '  File "/usr/lib/python3/dist-packages/torch/distributed/run.py", line 794, in main\n'
    "    run(args)\n"
)
_TASKS = "".join(f"/job:jax_worker/replica:0/task:{n}\n" for n in (3, 1, 2))
_JAX = (
    "Traceback (most recent call last):\n"
    '  File "train.py", line 9, in <module>\n'
    "    jax.distributed.initialize()\n"
    "jaxlib.XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. "
    "Barrier_id: PjRT_Client_Connect. Timed out task names:\n" + _TASKS
)
_RAYLET = (
    "(raylet) node_manager.cc:3084: 2 Workers (tasks / actors) killed due to memory pressure "
    "(OOM), 0 Workers crashed due to other reasons at node (ID: 28b6, IP: 10.0.0.2) over the last "
    "time period.\n"
)
_CUT = 'Traceback (most recent call last):\n  File "t.py", line 3, in f\n    g()\n'
_BOX = (
    "[01:21:55] ERROR    failed (exitcode: -7) local_rank: 0 (pid:   api.py:672\n    4711) of b\n"
)
_RDZV = (
    "[W d.py:1169] The node 'n2' has failed to send a keep-alive heartbeat to the rendezvous 'j'\n"
)
_LEFT = "[W d.py:1233] The node 'n2' has failed to shutdown the rendezvous 'j'\n"
_STEPS = "".join(f"step {n} of 40: loss 2.{n}\n" for n in range(12))


@pytest.mark.parametrize(
    ("text", "rule", "outcome"),
    [
        (_AGENT.format(code=-11) + _LAUNCHER, "rank_crashed", Outcome.FAILED),
        (_AGENT.format(code=1) + _LAUNCHER, "rank_exited_silently", Outcome.FAILED),
        ("> stderr: " + _AGENT.format(code=-9), "rank_crashed", Outcome.FAILED),
        (_JAX, "rank_never_joined", Outcome.FAILED),
        (_RAYLET, "process_ended", Outcome.FAILED),
        (_RAYLET + _CUT, "process_ended", Outcome.FAILED),
        (
            "[n7:4711:0:4733] Caught signal 11 (Segmentation fault: address not mapped)\n"
            "==== backtrace (tid: 4733) ====\n",
            "rank_crashed",
            Outcome.FAILED,
        ),
        (
            "           PID: 4711 (python3)\n        Signal: 11 (SEGV)\n"
            "       Message: Process 4711 (python3) of user 1000 dumped core.\n"
            + "                #1  0x00007f87 n/a (libc.so.6 + 0x88db9)\n"
            * 40,
            "rank_crashed",
            Outcome.FAILED,
        ),
        (
            "*** The MPI_Barrier() function was called after MPI_FINALIZE was invoked.\n"
            "*** Your MPI job will now abort.\n",
            "rank_crashed",
            Outcome.FAILED,
        ),
        (
            "subprocess.CalledProcessError: Command '['/usr/bin/python3', '-u', 't.py', "
            "'--local_rank=1']' died with <Signals.SIGSEGV: 11>.\n",
            "unnamed_process_ended",
            Outcome.FAILED,
        ),
        (
            "NAME       READY   STATUS             RESTARTS   AGE\n"
            "master-0   0/2     CrashLoopBackOff   8          2m32s\n"
            "worker-0   1/1     Running            0          3m1s\n",
            "last_words",
            Outcome.FAILED,
        ),
        (
            "DEBUG\tevents\tPod: team.job-worker-0 exited with code 1\t{}\n"
            'level=info msg="Reconciling for job"\n',
            "unnamed_process_ended",
            Outcome.FAILED,
        ),
        (
            'Thread 1 "python3" received signal SIGSEGV, Segmentation fault.\n'
            "#0  0x00007fff9ab8a8b4 in move (int) () from /usr/lib/libmove.so\n",
            "rank_crashed",
            Outcome.FAILED,
        ),
        (
            "#0  0x00007f2bdf9886d0 in raise () from /lib/libc.so.6\n"
            "#1  0x00007f2bdf9886d3 in loop (n=3) at ops.cc:1521\n"
            "#2  0x00007f2bdf9886d9 in main () at main.cc:15\n",
            "other_text",
            Outcome.UNKNOWN,
        ),
        (
            _STEPS + "RuntimeError: no room\nThe workers of the loader are gone\n",
            "last_words",
            Outcome.UNKNOWN,
        ),
    ],
)
def test_which_rule_explains_it(tmp_path: Path, text: str, rule: str, outcome: Outcome) -> None:
    report = report_of(tmp_path, text)
    assert report.failed
    assert (report.diagnoses[0].id, report.outcome) == (rule, outcome), report.verdict


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("Job deleted at request of root@head.local\njob preempted (node failure)\n", "stopped"),
        ("HorovodBroadcast_bias_0 [missing ranks: 2]\n", "rank_named_missing"),
        ("n1:15:91 [3] socket.h 398 NCCL WARN Call to write failed : Connection reset\n", "only"),
        ("[rank2]: RuntimeError: Timed out waiting 1800000ms for recv operation\n", "only_victims"),
        ("Container rank 1 status failed cmd ['t.py'] code 1 log log/worker.1\n", "rank_exited"),
        ("RuntimeError:\n        the workers need a guard in the main module\n", "last_words"),
        ("There are not enough slots available in the system\nto satisfy 8 slots\n", "last_words"),
        ("[launch.py:131:sigkill_handler] Killing subprocess 4711\n" + _CUT, "only_victims"),
        (
            _RDZV + "[W api.py:858] Sending process 7 closing signal SIGTERM\n" + _LEFT,
            "only_victims",
        ),
        (_BOX + "│ /opt/bin/accelerate:8 in <module>   │\n", "rank_crashed"),
        ("^C[launch.py:131:sigkill_handler] Killing subprocess 4711\n" + _CUT, "stopped"),
        ("[rank0]: ValueError: bad\n[rank3]: " + _CUT.replace("\n  ", "\n[rank3]:   "), "last_w"),
    ],
)
def test_ends_of_other_launchers_and_libraries(tmp_path: Path, text: str, rule: str) -> None:
    report = report_of(tmp_path, text)
    assert report.failed
    assert report.diagnoses[0].id.startswith(rule), report.verdict


@pytest.mark.parametrize(
    "text",
    [
        "n1:1:2 [5] NCCL INFO plugin: libx.so: cannot open: No such file or directory\n",
        "2026-01-02 03:04:05 WARNING loader: could not find a cache. Error: none there\n",
        "n1:1:2 [0] NCCL WARN NET/OFI Attempt to close with outstanding requests!\n",
        "ERROR: ld.so: object 'l.so' from LD_PRELOAD cannot be preloaded (no file): ignored.\n",
        "E0000 00:00:17.6 7 cuda_dnn.cc:83] Unable to register cuDNN factory: Attempting to "
        "register factory for plugin cuDNN when one has already been registered\n",
        "latest.txt does not exist\nTraining from scratch\nthe batch has 7 shards\n",
    ],
)
def test_what_is_no_error_by_its_level_is_none(tmp_path: Path, text: str) -> None:
    assert not report_of(tmp_path, _STEPS + text).failed


def test_a_store_that_is_gone_at_the_end_is_none(tmp_path: Path) -> None:
    assert not report_of(tmp_path, _STEPS + _LEFT).failed


def test_an_agent_counts_its_own_processes_only(tmp_path: Path) -> None:
    report = report_of(tmp_path, _AGENT.format(code=-11) + _LAUNCHER)
    first = report.body["first_failure"]
    assert isinstance(first, dict)
    assert (first["rank"], first["label"], first["ranks"]) == (None, "local rank 3", [])


def test_a_job_recovered_only_if_nothing_was_raised_behind_the_agents_word(tmp_path: Path) -> None:
    assert not report_of(tmp_path, _AGENT.format(code=-11) + _STEPS).failed
    assert report_of(tmp_path, _AGENT.format(code=-11) + _LAUNCHER).failed


def test_a_traceback_that_is_cut_right_behind_the_agents_word_is_its_own(tmp_path: Path) -> None:
    cut = '  File "/usr/lib/python3/runpy.py", line 193, in _run_module_as_main\n    exec(code)\n'
    report = report_of(tmp_path, f"{_STEPS}{_AGENT.format(code=-6)}{_CUT.split(chr(10))[0]}\n{cut}")
    first = report.body["first_failure"]
    assert isinstance(first, dict)
    assert (first["label"], len(report.body["attempts"])) == ("local rank 3", 1), report.verdict


def test_the_tasks_that_never_came_are_named(tmp_path: Path) -> None:
    first = report_of(tmp_path, _JAX).body["first_failure"]
    assert isinstance(first, dict)
    assert first["ranks"] == [1, 2, 3]


def test_a_handler_of_signals_names_the_rank(tmp_path: Path) -> None:
    line = "[n7:mpi_rank_4][error_sighandler] Caught error: Segmentation fault (signal 11)\n"
    first = report_of(tmp_path, line).body["first_failure"]
    assert isinstance(first, dict)
    assert first["rank"] == 4


def test_an_error_behind_which_work_goes_on_was_survived(tmp_path: Path) -> None:
    assert not report_of(tmp_path, "RuntimeError: no room\n" + _STEPS).failed


def test_nan_is_told_from_its_first_line_however_far_above(tmp_path: Path) -> None:
    bad = "".join(f"step {n}: loss: nan\n" for n in range(400))
    report = report_of(tmp_path, "loss: nan\n" + _STEPS + bad)
    assert [one.id for one in report.diagnoses] == ["never_a_number"]
    assert "line 14)" in report.diagnoses[0].title


def test_what_the_message_advises_comes_first(tmp_path: Path) -> None:
    report = report_of(
        tmp_path,
        'Traceback (most recent call last):\n  File "t.py", line 3, in <module>\n    f()\n'
        "ImportError: the code was made for another version.\n"
        "If you cannot make it again, some options are:\n 1. install 3.20.x\n",
    )
    assert "install 3.20.x" in report.diagnoses[0].next_steps[0]


def test_nobody_said_nothing_of_whom_no_line_was_given(tmp_path: Path) -> None:
    (tmp_path / "rank0.log").write_text(_STEPS)
    (tmp_path / "rank1.log").write_text(_STEPS)
    (tmp_path / "srun.log").write_text("srun: error: n1: task 1: Exited with exit code 7\n")
    heard = analyse([str(tmp_path)], RankLogOptions()).diagnoses[0]
    alone = analyse([str(tmp_path / "srun.log")], RankLogOptions()).diagnoses[0]
    assert heard.id == alone.id == "rank_exited_silently"
    assert heard.title != alone.title


def test_a_message_that_a_console_has_broken_is_one_line(tmp_path: Path) -> None:
    said = (
        "LookupError: no lumen was found. It is not installed, or it is too old, or it lies where "
    )
    said += "nobody looks for it, as the variable names no folder that is there"
    rows = [said[i : i + 60] for i in range(0, len(said), 60)]
    head = 'Traceback (most recent call last):\n  File "t.py", line 3, in f\n    f()\n'
    (tmp_path / "job.log").write_text(head + "\n".join(rows) + "\n")
    assert analyse([str(tmp_path / "job.log")], RankLogOptions()).verdict.startswith(said)


def test_an_exception_without_a_message_takes_none_from_below(tmp_path: Path) -> None:
    head = 'Traceback (most recent call last):\n  File "t.py", line 3, in <module>\n    f()\n'
    report = report_of(tmp_path, head + "AssertionError\nthe doors are locked\n")
    assert raised_first(report) == (None, "AssertionError")


def test_lines_of_a_message_that_are_as_long_as_each_other_stay_lines(tmp_path: Path) -> None:
    rows = [
        f"size mismatch for layer{n}.weight: shape torch.Size([64, 32]) of the file" for n in "12"
    ]
    head = 'Traceback (most recent call last):\n  File "t.py", line 3, in f\n    f()\n'
    text = "\n".join([f"{head}RuntimeError: 2 errors", *(f"\t{row}" for row in rows)])
    (tmp_path / "job.log").write_text(text + "\n")
    report = analyse([str(tmp_path / "job.log")], RankLogOptions())
    assert raised_first(report) == (None, "RuntimeError: 2 errors")


@pytest.mark.parametrize(
    ("above", "ranks"),
    [("[rank3]:     b = a(", [1, 3]), ("a is there\nb is there\nc is there", [1])],
)
def test_a_traceback_whose_first_frames_are_cut_off_counts(
    tmp_path: Path, above: str, ranks: list[int]
) -> None:
    cut = f'{above}\n[rank3]:   File "a.py", line 3, in f\n[rank3]:     g()\n'
    whole = "".join(f"[rank1]: {line}\n" for line in (*_CUT.splitlines(), "KeyError: 'b'"))
    report = report_of(tmp_path, f"{cut}[rank3]: LumenError: no graph\n{whole}")
    assert report.body["first_failure"]["ranks"] == ranks  # type: ignore[attr-defined]


def test_of_a_long_line_the_end_is_kept(tmp_path: Path) -> None:
    text = f"lumen: the room is shut: {'a room, ' * 60}exit status 1, stderr: no key for door 7\n"
    report = report_of(tmp_path, text)
    assert report.failed
    assert "no key for door 7" in report.verdict


_STARTS = "pyxis: importing docker image ...\n"
_PRINTED = (
    "slurmstepd: error: pyxis:     mkdir: cannot create directory '/run/lum': Permission denied\n"
)
_NOT_STARTED = (
    "slurmstepd: error: pyxis: container start failed with error code: 1\n"
    f"slurmstepd: error: pyxis: printing contents of log file ...\n{_PRINTED}"
    "slurmstepd: error: pyxis: couldn't start container\n"
    "slurmstepd: error: spank: required plugin spank_pyxis.so: task_init() failed with rc=-1\n"
)


def test_why_a_container_did_not_start_is_in_what_is_printed(tmp_path: Path) -> None:
    end = "srun: error: n7: task 0: Exited with exit code 1\n"
    report = report_of(tmp_path, _STARTS + _NOT_STARTED + end)
    assert report.diagnoses[0].id == "rank_exited_silently"
    assert report.diagnoses[0].evidence[1].where.endswith(":4")
    report = report_of(tmp_path, _NOT_STARTED.replace("slurmstepd: ", "spank-epilog: "))
    assert report.diagnoses[0].evidence[0].where.endswith(":3")


@pytest.mark.parametrize(("goes_on", "failed"), [("trying to go on", True), ("continuing", False)])
def test_an_error_that_says_how_its_program_goes_on(
    tmp_path: Path, goes_on: str, failed: bool
) -> None:
    calm = "".join(f"2026-01-02 03:04:0{n} | INFO | lumen: part {n * n} is there\n" for n in (5, 6))
    text = (
        f"2026-01-02 03:04:04 | ERROR | lumen: it was not able to read the map, {goes_on}\n{calm}"
    )
    assert report_of(tmp_path, text).failed is failed


def test_an_error_that_was_caught_elsewhere_goes_on_with_itself(tmp_path: Path) -> None:
    text = "RuntimeError: Caught RuntimeError in replica 1 on device 1.\nRuntimeError: no lumen 7\n"
    assert "no lumen 7" in report_of(tmp_path, text).verdict


def test_the_advice_of_macos_is_not_the_error(tmp_path: Path) -> None:
    said = "python(47,0x1f0) malloc: *** error for object 0x7fcb: it was not allocated\n"
    advice = "python(47,0x1f0) malloc: *** set a breakpoint in malloc_error_break to debug\n"
    report = report_of(tmp_path, f"lumen begins\n{said}{advice}Abort trap: 6\n")
    assert [one.where.rpartition(":")[2] for one in report.diagnoses[0].evidence[:2]] == ["4", "2"]


def test_what_libcxx_says_in_the_next_line_is_the_message(tmp_path: Path) -> None:
    head = "libc++abi: terminating due to uncaught exception of type std::runtime_error:"
    report = report_of(tmp_path, f"lumen begins\n{head}\n[LUM] no room for 7 parts\n")
    assert raised_first(report) == (None, "std::runtime_error: [LUM] no room for 7 parts")


def test_a_stack_of_libraries_of_macos_is_one(tmp_path: Path) -> None:
    text = (
        "libmlx.dylib    lum::check(int)\nlibc++abi.dylib  __cxa_throw\nlibobjc.A.dylib  _objc_t\n"
    )
    assert report_of(tmp_path, f"Faulting thread (43 of 45):\n{text}").failed


def test_a_logger_that_begins_with_a_path_leaves_room_for_its_message(tmp_path: Path) -> None:
    head = "[ERROR] DEVICE(71,fffe74f491e0,python):2026-01-02-03:04:05.678.901 "
    path = "[mindspore/ccsrc/plugin/device/lumen/hal/device/lumen_kernel_runtime.cc:745] "
    report = report_of(tmp_path, f"{head}{path}Dump] the task is lost, retcode: 507011\n")
    assert "retcode: 507011" in report.verdict


@pytest.mark.parametrize("mark", ["`", '"'])
@pytest.mark.parametrize("more", ["", "srun: error: n7: task 3: Exited with exit code 7"])
def test_a_text_that_is_quoted_as_a_whole_is_taken_out(
    tmp_path: Path, mark: str, more: str
) -> None:
    text = "\n".join(filter(None, ["KeyError: no lumen 7", more]))
    plain = report_of(tmp_path, f"{text}\n")
    assert report_of(tmp_path, f"{mark}{text}{mark}\n").verdict == plain.verdict


def test_what_make_says_is_no_part_of_a_message(tmp_path: Path) -> None:
    said = "RuntimeError: lumen 71 of the third row fell down and lies there, 7"
    text = f"{said}\nMakefile:12: recipe for target 'main' failed\nmake: *** [main] Error 1\n"
    assert report_of(tmp_path, text).verdict == report_of(tmp_path, f"{said}\n").verdict


def test_what_cann_calls_an_inner_error_is_said_in_the_next_line(tmp_path: Path) -> None:
    said = "        Aicpu kernel execute failed, device_id=7, task_id=2.\n"
    more = "        rtStreamSynchronize execute failed, reason=[the stream failed]\n"
    report = report_of(tmp_path, f"[lumen] it begins\nE39999: Inner Error!\n{said}{more}")
    assert "device_id=7" in report.verdict


@pytest.mark.parametrize("head", ["", _CUT])
def test_a_message_that_only_says_where_it_came_by_is_read_on(tmp_path: Path, head: str) -> None:
    by = "".join(f"Exception from src/lum/part{n}.cpp:{n * 7}:\n" for n in range(2, 6))
    text = f"RuntimeError: Exception from src/lum/core.cpp:124:\n{by}the lamp is out, code 0x7\n"
    assert "the lamp is out, code 0x7" in report_of(tmp_path, head + text).verdict


def test_what_ptxas_calls_no_error_is_not_the_message(tmp_path: Path) -> None:
    info = "  ptxas info    : (C7516) Potential Performance Loss\n"
    fatal = "  ptxas fatal   : (C7600) no register is left\n"
    over = "  ptxas fatal   : Ptx assembly aborted due to errors\n"
    text = f"RuntimeError: the code could not be made: \n{info}{fatal}{over}"
    assert "no register is left" in report_of(tmp_path, text).verdict
    assert "no register is left" in report_of(tmp_path, fatal.strip() + "\n" + over).verdict


def test_a_server_whose_certificate_is_refused_was_reached(tmp_path: Path) -> None:
    (tmp_path / "get.log").write_text(
        'Traceback (most recent call last):\n  File "/job/get.py", line 5, in <module>\n'
        "    requests.get(url)\nrequests.exceptions.SSLError: HTTPSConnectionPool(host='n7.org', "
        "port=443): Max retries exceeded with url: /a (Caused by SSLError("
        "SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify "
        "failed: certificate has expired (_ssl.c:1006)')))\n"
    )
    (found,) = analyse([str(tmp_path / "get.log")], RankLogOptions()).diagnoses
    assert any("n7.org:443" in step for step in found.next_steps)
    assert not any("HTTPS_PROXY" in step for step in found.next_steps)
