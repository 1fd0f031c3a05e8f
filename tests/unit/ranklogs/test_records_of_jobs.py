"""What others keep of a job, or of a crash: records of clouds and trackers, reports of systems."""

import json
from pathlib import Path
from typing import Any

import pytest

from postmortem.analyses import triage
from postmortem.analyses.ranklogs import RankLogOptions, analyse
from postmortem.errors import EvidenceError
from postmortem.readers.inventory import take_inventory
from postmortem.readers.kernel_log.lines import looks_like_kernel_log
from postmortem.readers.ranklogs.job_records import code_told, holds_records, records_told
from postmortem.report.model import Outcome, Report

AWS: dict[str, Any] = {
    "jobs": [
        {
            "jobName": "fit",
            "jobId": "0a1b",
            "status": "FAILED",
            "statusReason": "Essential container in task exited",
            "createdAt": 1_700_000_000_000,
            "container": {"exitCode": 137, "reason": "OutOfMemoryError: Container killed"},
        }
    ]
}
ECS: dict[str, Any] = {
    "tasks": [
        {
            "taskArn": "arn:fit/0a1b",
            "lastStatus": "STOPPED",
            "desiredStatus": "STOPPED",
            "stoppedReason": "Essential container in task exited",
            "createdAt": "2026-01-02T03:04:05Z",
            "containers": [{"name": "fit", "lastStatus": "STOPPED", "exitCode": 0}],
        }
    ]
}
SACCT = {
    "jobs": [
        {
            "job_id": 71,
            "name": "fit",
            "state": {"current": ["OUT_OF_MEMORY"], "reason": "OutOfMemory"},
            "exit_code": {"return_code": {"set": True, "number": 0}},
            "time": {"start": 1, "end": 2},
        }
    ]
}
VERTEX = {
    "name": "projects/1/locations/x/customJobs/8",
    "displayName": "fit",
    "state": "JOB_STATE_FAILED",
    "createTime": "2026-01-02T03:04:05Z",
    "error": {"code": 9, "message": "The replica workerpool0-0 exited with a non-zero status of 1"},
}
RUN = {"name": "fit", "status": "completed", "conclusion": "failure", "createdAt": "2026-01-02"}
MLFLOW = "end_time: 2\nlifecycle_stage: active\nrun_id: 0a1b\nrun_name: fit\nstatus: {}\n"


def _report(path: Path, text: str | object) -> Report:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text if isinstance(text, str) else json.dumps(text, indent=2))
    return analyse([str(path.parent)], RankLogOptions())


@pytest.mark.parametrize(
    ("record", "line", "said"),
    [
        (AWS, 6, "job fit: state FAILED (exit code 137): Essential container in task exited; "
         "OutOfMemoryError: Container killed"),
        (ECS, 5, "job arn:fit/0a1b completed… state COMPLETED (exit code 0)"),
        (SACCT, 8, "job fit: state OUT_OF_MEMORY: OutOfMemory"),
        (VERTEX, 4, "job fit: state FAILED: The replica workerpool0-0 exited with a non-zero "
         "status of 1"),
        (RUN, 4, "job fit: state FAILURE"),
    ],
)  # fmt: skip
def test_a_record_is_a_line_where_its_state_stands(record: object, line: int, said: str) -> None:
    told = records_told(json.dumps(record, indent=2).encode())
    assert told is not None
    rows = told.decode().splitlines()
    assert rows[-1].replace(" completed successfully:", " completed…") == said
    assert len(rows) == line


@pytest.mark.parametrize(
    "record",
    [
        {"name": "bert", "status": "ok", "optimizer_state": "adam"},
        {"loss": 0.1, "step": 7},
        {"results": [{"name": "q1", "status": "failed", "time": 1.2}]},
        [
            {"name": "a", "state": "FAILED", "endTime": 1},
            {"name": "b", "state": "DONE", "endTime": 2},
        ],
        "{" * 100_000,
        [[[{"name": 1}]]],
    ],
)
def test_what_is_no_record_of_one_job(tmp_path: Path, record: object) -> None:
    path = tmp_path / "x.json"
    path.write_text(record if isinstance(record, str) else json.dumps(record))
    assert not holds_records(str(path), path.read_bytes())


