"""``postmortem doctor`` on whatever machine the tests run on."""

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from builders.commands import run_here
from builders.prose import Prose
from builders.schema import validate

pytest.importorskip("postmortem._native")


HARD = resource.getrlimit(resource.RLIMIT_CORE)[1]


def doctor(*words: str, soft_limit: int) -> subprocess.CompletedProcess[str]:
    before = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (soft_limit, HARD))
    try:
        return run_here("doctor", *words)
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, before)


def test_every_finding_that_is_not_in_order_comes_with_its_fix() -> None:
    done = doctor("--json", soft_limit=0)
    assert done.stderr == ""
    report = json.loads(done.stdout)
    validate(report)
    checks = {check["name"]: check for check in report["checks"]}
    assert len(checks) == len(report["checks"])
    wanted = {"gdb", "core limit", "core_pattern", "ptrace scope", "coredump_filter", "strace"}
    assert wanted | {"py-spy", "debug symbols of libc", "CUDA module"} <= checks.keys()
    assert all(check["found"] and check["why"] for check in checks.values())
    assert all(c["fix"] for c in checks.values() if c["status"] not in ("ok", "unknown"))
    assert checks["core limit"]["status"] == "missing"
    assert "ulimit -c unlimited" in checks["core limit"]["fix"]


def test_a_limit_that_is_no_limit_is_in_order() -> None:
    done = doctor("--json", soft_limit=HARD)
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    limit = checks["core limit"]
    assert limit["status"] == "ok" or "hard 0 bytes" in limit["found"]


def test_it_ends_with_1_where_a_crash_leaves_nothing() -> None:
    done = doctor("-q", soft_limit=0)
    assert done.returncode == 1
    assert "core limit" in done.stdout


@pytest.mark.parametrize(("pattern", "after"), [("core.%p", "core.%p"), ("core", "core.%e.%p.%t")])
def test_fix_mends_the_shell_that_called(
    pattern: str, after: str, tmp_path: Path, prose: Prose
) -> None:
    """In namespaces, where core_pattern is a file of the test's."""
    hard = "unlimited" if HARD == resource.RLIM_INFINITY else str(HARD // 1024)
    if HARD == 0:
        pytest.skip("the hard limit for cores is 0")
    place = tmp_path / "pattern"
    place.write_text(f"{pattern}\n")
    doctor = f"{sys.executable} -m postmortem doctor --fix -q"
    script = f"""
        mount --bind "{place}" /proc/sys/kernel/core_pattern || exit 77
        ulimit -S -c 0; echo 0x32 > /proc/self/coredump_filter
        {doctor}; echo "rc $?"; ulimit -S -c; cat /proc/$$/coredump_filter
        {doctor}
    """
    command = ["unshare", "--map-root-user", "--mount", "bash", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip(f"no namespaces here: {done.stderr}")
    lines = done.stdout.splitlines()
    assert "rc 0" in lines, done.stdout + done.stderr
    at = lines.index("rc 0")
    assert lines[at + 1] == hard
    assert int(lines[at + 2], 16) & 0x33 == 0x33
    assert "mended: core limit: soft limit 0 ->" in done.stderr
    assert f"mended: core_pattern: {pattern!r} ->" in done.stderr or pattern == after
    prose(done.stderr.splitlines()[-1])  # the second time
    assert place.read_text() == f"{after}\n"
