"""The first screen of a log, and what is said of what its recording hides."""

from pathlib import Path

import pytest

from builders.prose import Prose
from builders.recordings import unpacked
from postmortem.analyses.strace import StraceOptions, analyse
from postmortem.facts.call_query import parse
from postmortem.present.strace.places import prefix_of
from postmortem.readers import stracerows
from postmortem.report.model import Report

START = (
    '1 execve("/bin/x", ["x"], 0x7f /* 9 vars */) = 0\n1 brk(NULL) = 0x5\n'
    '1 openat(AT_FDCWD, "/lib/libc.so.6", O_RDONLY|O_CLOEXEC) = 3\n1 read(3, "", 9) = 0\n'
    "1 mmap(NULL, 9, PROT_READ, MAP_PRIVATE, 3, 0) = 0x7f\n1 close(3) = 0\n"
    '1 access("/etc/ld.so.preload", R_OK) = -1 ENOENT (No such file or directory)\n'
)
MORE = "1 getppid() = 1\n" * 20


def report(tmp_path: Path, log: str | bytes, **options: object) -> Report:
    path = tmp_path / "strace.txt"
    path.write_bytes(log.encode() if isinstance(log, str) else log)
    queries = tuple(parse(text) for text in [str(options.pop("find"))] if text) if options else ()
    return analyse([str(path)], StraceOptions(queries=queries))


def body(made: Report) -> dict[str, object]:
    return dict(made.body)


@pytest.mark.parametrize(
    "log",
    [
        pytest.param(START + MORE, id="whole"),
        pytest.param(START.replace("openat", "getppid") + MORE, id="no open"),
        pytest.param(START.replace("1 close(3) = 0\n", "") + MORE, id="no close"),
        pytest.param('1 write(3, "x", 1) = -1 EIO (I/O error)\n' * 30, id="failed calls alone"),
        pytest.param(START[: START.index("1 access")] + MORE * 11, id="no failed call"),
        pytest.param(
            START + MORE + "1 clone(child_stack=NULL, flags=SIGCHLD) = 2\n", id="without -f"
        ),
        pytest.param(START + MORE + "1 read(0, ", id="cut"),
        pytest.param(START + MORE + "1 read(0,  <detached ...>\n", id="detached"),
    ],
)
def test_what_the_recording_hides(
    tmp_path: Path, log: str, request: pytest.FixtureRequest, prose: Prose
) -> None:
    problems = report(tmp_path, log).problems
    assert bool(problems) == (request.node.callspec.id != "whole")
    prose(*(problem.what for problem in problems))


def test_remarks_on_times_and_ends(tmp_path: Path) -> None:
    made = report(tmp_path, START + MORE * 11 + "1 exit_group(0) = ?\n")
    said = str(body(made)["remarks"])
    assert "-T" in said
    assert "-qq" in said
    assert made.problems == ()


def test_a_verdict_names_who_waits_for_whom(tmp_path: Path) -> None:
    log = START + (
        "1 pipe2([3, 4], 0) = 0\n1 clone(child_stack=NULL, flags=SIGCHLD) = 2\n"
        '2 execve("/bin/sleep", ["sleep", "60"], 0x7f /* 9 vars */) = 0\n'
        "1 close(4) = 0\n2 nanosleep({tv_sec=60, tv_nsec=0},  <unfinished ...>\n"
        "1 read(3,  <unfinished ...>\n"
    )
    verdict = report(tmp_path, log).verdict
    assert all(name in verdict for name in ("pid 1 (x)", "read", "2 sleep 60", "nanosleep"))


def test_a_verdict_names_the_file_that_was_not_there(tmp_path: Path) -> None:
    log = START + (
        '1 openat(AT_FDCWD, "/x/train.idx", O_RDONLY) = -1 ENOENT (No such file or directory)\n'
        '1 openat(AT_FDCWD, "/usr/share/locale/x.mo", O_RDONLY) = -1 ENOENT (No such file)\n'
        '1 write(2, "cannot open\\n", 12) = 12\n1 exit_group(1) = ?\n1 +++ exited with 1 +++\n'
    )
    made = report(tmp_path, log)
    (last,) = body(made)["last_failures"]  # type: ignore[attr-defined]
    assert [(one["errno"], one["path"]) for one in last["failures"]] == [("ENOENT", "/x/train.idx")]
    assert made.failed


