"""Versions from heads of logs and from modules of cores."""

from pathlib import Path

import pytest

from postmortem.facts.memory import Module
from postmortem.facts.versions import LibraryVersion, Versions
from postmortem.readers.versions import joined, library_of, of_modules, versions_in


def told(text: str) -> dict[str, str]:
    return {item.library: item.version for item in versions_in(text, "log").items}


@pytest.mark.parametrize(
    ("line", "library", "found"),
    [
        ("torch==2.1.0+cu121", "torch", "2.1.0+cu121"),
        ("[rank0]: numpy==1.26.4", "numpy", "1.26.4"),
        ("[pip3] torch==2.4.0rc2", "torch", "2.4.0rc2"),
        ("nvidia-nccl-cu12==2.20.5", "nccl", "2.20.5"),
        ("torch                    2.1.0+cu121", "torch", "2.1.0+cu121"),
        ("[conda] pytorch   2.1.0   py3.10_cuda12.1_cudnn8.9.2_0", "torch", "2.1.0"),
        ("PyTorch version: 2.3.1+cu121", "torch", "2.3.1+cu121"),
        ("torch: 2.6.0", "torch", "2.6.0"),
        ("Python version: 3.10.12 (main, Nov 20 2023) [GCC 11.4.0]", "cpython", "3.10.12"),
        ("Libc version: glibc-2.35", "glibc", "2.35"),
        ("Nvidia driver version: 535.104.05", "driver", "535.104.05"),
        ("| NVIDIA-SMI 535.54.03   Driver Version: 535.54.03   CUDA 12.2 |", "driver", "535.54.03"),
        ("numpy cannot be run in\nNumPy 2.1.0 as it may crash", "numpy", "2.1.0"),
    ],
)
def test_lines(line: str, library: str, found: str) -> None:
    assert told(f"starting\n{line}\nstep 1\n")[library] == found


@pytest.mark.parametrize(
    "line",
    [
        "  try: pip install numpy==1.26.4",
        "requires torch==2.1.0 or later",
        "notorch==2.1.0",
        "if torch.__version__ >= '2.1.0': pass",
    ],
)
def test_advice_is_no_version(line: str) -> None:
    assert told(f"{line}\n") == {}


def test_what_ran_is_told_before_what_is_listed() -> None:
    listed = versions_in("nvidia-nccl-cu12==2.20.5\n", "log")
    own = LibraryVersion("nccl", "2.27.5+cuda12.9", "NCCL's own line")
    assert joined([listed, Versions((own,))]).items == (own,)
    (only,) = listed.items
    assert not only.sure
    assert only.where == "log:1"


def test_machine_and_settings() -> None:
    text = "OS: Ubuntu 22.04.3 LTS (aarch64)\n+ CUDA_LAUNCH_BLOCKING=1 python x.py\n"
    text += "h:1:1 [0] NCCL INFO NCCL_NET_GDR_LEVEL set by environment to 0\ntorch: 2.6.0\n"
    read = versions_in(text, "log")
    assert read.machine == "aarch64"
    assert dict(read.variables) == {"CUDA_LAUNCH_BLOCKING": "1", "NCCL_NET_GDR_LEVEL": "0"}


def test_hosts_that_differ() -> None:
    one = versions_in("torch: 2.6.0\nArchitecture:    x86_64\n", "a")
    two = versions_in("torch: 2.7.0\nArchitecture:    aarch64\n", "b")
    both = joined([one, two])
    assert [item.version for item in both.of("torch")] == ["2.6.0", "2.7.0"]
    assert both.machine is None


@pytest.mark.parametrize("text", ["=" * 65536, "torch " * 9999, "a==1\n" * 9999, "\0" * 4096])
def test_hostile(text: str) -> None:
    assert len(versions_in(text, "log").items) <= 64


def test_packages() -> None:
    assert library_of("nvidia_nccl_cu13") == "nccl"
    assert library_of("libucx-cu12") == "ucx"
    assert library_of("requests") is None


def module(path: str, disk: str | None = None, status: str = "unverified") -> Module:
    return Module(path, 0, 4096, status, disk_path=disk)  # type: ignore[arg-type]


def test_names_of_files() -> None:
    paths = ["/usr/lib/libnccl.so.2.18.3", "/lib/libc-2.31.so", "/usr/lib/libcuda.so.535.104.05"]
    read = of_modules(
        map(module, [*paths, "/lib/libc.so.6", "/x/libnccl.so.2"]), "3.11.4", "x86_64"
    )
    assert {item.library: item.version for item in read.items} == {
        "cpython": "3.11.4",
        "nccl": "2.18.3",
        "glibc": "2.31",
        "driver": "535.104.05",
    }
    assert read.machine == "x86_64"


def test_packages_beside_a_module(tmp_path: Path) -> None:
    site = tmp_path / "site-packages"
    for name in ("torch-2.1.0+cu121.dist-info", "nvidia_nccl_cu12-2.18.1.dist-info", "x.dist-info"):
        (site / name).mkdir(parents=True)
    library = str(site / "torch/lib/libtorch.so")
    same = of_modules([module(library, library, "ok")], None, "x86_64")
    assert {(i.library, i.version, i.sure) for i in same.items} == {
        ("torch", "2.1.0+cu121", True),
        ("nccl", "2.18.1", False),
    }
    nccl = str(site / "nvidia/nccl/lib/libnccl.so.2")
    (proven,) = of_modules([module(nccl, nccl, "ok")], None, "x86_64").of("nccl")
    assert proven.sure
    other = of_modules([module(library, library, "unverified")], None, "x86_64")
    assert not any(item.sure for item in other.items)
    gone = str(tmp_path / "gone/site-packages/torch/lib/libtorch.so")
    assert of_modules([module(gone, gone, "ok")], None, "x86_64") == Versions((), "x86_64")


def test_a_version_of_its_own_is_told_before_a_folder(tmp_path: Path) -> None:
    site = tmp_path / "site-packages"
    (site / "nvidia_nccl_cu12-2.18.1.dist-info").mkdir(parents=True)
    library = str(site / "nvidia/nccl/lib/libnccl.so.2.20.5")
    read = of_modules([module(library, library, "ok")], None, "x86_64")
    assert read.items == (LibraryVersion("nccl", "2.20.5", library),)
