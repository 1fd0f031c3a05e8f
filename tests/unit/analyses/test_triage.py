"""`postmortem triage` and `postmortem PATH...` on folders of evidence."""

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builders.commands import run_here
from builders.memory_snapshots import MIB, Device, stack, write
from builders.prose import Prose
from postmortem.cli.main import main
from postmortem.diagnose.incident.events import Event
from postmortem.diagnose.incident.graph import Incident
from postmortem.present.headline.incident import headline

RUNS = Path(__file__).parents[3] / "corpus" / "ranks" / "runs"
STRACE = Path(__file__).parents[3] / "corpus" / "strace"


def document(*words: object, code: int = 1) -> dict[str, Any]:
    done = run_here(*words, "--json")
    assert done.returncode == code, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def unpacked(name: str, folder: Path) -> Path:
    with tarfile.open(RUNS / f"{name}.tar.xz") as tar:
        tar.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    return folder


def test_one_kind_of_evidence_says_what_its_own_command_says(tmp_path: Path) -> None:
    unpacked("enospc_tee", tmp_path / "job")
    alone = json.loads(run_here("logs", tmp_path / "job", "--json").stdout)
    found = document("triage", tmp_path / "job")
    assert found["verdict"] == alone["verdict"]
    assert found["kind"] == "triage"
    assert found["outcome"] == "failed"
    assert [(r["type"], r["ranks"]) for r in found["roots"]] == [("raised", [0])]
    assert found["victims"][0]["ranks"] == [1, 2, 3]


def test_a_candidate_that_the_verdict_quotes_is_not_said_again(tmp_path: Path) -> None:
    said = "run.sh: line 3: torchrun: command not found"
    (tmp_path / "job.log").write_text(f"{said}\n")
    shown = run_here("triage", tmp_path / "job.log").stdout
    assert shown.count(said) == 1


def test_the_lines_around_the_blamed_one_are_shown(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text("reading shard 7\n/job/run.sh: line 3: 4711 Killed python lumen.py --lr 1\n")
    shown = [line.split() for line in run_here("triage", log).stdout.splitlines()]
    assert ["job.log:1", "reading", "shard", "7"] in shown
    assert [">", "job.log:2"] in [line[:2] for line in shown if "lumen.py" in line]


def test_a_path_without_a_command_is_triage(tmp_path: Path) -> None:
    unpacked("onekill_tee", tmp_path / "job")
    assert document(tmp_path / "job") == document("triage", tmp_path / "job")


def test_an_archive_is_opened_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "t"))
    command = [sys.executable, "-m", "postmortem", str(RUNS / "onekill_tee.tar.xz"), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    assert found["roots"][0]["ranks"] == [3]
    assert [row["kind"] for row in found["evidence"]] == ["archive", "log"]
    assert list((tmp_path / "t").iterdir()) == []


def test_a_report_of_ours_is_evidence(tmp_path: Path, prose: Prose) -> None:
    unpacked("onekill_tee", tmp_path / "job")
    report = run_here("logs", tmp_path / "job", "--json").stdout
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "logs.json").write_text(report)
    assert document(tmp_path / "kept")["roots"][0]["ranks"] == [3]
    (tmp_path / "kept" / "cut.json").write_text(report.partition("puts")[0])
    found = document(tmp_path / "kept")
    assert found["roots"][0]["ranks"] == [3]
    prose(*(row["what"] for row in found["problems"]))


def test_a_recording_explains_the_exception_of_its_process(tmp_path: Path) -> None:
    job = tmp_path / "job"
    job.mkdir()
    pid = 28314
    (job / "rank0.log").write_text(
        "[rank0]: Traceback (most recent call last):\n"
        '[rank0]:   File "train_ckpt.py", line 9, in main\n'
        "[rank0]:     torch.save(state, path)\n"
        "[rank0]: OSError: [Errno 28] No space left on device\n"
        "E1101 10:00:00.000000 1 torch/distributed/elastic/multiprocessing/api.py:874] "
        f"failed (exitcode: 1) local_rank: 0 (pid: {pid}) of binary: /usr/bin/python\n"
    )
    recording = STRACE / "ckpt_enospc.strace.zst"
    (job / "trace.strace.zst").write_bytes(recording.read_bytes())
    found = document(job)
    assert [row["kind"] for row in found["evidence"]] == ["log", "strace"]
    storage = found["roots"][0]
    assert (storage["type"], storage["pid"]) == ("storage failed", pid)
    assert "ckpt_0005.pt" in found["verdict"]
    raised = next(step for step in found["chain"] if step["type"] == "raised")
    assert raised["explained_by"] == [storage["id"]]


def test_a_healthy_run_is_no_failure(tmp_path: Path) -> None:
    unpacked("ok", tmp_path / "job")
    found = document(tmp_path / "job", code=0)
    assert found["roots"] == []
    assert found["outcome"] != "failed"


def test_nothing_to_read_is_one_clear_line(tmp_path: Path, prose: Prose) -> None:
    (tmp_path / "photo.bin").write_bytes(bytes(range(256)))
    done = run_here(tmp_path)
    assert done.returncode == 3
    assert done.stdout == ""
    prose(done.stderr)
    assert "among 1 file\n" in done.stderr
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty.log").touch()
    for name in ("photo.bin", "pipe", "empty.log"):
        prose(run_here(tmp_path / name).stderr)