@pytest.mark.parametrize(
    ("record", "rule"),
    [
        (AWS, "process_ended"),
        (AWS | {"jobs": [AWS["jobs"][0] | {"statusReason": "Host EC2 (instance i-7) terminated."}]},
         "stopped_from_outside"),
        (SACCT, "last_words"),
        (VERTEX, "process_ended"),
        (RUN, "last_words"),
    ],
)  # fmt: skip
def test_a_job_failed_as_its_record_says(tmp_path: Path, record: object, rule: str) -> None:
    report = _report(tmp_path / "job" / "x.json", record)
    assert report.outcome is Outcome.FAILED
    assert [one.id for one in report.diagnoses][:1] == [rule]


def test_a_job_ended_well_as_its_record_says(tmp_path: Path) -> None:
    assert _report(tmp_path / "job" / "x.json", ECS).outcome is Outcome.HEALTHY


JOB = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: fit
status:
  conditions:
  - lastProbeTime: "2026-01-02T03:04:05Z"
    message: Job has reached the specified backoff limit
    reason: BackoffLimitExceeded
    status: "{}"
    type: {}
"""


@pytest.mark.parametrize(
    ("status", "kind", "failed"),
    [("True", "Failed", True), ("False", "Failed", False), ("True", "Complete", False)],
)
def test_a_job_of_kubernetes_has_conditions(
    tmp_path: Path, status: str, kind: str, failed: bool
) -> None:
    assert _report(tmp_path / "job" / "fit.yaml", JOB.format(status, kind)).failed is failed


def test_a_notebook_with_states_is_a_notebook(tmp_path: Path) -> None:
    output = {"output_type": "stream", "name": "stderr", "text": ["ValueError: no rows\n"]}
    cell = {"cell_type": "code", "execution_count": 1, "metadata": {"status": "FAILED"},
            "outputs": [output], "source": ["fit()"]}  # fmt: skip
    notebook = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    report = _report(tmp_path / "job" / "fit.ipynb", notebook)
    assert "ValueError" in report.diagnoses[0].title


@pytest.mark.parametrize(
    "record",
    [
        AWS | {"jobs": [AWS["jobs"][0] | {"status": "SUCCEEDED", "container": {"exitCode": 0},
               "attempts": [{"container": {"exitCode": 137, "reason": "OutOfMemoryError"}}]}]},
        {"kind": "Workflow", "metadata": {"name": "fit"}, "status": {
            "phase": "Succeeded", "startedAt": "2026-01-02",
            "nodes": {"a": {"displayName": "fit(0)", "phase": "Failed", "message": "Error"}}}},
    ],
)  # fmt: skip
def test_an_earlier_attempt_failed_of_a_job_that_did_not(tmp_path: Path, record: object) -> None:
    assert not _report(tmp_path / "job" / "x.json", record).failed


@pytest.mark.parametrize(
    ("log", "outcome"),
    [
        ("step 1 loss 2.0\nstep 2 loss 1.9\n", Outcome.HEALTHY),
        ('Traceback (most recent call last):\n  File "a.py", line 6, in <module>\n    fit()\n'
         "KeyError: 'label'\n", Outcome.FAILED),
    ],
)  # fmt: skip
def test_a_code_of_0_is_of_a_log_without_an_error(
    tmp_path: Path, log: str, outcome: Outcome
) -> None:
    """A script may end with 0 whatever its program came to."""
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "out.log").write_text(log)
    assert _report(tmp_path / "job" / "x.json", ECS).outcome is outcome


def test_mlflow_keeps_how_a_run_ended(tmp_path: Path) -> None:
    assert _report(tmp_path / "4" / "meta.yaml", MLFLOW.format(4)).failed
    assert not _report(tmp_path / "3" / "meta.yaml", MLFLOW.format(3)).failed


def test_the_code_alone(tmp_path: Path) -> None:
    """Of Nextflow's task: the shell's word in its log, and the code, are one end."""
    assert code_told("/x/epochs.txt", b"137\n") is None
    assert code_told("/x/exit_code", b"137\n") == b"job: state ENDED (exit code 137)\n"
    assert _report(tmp_path / "a" / ".exitcode", "137").diagnoses[0].id == "process_ended"
    assert not _report(tmp_path / "b" / ".exitcode", "0").failed
    (tmp_path / "c").mkdir()
    said = "step 1\n.command.sh: line 2:    41 Killed                  python fit.py\n"
    (tmp_path / "c" / ".command.err").write_text(said)
    (tmp_path / "c" / ".command.log").write_text(said)
    report = _report(tmp_path / "c" / ".exitcode", "137")
    assert report.diagnoses[0].id == "process_ended"
    assert "process 41" in report.diagnoses[0].title


COREDUMPCTL = """\
           PID: 71 (python3)
        Signal: 11 (SEGV)
     Timestamp: Fri 2026-01-02 03:04:05 UTC
       Message: Process 71 (python3) of user 1000 dumped core.

