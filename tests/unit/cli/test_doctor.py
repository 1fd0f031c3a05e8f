"""``postmortem doctor`` on whatever machine the tests run on."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from builders.schema import validate

pytest.importorskip("postmortem._native")


def doctor(*words: str, soft_limit: str = "unlimited") -> subprocess.CompletedProcess[str]:
    shell = f'ulimit -S -c {soft_limit}; exec "$0" -m postmortem doctor "$@"'
    command = ["sh", "-c", shell, sys.executable, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_every_finding_that_is_not_in_order_comes_with_its_fix() -> None:
    done = doctor("--json", soft_limit="0")
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
    assert "core limit" in report["verdict"]


def test_a_limit_that_is_no_limit_is_in_order() -> None:
    done = doctor("--json", soft_limit="$(ulimit -H -c)")
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    limit = checks["core limit"]
    assert limit["status"] == "ok" or "hard 0 bytes" in limit["found"]
