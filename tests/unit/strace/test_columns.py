"""postmortem.read_strace: every call as NumPy columns."""

import gzip
import re
import subprocess
import sys
from pathlib import Path

import pytest

from builders.prose import Prose
from builders.recordings import CORPUS, puller, recording, unpacked
from postmortem.errors import EvidenceError

np = pytest.importorskip("numpy")

import postmortem  # noqa: E402
from postmortem import _native  # noqa: E402
from postmortem.readers.strace_table import (  # noqa: E402
    DELETED,
    INJECTED,
    JOINED,
    KINDS,
    RETURNED,
    SOURCES,
    UNFINISHED,
    SyscallTable,
)

LOG = """\
7 1700000000.000000001 openat(AT_FDCWD, "/a", O_WRONLY) = 3 <0.000001>
7 1700000000.100000000 dup(3) = 9 <0.000002>
7 1700000000.200000000 write(9, "x", 1 <unfinished ...>
8 1700000000.250000000 getpid() = 8 <0.000001>
7 1700000001.200000000 <... write resumed>) = -1 ENOSPC (No space left on device) <1.000000>
7 1700000001.300000000 unlink("/a") = 0 <0.000003>
7 1700000001.400000000 write(9, "xyz", 3) = 3 <0.000004>
7 1700000001.500000000 write(9, "x", 1) = -1 EIO (Input/output error) (INJECTED) <0.000004>
7 1700000001.600000000 frobnicate(1) = 5 <0.000004>
8 1700000001.700000000 futex(0x7f, FUTEX_WAIT, 0, NULL <unfinished ...>
7 1700000001.800000000 read(9, "abcd", 4 <unfinished ...>
8 1700000001.900000000 +++ killed by SIGKILL +++
"""


def table(tmp_path: Path, text: str) -> SyscallTable:
    path = tmp_path / "log"
    path.write_bytes(text.encode())
    return postmortem.read_strace(path)


def test_every_column_of_a_small_log(tmp_path: Path) -> None:
    got = table(tmp_path, LOG)
    names = [got.syscalls[i] for i in got.syscall]
    assert names == [
        "openat", "dup", "getpid", "write", "unlink", "write", "write", "frobnicate", "futex",
        "read",
    ]  # fmt: skip
    assert got.pid.tolist() == [7, 7, 8, 7, 7, 7, 7, 7, 8, 7]
    assert got.line.tolist() == [1, 2, 4, 5, 6, 7, 8, 9, 10, 11]
    assert got.began_line.tolist() == [1, 2, 4, 3, 6, 7, 8, 9, 10, 11]
    assert got.start_ns[0] == 1_700_000_000_000_000_001  # a float would not hold it
    assert got.start_ns[3] == 1_700_000_000_200_000_000
    assert got.duration_ns[3] == 1_000_000_000
    assert got.duration_ns.tolist()[-2:] == [-1, -1]
    assert np.isnan(got.duration[-2:]).all()
    assert got.duration[3] == 1.0
    assert got.result.tolist() == [3, 9, 8, -1, 0, 3, -1, 5, 0, 0]
    assert [got.errnos[i] for i in got.errno] == [
        "", "", "", "ENOSPC", "", "", "EIO", "", "", "",
    ]  # fmt: skip
    assert got.fd.tolist() == [-1, 3, -1, 9, -1, 9, 9, -1, -1, -1]
    paths = [None if i < 0 else got.targets[i] for i in got.target]
    assert paths == ["/a", "/a", None, "/a", "/a", "/a", "/a", None, None, "/a"]
    assert [KINDS[i] for i in got.kind][:3] == ["file", "file", "unknown"]
    assert [SOURCES[i] for i in got.source][:3] == ["argument", "tracked", "unknown"]
    assert got.bytes.tolist() == [0, 0, 0, 0, 0, 3, 0, 0, 0, 0]
    assert (got.flags & UNFINISHED != 0).tolist() == [False] * 8 + [True, True]
    assert (got.flags & RETURNED != 0).tolist() == [True] * 8 + [False, False]
    assert np.flatnonzero(got.flags & JOINED).tolist() == [3]
    assert np.flatnonzero(got.flags & INJECTED).tolist() == [6]
    assert np.flatnonzero(got.flags & DELETED).tolist() == [5, 6, 9]
    assert np.flatnonzero(got.failed()).tolist() == [3, 6]
    assert np.flatnonzero(got.failed("ENOSPC")).tolist() == [3]
    assert not got.failed("EPERM").any()
    assert np.flatnonzero(got.named("write")).tolist() == [3, 5, 6]
    assert got.text(3) == "\n".join(LOG.splitlines()[i] for i in (2, 4))


def test_columns_are_views_that_nobody_can_change(tmp_path: Path) -> None:
    got = table(tmp_path, LOG)
    for name in got.rows.dtype.names:
        column = getattr(got, name)
        assert np.shares_memory(column, got.rows), name
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 0
    assert got.rows.dtype.itemsize == 72
    rows = got.rows
    del got
    assert rows["line"][0] == 1  # the array owns its memory


def test_midnight_does_not_turn_time_back(tmp_path: Path) -> None:
    text = (
        "1 23:59:59.500000 read(0,  <unfinished ...>\n"
        "2 23:59:59.900000 getpid() = 2\n"
        "2 00:00:00.100000 getpid() = 2\n"
        '1 00:00:00.500000 <... read resumed>"", 1) = 0\n'
    )
    got = table(tmp_path, text)
    day = 86_400
    assert got.start.tolist() == [day - 0.1, day + 0.1, day - 0.5]
    assert got.duration_ns.tolist()[2] == 1_000_000_000