{modules}                Stack trace of thread 71:
                #0  0x00007f1f2a0012c4 gather (rows.so + 0x12c4)
                #1  0x0000000000548ad5 n/a (python3.11 + 0x148ad5)
"""
APPLE = {
    "procName": "python3",
    "pid": 71,
    "exception": {"type": "EXC_BAD_ACCESS", "signal": "SIGSEGV"},
    "faultingThread": 1,
    "threads": [
        {"frames": [{"imageOffset": 1, "symbol": "kevent", "imageIndex": 0}]},
        {"frames": [{"imageOffset": 2, "symbol": "gather", "imageIndex": 1}]},
    ],
    "usedImages": [{"name": "libsystem.dylib", "base": 4096}, {"name": "rows.so", "base": 8192}],
}
APPLE_TEXT = """\
Process:               python3 [71]

Exception Type:        EXC_BAD_ACCESS (SIGSEGV)

Thread 1 Crashed:
0   rows.so                       \t0x0000000000002002 gather + 32
"""
MODULES = "".join(f"                Module libx{i}.so from rpm x-{i}\n" for i in range(90))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("c.txt", COREDUMPCTL.format(modules="")),
        ("c.txt", COREDUMPCTL.format(modules=MODULES)),
        ("python3.ips", '{"bug_type":"309","name":"python3"}\n' + json.dumps(APPLE, indent=1)),
        ("python3.crash", APPLE_TEXT),
    ],
)
def test_where_a_system_saw_a_crash(tmp_path: Path, name: str, text: str) -> None:
    report = _report(tmp_path / "job" / name, text)
    assert report.failed
    assert report.diagnoses[0].title.endswith("SIGSEGV: in gather (rows.so)")


def test_a_damaged_report_of_macos_is_a_text(tmp_path: Path) -> None:
    broken = APPLE | {"faultingThread": 7}
    for body in ("{", json.dumps(broken)):
        report = _report(tmp_path / "job" / "p.ips", f'{{"bug_type":"309"}}\n{body}')
        assert report.outcome is not Outcome.HEALTHY


def test_a_report_of_apport_without_a_core_is_a_text(tmp_path: Path) -> None:
    path = tmp_path / "_usr_bin_python3.1000.crash"
    path.write_text(
        "ProblemType: Crash\nProcCmdline: python3 fit.py\nSignal: 6\nSignalName: SIGABRT\n"
    )
    assert [item.kind.value for item in take_inventory([str(path)]).items] == ["log"]
    assert "SIGABRT" in analyse([str(path)], RankLogOptions()).diagnoses[0].title


VALGRIND = """\
==71== Process terminating with default action of signal 11 (SIGSEGV)
==71==  Access not within mapped region at address 0x0
==71==    at 0x1A2B3C: gather (in /w/rows.so)
==71==    by 0x1A2C00: take (rows.c:101)
==71== ERROR SUMMARY: 1 errors from 1 contexts (suppressed: 0 from 0)
"""
TRITON = "Signal (11) received.\n 0# 0x000055D011223344 in tritonserver\n 1# gather in /w/rows.so\n"


@pytest.mark.parametrize("text", [VALGRIND, TRITON])
def test_where_a_tool_saw_a_crash(tmp_path: Path, text: str) -> None:
    report = _report(tmp_path / "job" / "out.log", text)
    assert report.failed
    assert "SIGSEGV: in gather (/w/rows.so)" in report.diagnoses[0].title


@pytest.mark.parametrize(
    "end",
    [
        "make: *** [Makefile:12: fit] Error 137",
        "make: *** [Makefile:12: fit] Killed",
        "ERROR: failed to reproduce 'fit': failed to run: python fit.py, exited with 137",
        "exit_status  137                  (Killed)",
        "fit-1 exited with code 137",
        "2026-01-02T03:04:05.678Z container die 1a2b3c (execDuration=6, exitCode=137, name=fit)",
        "The Python process exited with exit code 137 (SIGKILL: Killed).",
        "    Exit_status = 265",
        'level=ERROR msg="the runner has terminated: signal: killed"',
    ],
)
@pytest.mark.parametrize("shell", ["", "/bin/sh: line 1:    71 Killed      python fit.py\n"])
def test_who_ran_the_command_says_by_what_it_ended(tmp_path: Path, shell: str, end: str) -> None:
    """One end, where a shell below has told of it as well."""
    report = _report(tmp_path / "job" / "out.log", f"step 1\n{shell}{end}\n")
    assert report.diagnoses[0].id == "process_ended"
    assert "SIGKILL" in report.diagnoses[0].title


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("step 1\nCommand terminated by signal 9\n\tExit status: 0\n\tPage size (bytes): 4096\n",
         "process_ended"),
        ("Error: DriverError(CUDA_ERROR_OUT_OF_MEMORY)\n\nCaused by:\n    DriverError(CUDA_ERROR_"
         "OUT_OF_MEMORY)\n", "last_words"),
        ("========= Invalid __global__ write of size 4 bytes\n=========     at k(float *)+0x2c0\n"
         "========= ERROR SUMMARY: 1 error\n", "last_words"),
        (" *** caught segfault ***\naddress 0x18, cause 'memory not mapped'\n", "rank_crashed"),
        ("   2 | 01/02/2026 | 03:04:05 | Memory #0x53 | Uncorrectable ECC | Asserted\n"
         "   3 | 01/02/2026 | 03:04:09 | System Event #0x12 | OEM boot event | Asserted\n",
         "last_words"),
        ('Traceback (most recent call last):\n  File "a.py", line 5, in step\n    sys.exit(1)\n'
         "SystemExit: 1\n", "rank_raised"),
        ("Tested 2 GPUs:\n\tGPU 0: OK\n\tGPU 1: FAULTY\n", "last_words"),
        ("Found one Java-level deadlock:\n=======\n\nFound 1 deadlock.\n", "last_words"),
        ("docker: Error response from daemon: could not select device driver.\nERRO[0000] error "
         "waiting for container: context canceled\n", "last_words"),
        ("State: OUT_OF_MEMORY (exit code 0)\nNodes: 2\nCPU Utilized: 10:01:11\n", "process_ended"),
        ("[I 2026-01-02 03:04:05.678 ServerApp] AsyncIOLoopKernelRestarter: restarting kernel "
         "(1/5), keep random ports\n[I 2026-01-02 03:05:05.678 ServerApp] Saving file at /a\n",
         "rank_exited_silently"),
        ("step 1\nWindows fatal exception: access violation\n\nCurrent thread 0x00000001 (most "
         'recent call first):\n  File "C:\\a.py", line 6 in run\n', "rank_crashed"),
    ],
)  # fmt: skip
def test_who_watched_says_how_it_ended(tmp_path: Path, text: str, rule: str) -> None:
    report = _report(tmp_path / "job" / "out.log", text)
    assert report.failed
    assert report.diagnoses[0].id == rule


@pytest.mark.parametrize(
    "text",
    [
        "step 1\nCommand being timed: fit\n\tExit status: 0\n",
        "State: COMPLETED (exit code 0)\nNodes: 2\n",
        "critical_warning\t\t: 0\nmedia_errors\t\t: 0\n",
        "   2 | 01/02/2026 | 03:04:05 | Memory #0x53 | Correctable ECC | Asserted\n",
        "exit_status  0\nru_wallclock 4211s\n",
        "==71== Memcheck, a memory error detector\n==71== ERROR SUMMARY: 0 errors\n",
        "Tested 2 GPUs:\n\tGPU 0: OK\n\tGPU 1: OK\n",
        "[I 2026-01-02 03:04:05.678 ServerApp] Kernel restarted: 0a1b\n",
        "Windows fatal exception: code 0xe06d7363\n\nThread 0x01 (most recent call first):\n"
        '  File "C:\\a.py", line 6 in run\n'
        + "".join(f"step {i} loss 0.{i}\n" for i in range(1, 9)),
    ],
)
def test_who_watched_saw_nothing_bad(tmp_path: Path, text: str) -> None:
    assert not _report(tmp_path / "job" / "out.log", text).failed


@pytest.mark.parametrize(
    ("above", "cited"),
    [
        ("blas_thread_init: pthread_create failed for thread 6 of 9: Resource temporarily "
         "unavailable\nblas_thread_init: or set a smaller OPENBLAS_NUM_THREADS\n", 2),
        ("Loaded model in 4.1s\nFound 3 rows\n", None),
    ],
)  # fmt: skip
def test_what_a_fault_may_follow_from(tmp_path: Path, above: str, cited: int | None) -> None:
    text = f"step 1\n{above}Segmentation fault (core dumped)\n"
    evidence = _report(tmp_path / "job" / "out.log", text).diagnoses[0].evidence
    lines = [int(one.where.rpartition(":")[2]) for one in evidence]
    assert lines == [4, cited] if cited else [4]


@pytest.mark.parametrize(
    ("line", "failed"),
    [
        ("EXT4-fs (nvme0n1p2): Remounting filesystem read-only", True),
        ("blk_update_request: I/O error, dev sr0, sector 0 op 0x0:(READ)", False),
    ],
)
def test_a_file_system_that_fails_ends_programs(tmp_path: Path, line: str, failed: bool) -> None:
    """The log of the kernel alone; a drive without a medium gives errors too."""
    log = f"[ 1234.567890] usb 1-1: new device\n[ 1235.567890] {line}\n"
    assert _report(tmp_path / "job" / "dmesg.txt", log).failed is failed


def test_the_journal_of_one_unit_is_its_log() -> None:
    """Systemd tells in it how the unit began and ended."""
    row = "Jan 02 03:04:0{} n1 {}: {}\n"
    unit = row.format(1, "systemd[1]", "Started fit.service - Fit.") + "".join(
        row.format(i, "python[71]", f"step {i}") for i in range(2, 6)
    )
    assert not looks_like_kernel_log(unit.encode(), "journal.txt")
    several = unit + row.format(7, "kernel", "usb 1-1: new device") + row.format(8, "sshd[9]", "in")
    assert looks_like_kernel_log(several.encode(), "journal.txt")


def test_a_dump_that_others_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.dmp").write_bytes(b"MDMP\x93\xa7" + bytes(range(256)) * 9)
    with pytest.raises(EvidenceError) as error:
        triage.analyse([str(tmp_path)], triage.TriageOptions())
    assert error.value.hint is not None
    assert "minidump" in error.value.hint
