"""Reports on core dumps of CUDA GPUs: what is concluded, how sure, and what is said of the rest."""

import gzip
import io
import json
from pathlib import Path

import pytest

from builders.cubins import Cubin, LineRow
from builders.cudacores import CudaCore
from builders.prose import Prose
from builders.schema import validate
from postmortem.analyses.gpu_core import analyse_gpu
from postmortem.cli.main import main
from postmortem.errors import EvidenceError
from postmortem.knowledge.cuda_exceptions import cuda_exception, exceptions
from postmortem.readers.opening import is_gpu_core
from postmortem.render.json import render
from postmortem.report.model import Confidence, Outcome, Report, Role

ROWS = [LineRow(0, 5), LineRow(0x40, 7), LineRow(0x50, 3, inlined_at=2, function="_Z6secondPi")]
NCCL = "_Z39ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE"


def _code(name: str = "_Z5scalePii", rows: list[LineRow] | None = ROWS) -> tuple[bytes, int]:
    cubin = Cubin()
    entry = cubin.kernel(name, 0x100, rows)
    return cubin.build(), entry


def _one(code: int, *, blocking: bool = False, lines: bool = True) -> CudaCore:
    """Return a dump of one block of two warps, of whose second one two threads failed."""
    cubin, entry = _code(rows=ROWS if lines else None)
    core = CudaCore()
    device = core.device().context(tid=4242).module(1, cubin)
    device.grid(7, entry, (2, 1, 1), (64, 1, 1), blocking=blocking, host_tid=4250)
    block = device.processor(3).block(7, (1, 0, 0), shared=b"secret" * 20)
    block.warp(0).all_at(entry + 0x40)
    warp = block.warp(1, error_pc=entry + 0x50)
    for lane in range(32):
        warp.lane(lane, (32 + lane, 0, 0), entry + 0x50, code if lane in (5, 6) else 0,
                  registers=[lane, 0xBEEF])  # fmt: skip
    return core


def _report(tmp_path: Path, core: CudaCore, name: str = "core.node7.4711.nvcudmp") -> Report:
    path = tmp_path / name
    path.write_bytes(core.build())
    report = analyse_gpu(path, verbose=True)
    out = io.StringIO()
    render(report, out)
    validate(json.loads(out.getvalue()))
    return report


@pytest.mark.parametrize("code", sorted(exceptions()))
def test_every_exception_has_a_meaning_and_a_diagnosis(
    tmp_path: Path, code: int, prose: Prose
) -> None:
    report = _report(tmp_path, _one(code))
    top = report.diagnoses[0]
    what = cuda_exception(code)
    assert (top.id, top.role, report.outcome) == ("kernel_failed", Role.ROOT, Outcome.FAILED)
    assert f"scale failed with {what.words} at kernels.cu:3" in top.title
    assert "block (1,0,0)" in top.title
    assert what.cause in top.cause
    assert what.next_steps[0] in top.next_steps
    assert top.about is not None
    assert (top.about.pid, top.about.host) == (4711, "node7")
    prose(top.title)


def test_the_card_has_the_line_of_the_kernel(tmp_path: Path, prose: Prose) -> None:
    shown = _report(tmp_path, _one(14)).highlights
    assert shown is not None
    assert [(place.file, place.line) for place in shown.places] == [("/src/train/kernels.cu", 3)]
    assert [name for name, _ in shown.rows] == ["kernel", "failed"]
    prose(dict(shown.rows)["kernel"])
    assert dict(shown.rows)["failed"].startswith("2 threads in 1 block, on GPU 0")


def test_the_card_of_code_without_lines_has_no_place(tmp_path: Path) -> None:
    shown = _report(tmp_path, _one(14, lines=False)).highlights
    assert shown is not None
    assert shown.places == ()


def test_all_codes_of_the_public_header_are_known(prose: Prose) -> None:
    assert sorted(exceptions()) == list(range(1, 37))
    assert len({one.name for one in exceptions().values()}) == 36
    prose(cuda_exception(99).words)


def test_an_unknown_exception_is_never_certain(tmp_path: Path) -> None:
    top = _report(tmp_path, _one(99)).diagnoses[0]
    assert top.confidence is Confidence.LIKELY
    assert "exception 99" in top.title


def test_a_launch_that_waited_needs_no_other_run(tmp_path: Path) -> None:
    asynchronous = _report(tmp_path, _one(14)).diagnoses[0]
    waited = _report(tmp_path, _one(14, blocking=True)).diagnoses[0]
    assert any("--sync" in step for step in asynchronous.next_steps)
    assert not any("--sync" in step for step in waited.next_steps)


def test_code_without_lines_says_how_to_have_them(tmp_path: Path, prose: Prose) -> None:
    top = _report(tmp_path, _one(14, lines=False)).diagnoses[0]
    prose(top.title)
    assert any("-lineinfo" in step for step in top.next_steps)


