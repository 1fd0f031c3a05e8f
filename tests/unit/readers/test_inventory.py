"""What lies under a path is told by its content, and nothing there can hold us up."""

import gzip
import importlib
import io
import os
import socket
import subprocess
import tarfile
import time
import zipfile
from collections import Counter
from pathlib import Path

import pytest

from builders.prose import Prose
from postmortem.errors import EvidenceError
from postmortem.facts.inventory import Kind
from postmortem.readers import below, inventory
from postmortem.readers.archives import BYTES_EACH, Room, unpack
from postmortem.readers.inventory import take_inventory
from postmortem.readers.ranklogs.sources import find_rank_logs

TRACE = 'Traceback (most recent call last):\n  File "t.py", line 3, in f\nValueError: x\n'
STRACE = '7 openat(AT_FDCWD, "/a", O_RDONLY) = -1 ENOENT (No such file)\n' * 4


def kinds(folder: Path) -> dict[str, Kind]:
    return {Path(item.path).name: item.kind for item in take_inventory([str(folder)]).items}


def test_kinds_are_told_by_content(tmp_path: Path) -> None:
    (tmp_path / "job.log").write_text(TRACE)
    (tmp_path / "trace.txt").write_text(STRACE)
    (tmp_path / "report.json").write_text('{\n  "schema": "postmortem/1",\n  "kind": "core"}')
    (tmp_path / "w.npy").write_bytes(b"\x93NUMPY")
    (tmp_path / "train.py").write_text("print(1)\n")
    (tmp_path / "error.json").write_text('{"message": {}}')
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("job.log", TRACE)
    assert kinds(tmp_path) == {
        "job.log": Kind.LOG,
        "trace.txt": Kind.STRACE,
        "report.json": Kind.DOCUMENT,
        "w.npy": Kind.CHECKPOINT,
        "train.py": Kind.OTHER,
        "error.json": Kind.ERROR_FILE,
        "a.zip": Kind.ARCHIVE,
    }


def test_what_is_no_file_is_not_opened_and_links_lead_nowhere(tmp_path: Path, prose: Prose) -> None:
    os.mkfifo(tmp_path / "rank0.log")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "zero").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        found = take_inventory([str(tmp_path)])
    refused = {Path(item.path).name: item.why for item in found.items if item.why}
    assert set(refused) == {"rank0.log", "zero", "s"}
    prose(*(f"{name}: {why}" for name, why in sorted(refused.items())))


def test_a_path_that_is_not_there_is_an_error(tmp_path: Path, prose: Prose) -> None:
    with pytest.raises(EvidenceError) as refused:
        take_inventory([str(tmp_path / "gone")])
    prose(refused.value)


def test_a_list_of_packages_tells_of_no_job_but_is_read_beside_its_log(tmp_path: Path) -> None:
    (tmp_path / "freeze.txt").write_text("# of the image\nnumpy==2.1.0\ntorch @ file:///t.whl\n")
    found = find_rank_logs([str(tmp_path)])
    assert (found.logs, len(found.problems)) == ((), 1)
    (tmp_path / "train.log").write_text("step 1 loss 0.5\n")
    assert len(find_rank_logs([str(tmp_path)]).logs) == 2
    (tmp_path / "train.log").unlink()
    (tmp_path / "freeze.txt").write_text("numpy==2.1.0\nERROR: no matching distribution\n")
    assert len(find_rank_logs([str(tmp_path)]).logs) == 1


@pytest.mark.parametrize(
    ("text", "logs"),
    [
        ("# of the job\n[Unit]\nDescription=a job\n\n[Service]\nMemoryMax=64G\n", 0),
        ("[train]\nlr = 0.1\nValueError: lr\n", 1),
        ("====NVSMI LOG====\nTimestamp : Sat\nGPU 0:1.0\n    Failure Occurred : No\n", 0),
        ("====NVSMI LOG====\nTimestamp : Sat\nGPU 0:1.0\nValueError: lr\n", 1),
        ("[rank0] step=1\n[rank0] step=2\n", 1),
        ("diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n+raise ValueError('no rows')\n", 0),
        ("--- step 1 ---\n+++ step 2\nValueError: no rows\n", 1),
        ("JobState=FAILED\nReason=NonZeroExitCode\n", 1),
    ],
)
def test_settings_fields_and_changes_are_no_log(tmp_path: Path, text: str, logs: int) -> None:
    (tmp_path / "job.service").write_text(text)
    assert len(find_rank_logs([str(tmp_path)]).logs) == logs


