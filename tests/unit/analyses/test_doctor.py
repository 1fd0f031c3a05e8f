"""Facts about machines turn into findings with the command that mends them."""

import dataclasses
import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest

from builders.prose import Prose
from postmortem.analyses.doctor import report_on
from postmortem.diagnose.machine.check import Check
from postmortem.diagnose.machine.checks import checks
from postmortem.facts.machine import (
    CoreDestination,
    CorePattern,
    Cpu,
    CudaScan,
    DebugSymbols,
    Machine,
    Space,
    Tool,
)
from postmortem.readers.corepattern import destination
from postmortem.readers.machine import cpu_from, find_tool, nvidia_driver

GIB = 1 << 30

GOOD = Machine(
    python="3.12.1",
    distribution="debian",
    distribution_like=(),
    conda=False,
    root=False,
    gdb=Tool("gdb", "/usr/bin/gdb", "GNU gdb 13.1"),
    core_limit_soft=None,
    core_limit_hard=None,
    core_pattern=CorePattern("core.%p"),
    core_destination=CoreDestination("file", "a file named core.%p", reachable=True),
    core_space=Space("/data", 500 * GIB, 1000 * GIB),
    shared_memory=Space("/dev/shm", 60 * GIB, 64 * GIB),
    container=None,
    ptrace_scope=0,
    coredump_filter=0x33,
    suid_dumpable=0,
    tools=tuple(Tool(n, f"/usr/bin/{n}", "1.0") for n in ("strace", "py-spy", "eu-stack")),
    debuginfod_urls=None,
    symbols=(DebugSymbols("libc", "/lib/libc.so.6", "/usr/lib/debug/x.debug"),),
    lief_version="1.0.0",
    torch_version=None,
    cpu=Cpu("x86_64", "a processor", ("avx2",)),
    glibc="2.36",
    newest_symbol_versions=(("/lib/libstdc++.so.6", "GLIBCXX", "GLIBCXX_3.4.30"),),
)


def check(name: str, **changes: object) -> Check:
    """The check of that name on the good machine with some facts changed."""
    machine = dataclasses.replace(GOOD, **changes)  # type: ignore[arg-type]
    return next(row for row in checks(machine) if row.name == name)


def test_good_machine_has_nothing_to_mend() -> None:
    report = report_on(GOOD)
    assert {row.status for row in checks(GOOD)} == {"ok"}
    assert (report.kind, report.failed) == ("doctor", False)


def test_every_finding_says_why_and_how_to_mend_it() -> None:
    bad = dataclasses.replace(
        GOOD,
        gdb=Tool("gdb", problem="no gdb found"),
        native_module="No module named 'postmortem._native'",
        core_limit_soft=0,
        core_pattern=CorePattern("|/opt/catch %p"),
        core_destination=destination(CorePattern("|/opt/catch %p")),
        core_space=Space("/", GIB, 2 * GIB),
        shared_memory=Space("/dev/shm", 64 << 20, 64 << 20),
        coredump_filter=0,
        ptrace_scope=2,
        tools=tuple(Tool(n, problem="not installed") for n in ("strace", "py-spy", "eu-stack")),
        symbols=(DebugSymbols("libc", "/lib/libc.so.6"),),
        lief_version=None,
    )
    for row in checks(bad):
        assert row.why
        assert row.status == "ok" or row.fix, row.name
    report = report_on(bad)
    assert report.failed
    body = report.body["checks"]
    assert isinstance(body, list)
    assert set(body[0]) == {"name", "said", "status", "found", "why", "fix", "command"}


def test_verdict_says_what_it_means_for_a_crash(golden: Callable[[str, str], None]) -> None:
    no_gdb = Tool("gdb", problem="no gdb found")
    machines = (
        dataclasses.replace(GOOD, core_limit_soft=0, gdb=no_gdb),
        dataclasses.replace(GOOD, gdb=no_gdb),
        dataclasses.replace(GOOD, core_limit_soft=1 << 20),
    )
    golden("doctor.txt", "".join(f"{report_on(one).verdict}\n" for one in machines))


@pytest.mark.parametrize(
    ("soft", "hard", "status", "fix"),
    [
        (None, None, "ok", ""),
        (0, None, "missing", "ulimit -c unlimited"),
        (0, 0, "missing", "limits.d"),
        (1 << 20, None, "warning", "ulimit -c unlimited"),
    ],
)
def test_core_limit(soft: int | None, hard: int | None, status: str, fix: str) -> None:
    row = check("core limit", core_limit_soft=soft, core_limit_hard=hard)
    assert row.status == status
    assert fix in (row.fix or "")


def test_core_limit_in_a_container_is_mended_outside_it() -> None:
    row = check("core limit", core_limit_soft=0, core_limit_hard=0, container="docker")
    assert "docker run --ulimit core=-1" in (row.fix or "")


@pytest.mark.parametrize(
    ("pattern", "container", "status"),
    [
        ("core.%p", None, "ok"),
        ("core", None, "warning"),
        ("|/lib/systemd/systemd-coredump %P", None, "warning"),
        ("|/lib/systemd/systemd-coredump %P", "docker", "missing"),
        ("|/wsl-capture-crash %p", None, "missing"),
        ("", None, "missing"),
    ],
)
def test_core_pattern(pattern: str, container: str | None, status: str) -> None:
    setting = CorePattern(pattern)
    taker = destination(setting, container=container)
    row = check("core_pattern", core_pattern=setting, core_destination=taker, container=container)
    assert row.status == status