def test_a_storm_is_found_where_it_is(tmp_path: Path) -> None:
    lines = [
        f'1 {1700000000 + i / 1000:.6f} stat("/data/set/{i % 30}/img{i}", 0x7f) = -1 ENOENT (No)\n'
        for i in range(3000)
    ]
    (storm,) = body(report(tmp_path, "".join(lines)))["metadata_storms"]  # type: ignore[misc]
    assert (storm["folder"], storm["calls"], storm["errors"]) == ("/data/set", 3000, 3000)
    assert storm["folders"] == 30
    assert storm["calls_per_second"] == pytest.approx(1000, rel=0.01)


def test_look_ups_of_the_root_itself_end(tmp_path: Path) -> None:
    made = report(tmp_path, '1 stat("/x", 0x7f) = -1 ENOENT (No)\n' * 1500)
    (storm,) = body(made)["metadata_storms"]  # type: ignore[misc]
    assert storm["folder"] == "/"


def test_hits_share_a_prefix(tmp_path: Path) -> None:
    log = "".join(
        f'1 openat(AT_FDCWD, "/dev/shm/t{i}", O_RDWR) = {i}\n'
        f"1 fallocate({i}, 0, 0, 9) = -1 ENOSPC (No space left on device)\n"
        for i in (3, 4, 5)
    )
    made = report(tmp_path, log, find="ENOSPC")
    assert "all 3 targets of ENOSPC are under /dev/shm" in str(made.blocks)


@pytest.mark.parametrize(
    ("path", "prefix"),
    [
        ("/dev/shm/a", "/dev/shm"),
        ("/dev/null", "/dev"),
        ("/scratch/me/a/b", "/scratch/me"),
        ("/scratch/a", "/scratch"),
        ("/usr/lib/x", "/usr"),
        ("/x", "/"),
        ("relative", None),
        ("/memfd:x", None),
    ],
)
def test_prefixes(path: str, prefix: str | None) -> None:
    assert prefix_of(path) == prefix


@pytest.mark.parametrize(
    ("argv", "environment", "rank", "local"),
    [
        (("python", "t.py", "--local_rank=3"), (), None, 3),
        (("python", "t.py", "--local-rank", "3", "--rank", "7"), (), 7, 3),
        ((), ("RANK=5", "LOCAL_RANK=1"), 5, 1),
        ((), ("SLURM_PROCID=4", "SLURM_LOCALID=0"), 4, 0),
        ((), (), None, None),
        (("--rank",), ("RANK=x",), None, None),
    ],
)
def test_ranks(
    argv: tuple[str, ...], environment: tuple[str, ...], rank: int | None, local: int | None
) -> None:
    row = {"argv": argv, "environment": environment}
    assert stracerows._placed(row) == {"argv": argv, "rank": rank, "local_rank": local}


def test_a_deadlock_that_was_killed(tmp_path: Path) -> None:
    made = report(tmp_path, unpacked("deadlock.strace.zst"))
    assert [one.id for one in made.diagnoses] == ["futex_deadlock"]


def test_connections_of_a_recording(tmp_path: Path) -> None:
    made = report(tmp_path, unpacked("misc_econnrefused.strace.zst"))
    rows = {row["peer"]: row["result"] for row in body(made)["sockets"]}  # type: ignore[attr-defined]
    assert rows["127.0.0.1:9"] == rows["[::1]:9"] == "ECONNREFUSED"


def test_places_of_a_recording(tmp_path: Path) -> None:
    made = report(tmp_path, unpacked("ml_shm_buserror.strace.zst"))
    places = {row["prefix"]: row for row in body(made)["mounts"]}  # type: ignore[attr-defined]
    assert places["/dev/shm"]["opens"] > 0
    assert places["/dev/shm"]["errors"] > 0


def test_a_trace_without_writes_names_what_was_open_for_writing(tmp_path: Path) -> None:
    opened = '1 openat(AT_FDCWD, "/data/run/ckpt.bin", O_WRONLY|O_CREAT, 0666) = 3\n'
    log = (
        '1 execve("/bin/x", ["x"], 0x7f /* 9 vars */) = 0\n'
        + opened
        + '1 openat(AT_FDCWD, "/dev/null", O_WRONLY) = 4\n1 +++ exited with 1 +++\n'
    )
    verdict = report(tmp_path, log).verdict
    assert verdict.endswith("/data/run/ckpt.bin")
    written = log.replace("1 +++", '1 write(3, "x", 1) = 1\n1 +++')
    assert "/data/run/ckpt.bin" not in report(tmp_path, written).verdict