def test_no_more_is_opened_than_the_limit_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prose: Prose
) -> None:
    """Ten times the files cost no more, nor does the same folder twice, and it is said once."""
    opened = []
    monkeypatch.setattr(below, "MOST_FILES", 30)
    real = inventory.open_regular
    monkeypatch.setattr(
        inventory, "open_regular", lambda path: (opened.append(path), real(path))[1]
    )
    counts = []
    for name, number in (("few", 40), ("many", 400)):
        folder = tmp_path / name
        folder.mkdir()
        for index in range(number):
            (folder / f"{index:03}.bin").write_bytes(b"\0")
        (folder / "loop").symlink_to(tmp_path)
        opened.clear()
        found = take_inventory([str(folder)])
        counts.append(len(opened))
        assert len(found.items) == 30
        prose(*[problem.what for problem in found.problems])
    assert counts == [30, 30]


def test_of_many_files_of_one_sort_a_sample_decides(tmp_path: Path) -> None:
    """Captions of a data set are text and no logs; two thousand tasks write logs."""
    for folder, name in (("captions", "{:05}.txt"), ("tasks", "task_{:05}.txt")):
        (tmp_path / folder).mkdir()
        for index in range(1_001):
            (tmp_path / folder / name.format(index)).write_text(f"row {index} runs\n")
    (tmp_path / "captions" / "job.log").write_text("ValueError: bad row\n")
    found = take_inventory([str(tmp_path)])
    assert Counter(Path(item.path).parent.name for item in found.items) == {
        "captions": 1,
        "tasks": 1_001,
    }
    (problem,) = found.problems
    assert problem.where == str(tmp_path / "captions")
    assert "1,001 files like 00000.txt" in problem.what
    logs = find_rank_logs([str(tmp_path)])
    assert len(logs.logs) == 1_002
    assert problem in logs.problems