def test_stamps_without_fraction_and_none_at_all(tmp_path: Path) -> None:
    assert table(tmp_path, "1 01:02:03 getpid() = 1\n").start.tolist() == [3723.0]
    assert table(tmp_path, "getpid() = 1\n").start_ns.tolist() == [-1]
    assert table(tmp_path, "getpid() = 1\n").pid.tolist() == [0]


@pytest.mark.parametrize(
    "name", ["torchrun_tTy.strace.zst", "ckpt_enospc.strace.zst", "fmt_tt.strace.zst"]
)
def test_as_many_rows_as_results(name: str) -> None:
    """An independent count: lines with a result at their end, by a regular expression."""
    lines = unpacked(name).decode("utf-8", "surrogateescape").splitlines()
    ended = re.compile(r"\)\s+= (?:-?\d|0x|\?)")
    results = sum(
        1 for line in lines if ended.search(line) and "+++" not in line and "---" not in line[:60]
    )
    got = postmortem.read_strace(CORPUS / name)
    begun_only = (got.flags & RETURNED == 0) & (got.errno == 0) & (got.line == got.began_line)
    last = [i for i in np.flatnonzero(begun_only) if not ended.search(got.text(int(i)))]
    assert len(got) - len(last) == results


def test_rows_agree_with_the_hits_of_find() -> None:
    name = "ckpt_enospc.strace.zst"
    found = recording(name, errors=["ENOSPC", "ENOENT", "ENOTTY"], most_matches=100_000)
    got = postmortem.read_strace(CORPUS / name)
    rows = np.flatnonzero(got.failed("ENOSPC") | got.failed("ENOENT") | got.failed("ENOTTY"))
    assert len(rows) == found["match_count"] > 100
    for row, match in zip(rows, found["matches"], strict=True):
        assert got.line[row] == match["line"]
        assert got.pid[row] == match["pid"]
        path = None if got.target[row] < 0 else got.targets[got.target[row]]
        assert path == (match["target"]["path"] or match["target"]["label"] or None)


def test_files_of_ff_and_packed_logs_and_several(tmp_path: Path) -> None:
    for pid, name in ((7, "seven"), (8, "eight")):
        text = f'1700000000.{pid:06} openat(AT_FDCWD, "/{name}", O_RDONLY) = 3\n'
        (tmp_path / f"log.{pid}").write_text(text)
    got = postmortem.read_strace(tmp_path / "log")
    assert got.pid.tolist() == [7, 8]
    assert [Path(got.files[i]).name for i in got.file] == ["log.7", "log.8"]
    packed = tmp_path / "packed.gz"
    packed.write_bytes(gzip.compress(LOG.encode()))
    both = postmortem.read_strace([str(packed), str(tmp_path / "log")])
    assert len(both) == 12
    assert [Path(both.files[i]).name for i in both.file[-3:]] == ["packed.gz", "log.7", "log.8"]
    assert both.text(3).splitlines()[1] == LOG.splitlines()[4]


def test_a_line_of_a_large_file(tmp_path: Path) -> None:
    path = tmp_path / "log"
    long = f'1 write(1, "{"x" * 3_000_000}", 3000000) = 3000000\n'
    lines = [f"1 close({i}) = 0\n" for i in range(100_000)]
    lines[50_000] = long
    path.write_text("".join(lines))
    got = postmortem.read_strace(path)
    for row in (0, 1, 49_999, 50_000, 50_001, 99_999):
        assert got.text(row) == lines[row].rstrip()


def test_what_is_no_log(tmp_path: Path, prose: Prose) -> None:
    path = tmp_path / "notes"
    path.write_text("dear diary\n")
    with pytest.raises(EvidenceError) as refused:
        postmortem.read_strace(path)
    prose(refused.value)


def test_importing_the_package_costs_nothing() -> None:
    code = (
        "import sys, postmortem; "
        "assert not [m for m in sys.modules if m.startswith(('numpy', 'postmortem.readers'))]; "
        "assert callable(postmortem.read_strace); "
        "assert 'numpy' not in sys.modules; "
        "print(len(dir(postmortem)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = postmortem.nothing  # type: ignore[attr-defined]


def test_without_numpy_the_words_say_what_to_install(
    monkeypatch: pytest.MonkeyPatch, prose: Prose
) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)
    with pytest.raises(ImportError) as refused:
        postmortem.read_strace("anything")
    prose(refused.value)


ANNOTATED = re.compile(rb"^\d+ +\S+ (\w+)\((\d+)<(/[^<>]*)>(\(deleted\))?[,)]")
FIRST_IS_FD = frozenset(
    "read write pread64 pwrite64 writev fstat lseek fsync ftruncate getdents64 close".split()
)


@pytest.mark.parametrize("name", ["torchrun_tTy.strace.zst", "dataloader_spawn_tTyy.strace.zst"])
def test_targets_against_hidden_annotations(name: str) -> None:
    """The oracle: what strace -y wrote behind a descriptor, hidden while it was followed."""
    data = unpacked(name)
    export = _native.export_columns()
    _native.read_strace([(puller(data), 0)], check=True, exports=[export], names=[name])
    tables = _native.close_export(export)
    lines = data.split(b"\n")
    uses = wrong = unknown = 0
    for row in tables["rows"]:
        found = ANNOTATED.match(lines[int(row["began_line"]) - 1])
        if found is None or found[1].decode() not in FIRST_IS_FD or b"\\" in found[3]:
            continue
        uses += 1
        assert int(row["fd"]) == int(found[2])
        if row["target"] < 0:
            unknown += int(row["fd"]) > 2  # those below were open before the trace
        else:
            wrong += tables["targets"][row["target"]] != found[3].decode()
    assert uses > 5_000
    assert wrong == 0
    assert unknown <= 41  # spawned workers got theirs before strace saw them
