"""Cores of AMD's GPUs, after ROCm's public sources: what is listed, and what is not claimed."""

import io
import json
import struct
from pathlib import Path

import pytest

from builders.elf import PF_R, PF_X, PT_LOAD, PT_NOTE, elf_header, note, program_header
from builders.prose import Prose
from builders.schema import validate
from postmortem.analyses.gpu_core import analyse_gpu
from postmortem.errors import EvidenceError
from postmortem.readers.opening import is_gpu_core
from postmortem.render.json import render
from postmortem.report.model import Outcome

EM_AMDGPU = 224
CODE = 0x7F5500000000


def _agent(identity: int, target: int, exceptions: int = 0) -> bytes:
    windows = struct.pack("<7Q", exceptions, *range(1, 7))
    return windows + struct.pack(
        "<16I", identity, 0xC5 << 8, 0x1002, 0x74A1, 0, 0, 0, 0, target, 1216, 8, 32, 2, 8, 0, 0
    )


def _queue(number: int, agent: int, exceptions: int = 0) -> bytes:
    rest = struct.pack("<6I", number, agent, 1 << 20, 2, 3 << 20, 0)
    return struct.pack("<5Q", exceptions, 1, 2, 3, 4) + rest


def _core(agents: list[bytes], queues: list[bytes], *, claim: int | None = None) -> bytes:
    count = len(agents) if claim is None else claim
    state = struct.pack("<QIIQIIII", 1, 1, 18, 16, count, 120, len(queues), 64)
    state += bytes(16) + b"".join(agents) + b"".join(queues)
    notes = note(b"AMDGPU\0", 33, state)
    code = elf_header(type=3, machine=EM_AMDGPU).ljust(4096, b"\0") + bytes(4096)
    at = 64 + 2 * 56
    headers = program_header(PT_NOTE, 0, at, 0, len(notes), len(notes))
    headers += program_header(
        PT_LOAD, PF_R | PF_X, at + len(notes), CODE - 4096, 4096 + len(code), 4096 + len(code)
    )
    header = elf_header(machine=EM_AMDGPU, phnum=2)
    return header + headers + notes + bytes(4096) + code


def _body(tmp_path: Path, data: bytes) -> dict[str, object]:
    path = tmp_path / "gpucore.4711"
    path.write_bytes(data)
    assert is_gpu_core(path)
    report = analyse_gpu(path)
    out = io.StringIO()
    render(report, out)
    document: dict[str, object] = json.loads(out.getvalue())
    validate(document)
    assert (report.failed, report.outcome, report.diagnoses) == (False, Outcome.UNKNOWN, ())
    return document


def test_agents_queues_and_code_are_listed(tmp_path: Path, prose: Prose) -> None:
    agents = [_agent(7, 90402), _agent(9, 90010, exceptions=1 << 32)]
    body = _body(tmp_path, _core(agents, [_queue(0, 9, exceptions=1 << 4), _queue(1, 7)]))
    assert body["vendor"] == "AMD"
    assert body["process"] == {"pid": 4711, "hostname": None}
    assert body["driver"] == "KFD 1.18"
    first, second = body["devices"]  # type: ignore[misc]
    assert (first["name"], first["architecture"], first["bus"]) == (
        "AMD GPU 1002:74a1",
        "gfx942",
        "c5:00",
    )
    assert second["architecture"] == "gfx90a"
    prose(*second["exceptions"])
    queue = body["queues"][0]  # type: ignore[index]
    assert (queue["device"], queue["saved_bytes"]) == (1, 3 << 20)
    prose(*queue["exceptions"])
    assert body["code_objects"] == [f"0x{CODE:016x}"]
    prose(str(body["verdict"]))


@pytest.mark.parametrize("claim", [3, 0xFFFFFFFF])
def test_a_state_that_claims_more_is_told_as_cut(tmp_path: Path, claim: int, prose: Prose) -> None:
    body = _body(tmp_path, _core([_agent(7, 90402)], [], claim=claim))
    prose(*[row["where"] for row in body["problems"]])  # type: ignore[attr-defined]
    assert len(body["devices"]) == 1  # type: ignore[arg-type]


def test_without_the_note_it_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "gpucore.1"
    path.write_bytes(elf_header(machine=EM_AMDGPU, phnum=0).ljust(256, b"\0"))
    with pytest.raises(EvidenceError, match="without the note"):
        analyse_gpu(path)


def test_every_cut_gives_a_report_or_a_refusal(tmp_path: Path) -> None:
    data = _core([_agent(7, 90402)], [_queue(0, 7)])
    path = tmp_path / "gpucore.1"
    for end in range(64, len(data), 37):
        path.write_bytes(data[:end])
        try:
            report = analyse_gpu(path)
        except EvidenceError:
            continue
        assert report.inputs[0].truncated