@pytest.mark.parametrize(
    ("mask", "status"), [(0x33, "ok"), (0x3F, "ok"), (0x23, "warning"), (0x32, "missing")]
)
def test_coredump_filter(mask: int, status: str) -> None:
    assert check("coredump_filter", coredump_filter=mask).status == status


@pytest.mark.parametrize(
    ("scope", "root", "status"),
    [(None, False, "ok"), (1, False, "warning"), (1, True, "ok"), (3, True, "missing")],
)
def test_ptrace_scope(scope: int | None, root: bool, status: str) -> None:
    assert check("ptrace scope", ptrace_scope=scope, root=root).status == status


def test_shared_memory_of_docker() -> None:
    small = Space("/dev/shm", 64 << 20, 64 << 20)
    row = check("/dev/shm", shared_memory=small, container="docker")
    assert (row.status, "--shm-size" in (row.fix or "")) == ("warning", True)
    full = Space("/dev/shm", GIB, 64 * GIB)
    assert "ls -l /dev/shm" in (check("/dev/shm", shared_memory=full).fix or "")


@pytest.mark.parametrize(
    ("distribution", "like", "root"),
    [
        ("debian", (), False),
        ("debian", (), True),
        ("rocky", ("rhel", "centos", "fedora"), False),
        ("alpine", (), True),
        ("opensuse-leap", ("suse",), False),
        ("nixos", (), False),
    ],
)
def test_install_command_of_the_distribution(
    distribution: str, like: tuple[str, ...], root: bool, prose: Prose
) -> None:
    gdb = Tool("gdb", problem="no gdb found")
    row = check("gdb", gdb=gdb, distribution=distribution, distribution_like=like, root=root)
    prose(row.fix or "")


def test_conda_is_told_first() -> None:
    row = check("gdb", gdb=Tool("gdb", problem="no"), conda=True)
    assert (row.fix or "").startswith("conda install -c conda-forge gdb")


def test_cuda_module_is_told_truthfully() -> None:
    row = check("CUDA module")
    assert (row.status, row.fix) == ("ok", None)
    row = check("CUDA module", nvidia_driver="580.65.06")
    assert (row.status, "580.65.06" in row.found) == ("warning", True)
    assert "POSTMORTEM_CUDA=ON" in (row.fix or "")


@pytest.mark.parametrize(
    ("cuda", "status", "words"),
    [
        (CudaScan("no driver"), "warning", ""),
        (CudaScan("old driver", driver=12040, runtime=13000), "warning", "12.4"),
        (CudaScan("no device"), "warning", ""),
        (CudaScan("broken", "unknown error"), "warning", "unknown error"),
        (CudaScan("cannot be loaded", "GLIBC_2.38"), "warning", "GLIBC_2.38"),
        (CudaScan("usable", runtime=13000, devices=2, architectures="80 90"), "ok", "sm_80, sm_90"),
    ],
)
def test_each_state_of_the_cuda_module_has_its_cure(
    cuda: CudaScan, status: str, words: str
) -> None:
    row = check("CUDA module", nvidia_driver="580.65.06", cuda_scan=cuda)
    assert (row.status, words in row.found) == (status, True), row.found
    assert (row.fix is None) == (status == "ok")


def test_processor_texts() -> None:
    text = "processor\t: 0\nmodel name\t: AMD EPYC 9654\nflags\t\t: fpu avx avx2 avx512f sse\n\n"
    assert cpu_from(text, "x86_64") == Cpu("x86_64", "AMD EPYC 9654", ("avx", "avx2", "avx512f"))
    arm = "processor\t: 0\nFeatures\t: fp asimd sve bf16\n"
    assert cpu_from(arm, "aarch64").features == ("asimd", "sve", "bf16")
    assert cpu_from("", "riscv64") == Cpu("riscv64")


@pytest.mark.parametrize(
    "text",
    [
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32\n",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build\n",
        "something else",
    ],
)
def test_nvidia_driver(tmp_path: Path, text: str, prose: Prose) -> None:
    path = tmp_path / "version"
    path.write_text(text)
    prose(nvidia_driver(path))
    assert nvidia_driver(path.with_name("none")) is None


def test_tool_that_fails_is_not_called_usable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "strace"
    broken.write_text("#!/bin/sh\necho no libunwind >&2\nexit 127\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    tool = find_tool("strace", "-V")
    assert (tool.usable, tool.path) == (False, str(broken))
    assert "no libunwind" in (tool.problem or "")
    assert find_tool("no-such-tool").problem == "not installed"


@pytest.mark.skipif(
    importlib.util.find_spec("postmortem.readers.gdb") is None, reason="the gdb reader is absent"
)
def test_this_machine() -> None:
    from postmortem.analyses.doctor import analyse

    report = analyse()
    names = {row["name"] for row in report.body["checks"]}  # type: ignore[attr-defined]
    assert {"gdb", "core limit", "core_pattern", "ptrace scope", "coredump_filter"} <= names
    assert {"strace", "py-spy", "debug symbols of libc", "CUDA module", "/dev/shm"} <= names