def test_a_broken_core_costs_only_itself(tmp_path: Path) -> None:
    unpacked("onekill_tee", tmp_path / "job")
    (tmp_path / "job" / "core.1").write_bytes(b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x04\0\x3e\0")
    found = document(tmp_path / "job")
    assert found["roots"][0]["ranks"] == [3]
    broken = next(row for row in found["evidence"] if row["kind"] == "core")
    assert (broken["used"], bool(broken["why"])) == (False, True)


def test_a_snapshot_of_gpu_memory_tells_why_a_rank_raised(tmp_path: Path) -> None:
    device = Device(1024 * MIB)
    device.alloc(1000 * MIB, stack(("forward", 31)))
    device.fail(512 * MIB, 8 * MIB, stack(("backward", 52)))
    write(tmp_path / "snapshot_rank1.pickle", device)
    error = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB."
    (tmp_path / "rank0.log").write_text("step 1 loss 2.0\nstep 2 loss 1.9\n")
    (tmp_path / "rank1.log").write_text(
        "step 1 loss 2.0\nTraceback (most recent call last):\n"
        f'  File "/home/user/train.py", line 52, in backward\n    loss.backward()\n{error}\n'
    )
    found = document("triage", tmp_path)
    (root,) = found["roots"]
    assert (root["type"], root["ranks"]) == ("ran out of GPU memory", [1])
    assert "backward (train.py:52)" in found["verdict"]
    assert "raised" in [row["type"] for row in found["chain"]]
    assert found["restart"]["advice"] == "stop"
    (tmp_path / "rank1.log").write_text(
        "step 1 loss 2.0\nTraceback (most recent call last):\n"
        '  File "/home/user/train.py", line 70, in load\n    data[key]\nKeyError: 7\n'
    )
    found = document("triage", tmp_path)
    assert all(not row["explained_by"] for row in found["chain"] if row["type"] == "raised")


@pytest.mark.parametrize("good", [0, 1], ids=["nothing can be read", "one beside it"])
def test_the_checkpoint_that_is_damaged_explains_who_read_it(tmp_path: Path, good: int) -> None:
    np.save(tmp_path / "step-2.npy", np.zeros(400))
    (tmp_path / "step-9.npy").write_bytes((tmp_path / "step-2.npy").read_bytes()[:900])
    if not good:
        (tmp_path / "step-2.npy").unlink()
    (tmp_path / "train.log").write_text(
        'Traceback (most recent call last):\n  File "/job/t.py", line 9, in <module>\n'
        '  File "/v/lib/python3.11/site-packages/numpy/lib/_npyio_impl.py", line 484, in load\n'
        "EOFError: No data left in file\n"
    )
    found = document("triage", tmp_path)
    assert [(one["type"], one["confidence"]) for one in found["roots"]] == [
        ("file damaged", "likely")
    ]
    assert [step["source"] for step in found["chain"]] == ["logs", "scan"]


def test_a_damaged_checkpoint_that_nobody_read_is_no_cause(tmp_path: Path) -> None:
    (tmp_path / "step-9.npy").write_bytes(b"\x93NUMPY\x01\x00")
    (tmp_path / "train.log").write_text(
        'Traceback (most recent call last):\n  File "/job/t.py", line 9, in <module>\n'
        "EOFError: No data left in file\n"
    )
    found = document("triage", tmp_path)
    assert [one["type"] for one in found["roots"]] == ["raised"]


def test_that_all_went_well_is_not_said_where_a_reader_failed() -> None:
    calm = [{"kind": kind, "outcome": "healthy", "verdict": kind} for kind in ("logs", "strace")]
    nothing = Incident[Event]((), (), ())
    for documents in (calm, calm[:1]):
        assert headline(nothing, documents) != headline(nothing, documents, read=False)


@pytest.mark.parametrize("pid", [81, 82])
def test_a_recorded_wait_for_a_lock_is_of_the_rank_whose_process_it_is(
    tmp_path: Path, pid: int
) -> None:
    for rank in (0, 1):
        text = f"start: rank {rank}/2 pid {80 + rank}\nstep 1 loss 2\nstep 2 loss 2\n"
        (tmp_path / f"rank{rank}.log").write_text(text)
    opens = f'{pid} openat(AT_FDCWD, "/data/ds.lock", O_RDWR) = 13\n'
    (tmp_path / "calls.strace").write_text(f"{opens * 3}{pid} flock(13, LOCK_EX")
    code = main(["triage", str(tmp_path), "--json", "-o", str(tmp_path / "out.json")])
    roots = json.loads((tmp_path / "out.json").read_text())["roots"]
    assert [(one["type"], one["ranks"]) for one in roots] == [("stuck", [1])] * (pid == 81)
    assert code == (pid == 81)


def test_a_pod_that_had_to_go_may_be_started_again(tmp_path: Path) -> None:
    lost = (
        'Traceback (most recent call last):\n  File "/job/train.py", line 50, in step\n'
        "    dist.all_reduce(grad)\nRuntimeError: [../gloo/transport/tcp/pair.cc:534] "
        "Connection closed by peer [10.0.0.4]:5511\n"
    )
    for rank, end in enumerate((lost, lost, "")):
        (tmp_path / f"train-{rank}.log").write_text(f"rank {rank} step 10\n{end}")
    (tmp_path / "events.txt").write_text(
        "LAST SEEN   TYPE     REASON      OBJECT        MESSAGE\n"
        "5m          Normal   Preempted   pod/train-2   Preempted by pod 7b1 on node gpu-4\n"
    )
    found = document("triage", tmp_path)
    (root,) = found["roots"]
    assert (root["type"], root["ranks"]) == ("killed", [2])
    assert found["restart"]["advice"] == "restart"
