"""Every recording of the corpus: the report names the true cause and file, however it was made."""

from pathlib import Path
from typing import Any

import pytest

from builders.recordings import CORPUS, TRUTH, unpacked
from postmortem.analyses.strace import StraceOptions, analyse
from postmortem.report.model import Report

CAUSES = {
    "EDQUOT": "quota_exceeded",
    "EMFILE": "too_many_open_files",
    "ECONNREFUSED": "connection_refused",
}


def cause_of(name: str, truth: dict[str, Any]) -> str | None:
    """Return the rule that explains a recording, by its truth."""
    if truth.get("syscall") == "SIGBUS":
        return "mapped_file_no_room"
    if truth.get("path", "").startswith("/dev/shm/"):
        return "shared_memory_full"
    if truth.get("find") == "ENOSPC":
        return "disk_full" if "inject" not in name else None
    if "missing_library" in truth:
        return "library_not_found"
    if truth.get("blocked") == "futex":
        return "futex_deadlock"
    if truth.get("killed") == "SIGSEGV":
        return "crashed"
    return CAUSES.get(truth.get("find", ""))


CASES = {name: cause for name, truth in TRUTH.items() if (cause := cause_of(name, truth))}


def report_of(name: str, folder: Path) -> Report:
    """Return the report on a recording as it was made: unpacked, the files of -ff side by side."""
    path = CORPUS / name
    if not path.is_dir():
        return analyse([str(path)], StraceOptions())
    for packed in sorted(path.iterdir()):
        plain = folder / packed.name.removesuffix(".zst")
        plain.write_bytes(unpacked(f"{name}/{packed.name}"))
    return analyse([str(folder)], StraceOptions())


@pytest.mark.parametrize("name", sorted(CASES))
def test_the_true_cause_comes_first(name: str, tmp_path: Path) -> None:
    truth = TRUTH[name]
    best = report_of(name, tmp_path).diagnoses[0]
    assert best.id == CASES[name]
    said = " ".join([best.title, best.cause, *(row.what for row in best.evidence)])
    file = truth.get("path", truth.get("missing_library", ""))
    assert file.rpartition("/")[2].split("*")[0].split("#")[0].split('"')[0] in said
    assert "pid " in said


def test_healthy_recordings_have_no_root(tmp_path: Path) -> None:
    for name in ("torchrun_tTy.strace.zst", "dataloader_spawn_tTyy.strace.zst"):
        report = report_of(name, tmp_path)
        assert not [d for d in report.diagnoses if d.role == "root"], report.diagnoses
        assert not report.failed