def test_what_statfs_said_of_a_full_disk_is_evidence(tmp_path: Path) -> None:
    log = (
        '1 statfs("/data/run", {f_type=TMPFS_MAGIC, f_bsize=4096, f_blocks=64, f_bfree=0}) = 0\n'
        '1 statfs("/data/other", {f_type=EXT2_SUPER_MAGIC, f_bsize=4096}) = 0\n'
        '1 openat(AT_FDCWD, "/data/run/ckpt.bin", O_WRONLY|O_CREAT, 0666) = 3\n'
        '1 write(3, "x", 1) = -1 ENOSPC (No space left on device)\n1 +++ exited with 1 +++\n'
    )
    (found,) = report(tmp_path, log).diagnoses
    assert found.id == "disk_full"
    assert [row.where for row in found.evidence][-1] == "strace.txt:1"
    assert "TMPFS_MAGIC" in found.evidence[-1].what
    assert not any("EXT2" in row.what for row in found.evidence)


def test_mounts_that_the_log_shows_are_places(tmp_path: Path) -> None:
    log = (
        '1 mount("none", "/opt/run/in/memory", "tmpfs", 0, "size=1g") = 0\n'
        '1 mount("none", "/opt/not", "tmpfs", 0, NULL) = -1 EPERM (Operation not permitted)\n'
        '1 openat(AT_FDCWD, "/opt/run/in/memory/x", O_WRONLY|O_CREAT, 0666) = 3\n'
        '1 write(3, "xy", 2) = 2\n1 close(3) = 0\n1 +++ exited with 0 +++\n'
    )
    rows = body(report(tmp_path, log))["mounts"]
    assert isinstance(rows, list)
    assert [row["prefix"] for row in rows if row["written_bytes"]] == ["/opt/run/in/memory"]
    assert prefix_of("/opt/not/x", ("/opt/run/in/memory",)) == "/opt"


def test_places_with_the_same_totals_stand_by_name(tmp_path: Path) -> None:
    """What they are collected in has another order in every run."""
    names = [f"place{i}" for i in range(9, -1, -1)]
    log = "".join(
        f'1 openat(AT_FDCWD, "/{name}/x", O_RDONLY) = -1 ENOENT (No such file or directory)\n'
        for name in names
    )
    rows = body(report(tmp_path, log))["mounts"]
    assert [row["prefix"] for row in rows] == [f"/{name}" for name in sorted(names)]  # type: ignore[attr-defined]


def test_a_loader_that_found_nothing_is_no_sign_of_a_filter(tmp_path: Path) -> None:
    log = '1 execve("/bin/x", ["x"], 0x7f /* 9 vars */) = 0\n1 brk(NULL) = 0x5\n'
    missing = "-1 ENOENT (No such file or directory)"
    for folder in range(30):
        log += f'1 openat(AT_FDCWD, "/lib/{folder}/libx.so", O_RDONLY|O_CLOEXEC) = {missing}\n'
    said = report(tmp_path, log + "1 exit_group(127) = ?\n1 +++ exited with 127 +++\n")
    assert [one.id for one in said.diagnoses] == ["library_not_found"]
    assert [row["name"] for row in body(said)["missing_libraries"]] == ["libx.so"]  # type: ignore[attr-defined]
    assert not [p for p in said.problems if "-e trace=" in p.what]


def test_the_signal_of_a_mapped_page_is_asked_by_its_name(tmp_path: Path) -> None:
    log = START + (
        '1 openat(AT_FDCWD, "/m/a", O_RDWR) = 3\n'
        "1 mmap(NULL, 8192, PROT_READ|PROT_WRITE, MAP_SHARED, 3, 0) = 0x7000\n"
        "1 --- SIGBUS {si_signo=SIGBUS, si_code=BUS_ADRERR, si_addr=0x8000} ---\n"
        "1 +++ killed by SIGBUS +++\n"
    )
    said = report(tmp_path, log, find="SIGBUS")
    (found,) = said.diagnoses
    assert (found.id, found.about and found.about.path) == ("mapped_file_no_room", "/m/a")