def test_a_fault_whose_warps_have_left_is_likely_and_names_no_thread(tmp_path: Path) -> None:
    cubin, entry = _code()
    core = CudaCore()
    device = core.device().context().module(1, cubin)
    device.grid(7, entry, (1, 1, 1), (32, 1, 1))
    device.processor(9, exception=14, error_pc=entry + 0x50, detail="out of range")
    report = _report(tmp_path, core)
    top = report.diagnoses[0]
    assert (top.confidence, top.role) == (Confidence.LIKELY, Role.ROOT)
    assert top.title.endswith("at kernels.cu:3, on multiprocessor 9")
    assert report.body["exceptions"][0]["first"] is None  # type: ignore[index]
    assert any(row.what == "out of range" for row in top.evidence)


def test_a_trap_is_told_only_as_context_beside_an_exception(tmp_path: Path) -> None:
    cubin, entry = _code()

    def trapped() -> CudaCore:
        core = CudaCore()
        device = core.device().context().module(1, cubin)
        device.grid(7, entry, (1, 1, 1), (32, 1, 1))
        block = device.processor().block(7, (0, 0, 0))
        block.warp(0, broken=True, active=1).all_at(entry + 0x40)
        return core

    (alone,) = _report(tmp_path, trapped()).diagnoses
    assert (alone.id, alone.role, alone.confidence) == (
        "kernel_trapped",
        Role.ROOT,
        Confidence.LIKELY,
    )
    both = trapped()
    both.devices[0].processors[0].blocks[0].warp(1).lane(0, (32, 0, 0), entry + 0x50, 1)
    assert [(one.id, one.role) for one in _report(tmp_path, both).diagnoses] == [
        ("kernel_failed", Role.ROOT),
        ("kernel_trapped", Role.CONTEXT),
    ]


@pytest.mark.parametrize("name", ["_Z5scalePii", NCCL])
def test_a_dump_that_was_asked_for_blames_nobody(tmp_path: Path, name: str, prose: Prose) -> None:
    cubin, entry = _code(name)
    core = CudaCore()
    device = core.device().context().module(1, cubin)
    device.grid(7, entry, (2, 1, 1), (512, 1, 1))
    for number in range(2):
        device.processor(number).block(7, (number, 0, 0)).warp(0).all_at(entry + 0x40)
    report = _report(tmp_path, core)
    (only,) = report.diagnoses
    assert (only.id, only.role, only.confidence) == (
        "kernels_stand",
        Role.CONTEXT,
        Confidence.POSSIBLE,
    )
    assert (report.failed, report.outcome) == (False, Outcome.UNKNOWN)
    prose(only.title)
    (stand,) = report.body["stands"]  # type: ignore[misc]
    assert (stand["warps"], stand["blocks"]) == (2, 2)


def test_an_idle_gpu_is_unknown_not_healthy(tmp_path: Path) -> None:
    core = CudaCore()
    core.device().processor()
    report = _report(tmp_path, core)
    assert (report.diagnoses, report.outcome) == ((), Outcome.UNKNOWN)


def test_gzip_whole_and_cut(tmp_path: Path) -> None:
    data = _one(14).build()
    path = tmp_path / "core_1_node7_4711.nvcudmp.gz"
    path.write_bytes(gzip.compress(data))
    assert is_gpu_core(path)
    report = analyse_gpu(path)
    assert report.diagnoses[0].id == "kernel_failed"
    assert report.inputs[0].compression == "gzip"
    assert report.body["process"] == {"pid": 4711, "hostname": "node7"}
    cut = CudaCore(devices=_one(14).devices, global_memory=[(0x7000, bytes(64))]).build()
    # Headers lie at the end here: what is left of them tells of the tables before the cut.
    path.write_bytes(gzip.compress(cut[:-192])[:-12])
    report = analyse_gpu(path)
    assert report.inputs[0].truncated
    assert report.diagnoses[0].id == "kernel_failed"
    assert {row.where for row in report.problems} >= {str(path), "section headers"}


def test_memory_and_registers_come_only_where_asked(tmp_path: Path, prose: Prose) -> None:
    path = tmp_path / "a.nvcudmp"
    path.write_bytes(_one(14).build())
    quiet, asked = analyse_gpu(path), analyse_gpu(path, verbose=True)
    shared = [one.body["registers"]["shared"]["data"] for one in (quiet, asked)]  # type: ignore[index]
    assert (shared[0], bytes.fromhex(shared[1])) == ("", b"secret" * 20)
    shown = [{getattr(one, "title", None) for one in made.blocks} for made in (quiet, asked)]
    assert shown[0] < shown[1]
    prose(*sorted(shown[1] - shown[0]))


def test_the_command_reads_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "core.node7.4711.nvcudmp"
    path.write_bytes(_one(14).build())
    assert main(["core", str(path), "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    validate(document)
    assert document["kind"] == "gpu_core"
    assert main(["core", str(path), "-v"]) == 1
    assert "pid 4711 on node7" in capsys.readouterr().out
    path.write_bytes(_one(14).build()[:500])
    assert main(["core", str(path)]) == 3
    assert "its section headers begin at" in capsys.readouterr().err


def test_what_is_no_dump_of_a_gpu_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"\x7fELF" + bytes(100))
    assert not is_gpu_core(path)
    with pytest.raises(EvidenceError):
        analyse_gpu(path)
