"""Signatures of real crashes, and what many cores fold into."""

import gzip
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from builders.commands import run, run_here
from builders.prose import Prose
from builders.schema import validate
from live.conftest import CrashedProcess
from live.test_python_frames import interpreters

pytestmark = [pytest.mark.cores, pytest.mark.cxx]
PROGRAM = Path(__file__).parents[1] / "programs" / "crash_sites.py"
FLAGS = ("-shared", "-fPIC", "-O1", "-g", "-pthread")
Crash = Callable[..., CrashedProcess]


@pytest.fixture
def library(compiled: Callable[..., Path]) -> Path:
    return compiled("crash_sites.cpp", *FLAGS, to="libsites.so")


def core(
    crash: Crash, library: Path, site: str, *more: object, python: str = sys.executable, **env: str
) -> Path:
    return crash([python, PROGRAM, library, site, *map(str, more)], **env).core


def explained(*arguments: object, status: int = 1) -> dict[str, Any]:
    done = run_here("core", *arguments, "--json")
    assert done.returncode == status, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    validate(report)
    return report


def signature(path: Path, engine: str = "native") -> dict[str, str]:
    found: dict[str, str] = explained(path, "--engine", engine)["signature"]
    return found


def test_many_runs_are_one_crash(crash: Crash, library: Path) -> None:
    runs = [core(crash, library, "store_at", n, RANK=str(n), WORLD_SIZE="8") for n in range(4)]
    runs.append(core(crash, library, "store_at", 5, "in_thread", RANK="5", WORLD_SIZE="8"))
    other = core(crash, library, "load_from", RANK="7", WORLD_SIZE="8")
    report = explained("--fold", *runs, other)
    assert (report["kind"], report["cores_read"], report["cores_unread"]) == ("cores", 6, 0)
    stores, loads = report["signatures"]
    assert stores["summary"] == "SIGSEGV in write_through (libsites) <- crash_sites.step"
    assert (stores["count"], stores["ranks"]) == (5, [0, 1, 2, 3, 5])
    assert (loads["count"], loads["ranks"]) == (1, [7])
    assert loads["summary"] == "SIGSEGV in load_from (libsites) <- crash_sites.step"
    assert stores["first"] == str(runs[0]) == report["first"]
    assert stores["newest"] == stores["example"] == str(runs[-1])
    assert [row["rank"] for row in stores["cores"]] == [0, 1, 2, 3, 5]
    assert len({row["pid"] for row in stores["cores"]}) == 5
    assert report["diagnoses"][0]["evidence"][0]["where"].startswith(f"{runs[-1].name}: ")


def test_the_same_place_called_from_elsewhere_is_another_crash(crash: Crash, library: Path) -> None:
    step = signature(core(crash, library, "store_at"))
    evaluate = signature(core(crash, library, "store_at@evaluate"))
    assert step["hash"] != evaluate["hash"]
    assert evaluate["summary"].endswith("<- crash_sites.evaluate")


@pytest.mark.gdb
@pytest.mark.parametrize("site", ["store_at", "copy_to", "give_up", "store_from_threads"])
def test_all_engines_give_the_same(crash: Crash, library: Path, site: str) -> None:
    path = core(crash, library, site, 2)
    found = signature(path)
    assert signature(path, "gdb") == signature(path, "auto") == found
    again = core(crash, library, site, 3)
    assert signature(again) == found


def test_a_stripped_c_library_call_and_versions_of_the_file_do_not_count(
    crash: Crash, library: Path, tmp_path: Path
) -> None:
    strip = shutil.which("strip")
    if strip is None:
        pytest.skip("no strip")
    stripped = tmp_path / "elsewhere" / "libsites.so.1.2"
    stripped.parent.mkdir()
    subprocess.run([strip, "-o", stripped, library], check=True)
    for site in ("load_from", "copy_to", "give_up"):  # exported: their names stay
        assert signature(core(crash, library, site)) == signature(core(crash, stripped, site))
    first = signature(core(crash, stripped, "store_at"))
    assert first == signature(core(crash, stripped, "store_at", 3))
    assert first["summary"].startswith("SIGSEGV in libsites+0x")
    assert first["hash"] != signature(core(crash, stripped, "load_from"))["hash"]


def test_a_stack_that_overflows_ends_anywhere_in_the_recursion(crash: Crash, library: Path) -> None:
    main = signature(core(crash, library, "dig"))
    worker = signature(core(crash, library, "dig", 1, "in_thread"))
    assert main == worker
    assert main["summary"].startswith("SIGSEGV ")
    assert "deeper (libsites)" in main["summary"]


def test_interpreters_agree(crash: Crash, library: Path) -> None:
    found = {
        signature(core(crash, library, "copy_to", 1, python=python))["summary"]
        for python in interpreters()
        if "3.14" not in python
    }
    (summary,) = found
    assert summary.endswith(" <- copy_to (libsites) <- crash_sites.step")


def test_a_folder_with_what_cannot_be_read(crash: Crash, library: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cores"
    (folder / "node2").mkdir(parents=True)
    whole = core(crash, library, "load_from", RANK="0")
    (folder / "core.1").write_bytes(whole.read_bytes())
    (folder / "node2" / "core.2.gz").write_bytes(
        gzip.compress(core(crash, library, "load_from", 2, RANK="1").read_bytes(), 1)
    )
    (folder / "core.3").write_bytes(whole.read_bytes()[:300])
    (folder / "core.4").write_text("not a core")
    (folder / "core.5").write_bytes(whole.read_bytes())  # the same crash again
    report = explained(folder, "--fold")
    (only,) = report["signatures"]
    assert (only["count"], only["ranks"]) == (2, [0, 1])
    told = {Path(p["where"]).name: p["what"] for p in report["problems"]}
    assert {"core.1", "core.5"} & told.keys()
    assert {"core.3", "core.4"} <= told.keys()
    # without --fold a folder still means its newest core
    assert explained(folder)["kind"] == "core"


def test_cut_cores_are_told_apart_and_with_what_they_fit(crash: Crash, library: Path) -> None:
    whole = core(crash, library, "store_at")
    other = core(crash, library, "store_at", 2)
    cut = other.with_name("core.cut")
    cut.write_bytes(other.read_bytes()[: other.stat().st_size * 97 // 100])
    found = explained("--fold", whole, cut)["signatures"]
    assert [row["count"] for row in found] == [1, 1]
    by_path = {row["newest"]: row for row in found}
    assert by_path[str(cut)]["likely_same_as"] == by_path[str(whole)]["hash"]
    assert by_path[str(whole)]["likely_same_as"] is None
    assert by_path[str(cut)]["cores"][0]["truncated"]


def test_nothing_to_fold_is_no_report(tmp_path: Path, prose: Prose) -> None:
    done = run("--fold", tmp_path)
    assert (done.returncode, done.stdout) == (3, "")
    prose(done.stderr)


def test_options_about_one_core_are_refused(tmp_path: Path) -> None:
    for options in (["--fold", "--thread", "3"], ["a", "b", "--slim", "out"]):
        done = run(*options, cwd=tmp_path)
        assert done.returncode == 2
        assert options[-2] in done.stderr
