"""Small parts of the core reader that need no core."""

import os
import signal
import sys
from pathlib import Path

import pytest

from builders.facts import read_core
from builders.prose import Prose
from postmortem.errors import EvidenceError
from postmortem.readers.executable import resolve_executable
from postmortem.readers.launcher import Placement, find_hostname, find_placement
from postmortem.readers.siginfo import code_name, signal_name

BARE = {"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "8"}
TORCH = BARE | {"TORCHELASTIC_RUN_ID": "none"}
SLURM = {"SLURM_PROCID": "5", "SLURM_LOCALID": "1", "SLURM_NTASKS": "16"}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "2",
    "OMPI_COMM_WORLD_LOCAL_RANK": "2",
    "OMPI_COMM_WORLD_SIZE": "4",
}


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({}, Placement()),
        (BARE, Placement(3, 1, 8, None)),
        (TORCH, Placement(3, 1, 8, "torchrun")),
        (SLURM, Placement(5, 1, 16, "SLURM")),
        (OPEN_MPI, Placement(2, 2, 4, "Open MPI")),
        (TORCH | SLURM | OPEN_MPI, Placement(3, 1, 8, "torchrun")),
        (SLURM | OPEN_MPI, Placement(2, 2, 4, "Open MPI")),
        (TORCH | {"ACCELERATE_MIXED_PRECISION": "bf16"}, Placement(3, 1, 8, "accelerate")),
        (TORCH | {"CROSS_RANK": "0", "CROSS_SIZE": "1"}, Placement(3, 1, 8, "DeepSpeed")),
        ({"RANK": "4"}, Placement(4, None, None, None)),
        ({"RANK": "4", "TORCHELASTIC_RUN_ID": "x"}, Placement(4, None, None, "torchrun")),
        ({"LOCAL_RANK": "1"}, Placement(None, 1, None, None)),
        ({"RANK": "best"} | SLURM, Placement(5, 1, 16, "SLURM")),
        ({"RANK": "-1", "WORLD_SIZE": "8"}, Placement()),
        ({"RANK": "8", "WORLD_SIZE": "8"}, Placement()),
        ({"RANK": "²", "WORLD_SIZE": "8"}, Placement()),
        ({"RANK": "0", "WORLD_SIZE": "many"}, Placement(0, None, None, None)),
        ({"RANK": "9" * 30}, Placement()),
        ({"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1"}, Placement(1, 1, 2, "MPICH")),
        ({"PMI_RANK": "5", "PMI_SIZE": "16"} | SLURM, Placement(5, 1, 16, "SLURM")),
        ({"PMIX_RANK": "7"}, Placement(7, None, None, "PMIx")),
        (
            {"MV2_COMM_WORLD_RANK": "1", "MV2_COMM_WORLD_SIZE": "2"},
            Placement(1, None, 2, "MVAPICH"),
        ),
        (
            {"FLUX_TASK_RANK": "1", "FLUX_TASK_LOCAL_ID": "0", "FLUX_JOB_SIZE": "2"},
            Placement(1, 0, 2, "Flux"),
        ),
        (
            {"HOROVOD_RANK": "1", "HOROVOD_LOCAL_RANK": "1", "HOROVOD_SIZE": "2"},
            Placement(1, 1, 2, "Horovod"),
        ),
    ],
)
def test_placement(env: dict[str, str], expected: Placement) -> None:
    assert find_placement(env) == expected


def test_node_name_of_the_launcher_wins() -> None:
    assert find_hostname({"HOSTNAME": "login1", "SLURMD_NODENAME": "gpu007"}) == "gpu007"
    assert find_hostname({"HOSTNAME": ""}) is None


def test_signal_names_are_those_of_this_machine() -> None:
    for known in signal.Signals:
        if known in (signal.SIGRTMIN, signal.SIGRTMAX):
            continue
        assert signal.Signals[signal_name(known)] is known
    assert signal_name(34) == "SIGRTMIN"
    assert signal_name(64) == "SIGRTMIN+30"
    assert signal_name(0) == "signal 0"


@pytest.mark.parametrize(
    ("number", "code", "name"),
    [
        (11, 1, "SEGV_MAPERR"),
        (11, 128, "SI_KERNEL"),
        (11, 99, None),
        (7, 2, "BUS_ADRERR"),
        (7, 4, "BUS_MCEERR_AR"),
        (4, 2, "ILL_ILLOPN"),
        (8, 1, "FPE_INTDIV"),
        (6, -6, "SI_TKILL"),
        (15, 0, "SI_USER"),
        (5, 1, "TRAP_BRKPT"),
        (31, 1, "SYS_SECCOMP"),
        (29, 1, "POLL_IN"),
    ],
)
def test_code_names(number: int, code: int, name: str | None) -> None:
    assert code_name(number, code) == name


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


REAL = os.path.realpath(sys.executable)


def test_links_are_followed_in_silence(tmp_path: Path) -> None:
    link = tmp_path / "venv" / "bin" / "python"
    link.parent.mkdir(parents=True)
    link.symlink_to(sys.executable)
    resolved = resolve_executable(str(link))
    assert (resolved.path, resolved.problems) == (REAL, ())


@pytest.mark.parametrize(
    "line",
    [
        f"#!{sys.executable}\n",
        f"#!{sys.executable} -u -X dev\n",
        "#!/usr/bin/env python-here\n",
        "#!/usr/bin/env -S PYTHONUNBUFFERED=1 python-here -u\n",
        f"#!/bin/sh\n'''exec' \"{sys.executable}\" \"$0\" \"$@\"\n' '''\n",
    ],
)
def test_scripts_lead_to_their_interpreter(tmp_path: Path, line: str) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python-here").symlink_to(sys.executable)
    given = script(tmp_path / "torchrun", line + "import sys\n")
    resolved = resolve_executable(str(given), search_path=str(tmp_path / "bin"))
    assert resolved.path == REAL
    (problem,) = resolved.problems
    assert problem.where == str(given)
    assert REAL in problem.what


def test_a_venv_folder_leads_to_its_python(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    assert resolve_executable(str(tmp_path)).path == REAL


@pytest.mark.parametrize(
    "text",
    [
        "#!/usr/bin/env bash\nexec pyenv\n",
        "#!/bin/bash\nexec pyenv\n",
        "#!\n",
        "#!/nonexistent/python\n",
        "print()\n",
        "",
    ],
)
def test_what_leads_nowhere_is_told(tmp_path: Path, text: str, prose: Prose) -> None:
    given = script(tmp_path / "given", text)
    resolved = resolve_executable(str(given), search_path=str(tmp_path))
    assert resolved.path is None
    prose(resolved.problems[0].what)
    assert resolved.problems[0].remedy


def test_missing_folder_and_circle_are_told(tmp_path: Path, prose: Prose) -> None:
    prose(resolve_executable(str(tmp_path / "none")).problems[0].what)
    prose(resolve_executable(str(tmp_path)).problems[0].what)
    circle = tmp_path / "circle"
    script(circle, f"#!{circle}\n")
    assert "more than 5 scripts" in resolve_executable(str(circle)).problems[0].what


@pytest.mark.parametrize("content", [b"", b"text", b"\x7fELF", b"\x7fELF" + bytes(60)])
def test_what_is_no_core_is_refused_with_its_path(tmp_path: Path, content: bytes) -> None:
    pytest.importorskip("postmortem._native")
    path = tmp_path / "core"
    path.write_bytes(content)
    with pytest.raises(EvidenceError) as caught:
        read_core(str(path))
    assert str(caught.value).startswith(str(path))
    assert caught.value.hint