def _tar(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> None:
    with tarfile.open(path, "w:gz") as tar:
        for info, data in members:
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


def test_names_in_an_archive_cannot_leave_the_folder(tmp_path: Path) -> None:
    target = tmp_path / "in" / "out"
    target.mkdir(parents=True)
    link = tarfile.TarInfo("link")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc"
    _tar(
        tmp_path / "a.tar.gz",
        (tarfile.TarInfo("../../evil.log"), b"x"),
        (tarfile.TarInfo("/abs.log"), b"y"),
        (link, b""),
        (tarfile.TarInfo("link/passwd"), b"z"),
    )
    assert unpack(str(tmp_path / "a.tar.gz"), target, Room(target)) == []
    found = sorted(str(p.relative_to(target)) for p in target.rglob("*") if p.is_file())
    assert found == ["abs.log", "evil.log", "link/passwd"]
    assert not (target / "link").is_symlink()
    assert not (tmp_path / "evil.log").exists()


def test_a_cut_archive_gives_what_came_before_and_says_so(tmp_path: Path, prose: Prose) -> None:
    whole = tmp_path / "whole.tar.gz"
    _tar(whole, (tarfile.TarInfo("a.log"), b"a" * 100), (tarfile.TarInfo("b"), os.urandom(99999)))
    cut = tmp_path / "cut.tar.gz"
    cut.write_bytes(whole.read_bytes()[:-20000])
    (tmp_path / "out").mkdir()
    problems = unpack(str(cut), tmp_path / "out", Room(tmp_path))
    assert (tmp_path / "out" / "a.log").read_bytes() == b"a" * 100
    prose(*[p.what.split(":")[0] for p in problems])


@pytest.mark.parametrize("packed", ["zstd", "lz4"])
def test_a_tar_that_tarfile_has_no_decoder_for_is_unpacked_up_to_a_cut(
    tmp_path: Path, packed: str
) -> None:
    members = ((tarfile.TarInfo("a.log"), b"a" * 100), (tarfile.TarInfo("b"), os.urandom(3 << 20)))
    _tar(tmp_path / "gz", *members)
    plain = gzip.decompress((tmp_path / "gz").read_bytes())
    pack = importlib.import_module("backports.zstd" if packed == "zstd" else "lz4.frame").compress
    for name, cut in (("whole", None), ("cut", -(1 << 20))):
        path = tmp_path / f"{name}.tar.{packed}"
        path.write_bytes(pack(plain)[:cut])
        assert kinds(tmp_path)[path.name] is Kind.ARCHIVE
        (tmp_path / name).mkdir()
        problems = unpack(str(path), tmp_path / name, Room(tmp_path))
        assert (tmp_path / name / "a.log").read_bytes() == b"a" * 100
        assert len(problems) == (cut is not None)


def test_a_bomb_stops_at_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prose: Prose
) -> None:
    monkeypatch.setattr("postmortem.readers.archives.MOST_BYTES", 1 << 20)
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in "abc":
            archive.writestr(name, bytes(1 << 20))
    (tmp_path / "out").mkdir()
    problems = unpack(str(tmp_path / "bomb.zip"), tmp_path / "out", Room(tmp_path))
    prose(*[p.what for p in problems])
    assert sum(p.stat().st_size for p in (tmp_path / "out").iterdir()) <= 1 << 20


def test_archives_share_what_may_be_unpacked(tmp_path: Path, prose: Prose) -> None:
    room = Room(tmp_path)
    room.files = 3
    for name in "ab":
        _tar(tmp_path / name, *((tarfile.TarInfo(f"{i}.log"), b"x") for i in range(2)))
        (tmp_path / f"{name}-out").mkdir()
    assert unpack(str(tmp_path / "a"), tmp_path / "a-out", room) == []
    problems = unpack(str(tmp_path / "b"), tmp_path / "b-out", room)
    prose(*[p.what for p in problems])
    assert [p.name for p in (tmp_path / "b-out").iterdir()] == ["0.log"]


def test_a_name_that_cannot_be_costs_only_its_own_file(tmp_path: Path) -> None:
    names = ["x" * 300, "f", "f/inside", "f", "good.log"]
    _tar(tmp_path / "a.tar.gz", *((tarfile.TarInfo(name), b"y") for name in names))
    (tmp_path / "out").mkdir()
    problems = unpack(str(tmp_path / "a.tar.gz"), tmp_path / "out", Room(tmp_path))
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["f", "good.log"]
    assert [p.what.split()[0] for p in problems] == ["3"]


def test_zeros_of_an_archive_take_no_disk(tmp_path: Path) -> None:
    size = 64 << 20
    _tar(tmp_path / "a.tar.gz", (tarfile.TarInfo("zeros.log"), bytes(size)))
    (tmp_path / "out").mkdir()
    assert unpack(str(tmp_path / "a.tar.gz"), tmp_path / "out", Room(tmp_path)) == []
    made = (tmp_path / "out" / "zeros.log").stat()
    assert made.st_size == size
    assert made.st_blocks * 512 < size // 8


def test_holes_of_an_archive_are_made_not_written(tmp_path: Path) -> None:
    data, end = b"[rank0]: hello\n", 1 << 30
    info = tarfile.TarInfo("rank0.log")
    info.pax_headers = {
        "GNU.sparse.major": "0",
        "GNU.sparse.realsize": str(end),
        "GNU.sparse.map": f"{end - 100},{len(data)},{end},0",
    }
    _tar(tmp_path / "a.tar.gz", (info, data))
    room = Room(tmp_path)
    before = room.bytes
    assert unpack(str(tmp_path / "a.tar.gz"), tmp_path / "out", room) == []
    assert before - room.bytes == len(data)
    with (tmp_path / "out" / "rank0.log").open("rb") as made:
        assert made.seek(0, os.SEEK_END) == end
        made.seek(end - 100)
        assert made.read(len(data)) == data


