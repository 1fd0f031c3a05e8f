"""A GPU's dump beside the logs of a job: the kernel explains the error that they tell of."""

import json
from pathlib import Path
from typing import Any

import pytest

from builders.cubins import Cubin, LineRow
from builders.cudacores import CudaCore
from builders.prose import Prose
from postmortem.cli.main import main
from postmortem.run.explain import explain
from postmortem.run.facts import Process, RunFacts

LOG = """\
node1:4711:4711 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>
node1:4711:4802 [0] NCCL INFO comm 0x55d rank 0 nranks 2 cudaDev 0 busId 18000 - Init START
step 1 loss 2.3
"""
FAILED = """\
Traceback (most recent call last):
  File "/job/train.py", line 88, in <module>
    main()
  File "/job/train.py", line 61, in main
    print(loss.item())
RuntimeError: CUDA error: {error}
CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace \
below might be incorrect.
"""
ILLEGAL = "an illegal memory access was encountered"


def _dump(code: int = 14) -> bytes:
    cubin = Cubin()
    entry = cubin.kernel("_Z5scalePii", 0x100, [LineRow(0, 5), LineRow(0x40, 7)])
    core = CudaCore()
    device = core.device().context(tid=4712).module(1, cubin.build())
    device.grid(7, entry, (4, 1, 1), (64, 1, 1))
    warp = device.processor(3).block(7, (2, 0, 0)).warp(1)
    warp.all_at(entry + 0x40, first=(32, 0, 0))
    warp.lanes[5].exception = code
    return core.build()


def _triage(folder: Path, tmp_path: Path) -> tuple[int, dict[str, Any]]:
    out = tmp_path / "triage.json"
    code = main(["triage", str(folder), "--json", "-o", str(out)])
    return code, json.loads(out.read_text())


def _job(folder: Path, error: str = ILLEGAL, dump: str = "core.node1.4812.nvcudmp") -> Path:
    folder.mkdir()
    other = LOG.replace("4711", "4812").replace("4802", "4903").replace("rank 0", "rank 1")
    (folder / "rank0.log").write_text(LOG)
    (folder / "rank1.log").write_text(other + FAILED.format(error=error))
    (folder / dump).write_bytes(_dump())
    return folder


def test_the_kernel_is_the_root_and_explains_pythons_error(tmp_path: Path, prose: Prose) -> None:
    code, found = _triage(_job(tmp_path / "job"), tmp_path)
    assert code == 1
    (root,) = found["roots"]
    assert root["type"] == "kernel failed on the GPU"
    prose(root["what"])
    assert root["ranks"] == [1]
    chain = {row["type"]: row for row in found["chain"]}
    assert chain["raised"]["explained_by"] == [root["id"]]
    assert chain["raised"]["confidence"] in ("certain", "likely")


def test_a_dump_without_a_pid_is_joined_by_the_words(tmp_path: Path) -> None:
    _, found = _triage(_job(tmp_path / "job", dump="gpu.nvcudmp"), tmp_path)
    (root,) = found["roots"]
    assert root["type"] == "kernel failed on the GPU"


@pytest.mark.parametrize(
    ("error", "dump"),
    [
        # Another process's dump, and an error that no kernel causes.
        (ILLEGAL, "core.node1.999.nvcudmp"),
        ("out of memory", "gpu.nvcudmp"),
    ],
)
def test_what_is_not_of_this_failure_explains_nothing(
    tmp_path: Path, error: str, dump: str
) -> None:
    folder = _job(tmp_path / "job", error, dump)
    if error != ILLEGAL:
        text = (folder / "rank1.log").read_text()
        text = text.replace("RuntimeError: CUDA error:", "torch.OutOfMemoryError: CUDA")
        (folder / "rank1.log").write_text(text[: text.index("CUDA kernel errors")])
    _, found = _triage(folder, tmp_path)
    raised = next(row for row in found["chain"] if row["type"] == "raised")
    causes = {row["id"] for row in found["chain"] if row["type"] == "kernel failed on the GPU"}
    assert not causes & set(raised["explained_by"])


def test_a_dump_that_was_asked_for_is_evidence_and_no_failure(tmp_path: Path) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    (folder / "core.node1.4711.nvcudmp").write_bytes(_dump(0))
    (folder / "rank0.log").write_text(LOG)
    code, found = _triage(folder, tmp_path)
    assert (code, found["outcome"], found["roots"]) == (0, "unknown", [])
    rows = {Path(row["path"]).name: row for row in found["evidence"]}
    assert rows["core.node1.4711.nvcudmp"]["used"]


@pytest.mark.parametrize(("first", "found"), [(4812, True), (4711, False)])
def test_a_run_explains_the_dump_of_the_process_that_failed_first(
    tmp_path: Path, first: int, found: bool
) -> None:
    """The other process's dump was asked for: it tells of no failure."""
    (tmp_path / "gpu").mkdir()
    (tmp_path / "gpu" / "core.node1.4711.nvcudmp").write_bytes(_dump(0))
    (tmp_path / "gpu" / "core.node1.4812.nvcudmp").write_bytes(_dump())
    process = Process(
        *(first, 1, ("python", "train.py"), None, None, None, None, 0.0, 9.0, 1, None),
        raised=True, is_python=True, peak_rss=0, memory=(),
    )  # fmt: skip
    facts = RunFacts(4700, "it exited with 1", False, (process,), process, quiet=True)
    told = {one.kind: one for one in explain(tmp_path, facts, {})}
    assert told["gpu_core"].found == found
    assert ("scale failed" in told["gpu_core"].verdict) == found