def test_what_comes_out_is_bounded_by_what_is_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prose: Prose
) -> None:
    monkeypatch.setattr("postmortem.readers.archives.LEAST_BYTES", 0)
    with tarfile.open(tmp_path / "bomb", "w:xz") as tar:
        for name in ("a.log", "b.log"):
            info = tarfile.TarInfo(name)
            info.size = 8 << 20
            tar.addfile(info, io.BytesIO(bytes(info.size)))
    room = Room(tmp_path)
    before = room.bytes
    problems = unpack(str(tmp_path / "bomb"), tmp_path / "out", room)
    prose(*[p.what.split(";")[0] for p in problems])
    assert before - room.bytes == BYTES_EACH * (tmp_path / "bomb").stat().st_size


def test_a_list_of_holes_that_is_cut_is_damage(tmp_path: Path, prose: Prose) -> None:
    info = tarfile.TarInfo("rank0.log")
    head = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    head[156:157], head[482] = b"S", 1  # a file with holes; more of the list follows
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    (tmp_path / "a.tar").write_bytes(head)
    problems = unpack(str(tmp_path / "a.tar"), tmp_path / "out", Room(tmp_path))
    prose(*[p.what.split(":")[0] for p in problems])


def test_headers_of_gigabytes_are_not_read(tmp_path: Path, prose: Prose) -> None:
    name = tarfile.TarInfo("././@LongLink")
    name.type, name.size = tarfile.GNUTYPE_LONGNAME, 1 << 30
    log = tarfile.TarInfo("rank0.log")
    whole = log.tobuf(tarfile.GNU_FORMAT) + name.tobuf(tarfile.GNU_FORMAT)
    (tmp_path / "a.tar").write_bytes(whole)
    problems = unpack(str(tmp_path / "a.tar"), tmp_path / "out", Room(tmp_path))
    prose(*[p.what for p in problems])


def test_folders_in_folders_are_read_to_a_depth(tmp_path: Path) -> None:
    (tmp_path / "job.log").write_text(TRACE)
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(1_500):  # a path of all of them would be too long
        os.mkdir("x", dir_fd=here)
        below_it = os.open("x", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below_it
    os.close(here)
    found = take_inventory([str(tmp_path)])
    assert [Path(item.path).name for item in found.items] == ["job.log"]
    assert ["levels below" in problem.what for problem in found.problems] == [True]
    subprocess.run(["rm", "-rf", str(tmp_path / "x")], check=True)  # shutil's recurses


def test_what_is_unpacked_keeps_the_time_of_its_last_change(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        info = tarfile.TarInfo("run1.log")
        info.size, info.mtime = len(TRACE), 1_700_000_000
        tar.addfile(info, io.BytesIO(TRACE.encode()))
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(zipfile.ZipInfo("run2.log", (2026, 1, 2, 3, 4, 6)), TRACE)
    for name in ("a.tar", "a.zip"):
        assert unpack(str(tmp_path / name), tmp_path, Room(tmp_path)) == []
    assert (tmp_path / "run1.log").stat().st_mtime == 1_700_000_000
    changed = time.localtime((tmp_path / "run2.log").stat().st_mtime)
    assert changed[:6] == (2026, 1, 2, 3, 4, 6)


@pytest.mark.parametrize(
    ("name", "kind"), [("NOTES.txt", "other"), ("readme", "other"), ("notes-of-rank0.txt", "log")]
)
def test_what_a_person_wrote_is_no_log_by_its_name(tmp_path: Path, name: str, kind: str) -> None:
    (tmp_path / name).write_text("thu: it died again, maybe out of memory\n")
    (found,) = take_inventory([str(tmp_path)]).items
    assert found.kind == kind
