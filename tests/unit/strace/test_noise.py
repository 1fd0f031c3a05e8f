"""What fails in every run of a kind, and says nothing of this one."""

from pathlib import Path

import pytest

from postmortem.analyses.strace import StraceOptions, analyse
from postmortem.report.model import Report

EXEC = '7 execve("/bin/x", ["x"], 0x7f /* 9 vars */) = 0\n'
RDMA = (
    '7 openat(AT_FDCWD, "{0}", O_RDWR) = 4\n'
    "7 ioctl(4, 0xc0181b01, 0x7f) = -1 ENOSPC (No space left on device)\n"
)
NSCD = (
    "7 socket({0}, SOCK_STREAM, 0) = 3\n"
    '7 connect(3, {{sa_family={0}, {1}="{2}"}}, 110) = -1 ECONNREFUSED (Connection refused)\n'
)
CACHE = (
    '7 openat(AT_FDCWD, "/usr/lib/python3/{0}/os.pyc.140", O_WRONLY|O_CREAT|O_EXCL, 0644) = -1 '
    "EACCES (Permission denied)\n"
)
DESKTOP = (
    "7 socket(AF_UNIX, SOCK_STREAM, 0) = 3\n"
    "7 connect(3, {{sa_family=AF_UNIX, sun_path={0}}}, 20) = 0\n"
    "7 poll([{{fd=3, events=POLLIN}}], 1, -1 <unfinished ...>\n"
)


def report(folder: Path, calls: str, code: int | None) -> Report:
    log = folder / "log"
    log.write_text(EXEC + calls + ("" if code is None else f"7 +++ exited with {code} +++\n"))
    return analyse([str(log)], StraceOptions())


@pytest.mark.parametrize(
    ("calls", "code", "found"),
    [
        pytest.param(RDMA.format("/dev/infiniband/uverbs2"), 0, [], id="room in a device"),
        pytest.param(RDMA.format("/data/disk.img"), 0, ["disk_full"], id="room on a disk"),
        pytest.param(NSCD.format("AF_LOCAL", "sun_path", "/var/run/nscd/socket"), 0, [], id="nscd"),
        pytest.param(NSCD.format("AF_FILE", "path", "/run/nscd/socket"), 1, [], id="nscd, old"),
        pytest.param(
            NSCD.format("AF_LOCAL", "sun_path", "/run/mine"),
            1,
            ["connection_refused"],
            id="a server",
        ),
        pytest.param(CACHE.format("__pycache__"), 1, [], id="what Python compiled"),
        pytest.param(CACHE.format("mine"), 1, ["permission_denied"], id="what it did not"),
        pytest.param(DESKTOP.format('@"/tmp/.X11-unix/X0"'), None, [], id="a desktop"),
        pytest.param(DESKTOP.format('"/run/mine"'), None, ["silent_peer"], id="a peer"),
    ],
)
def test_noise_is_no_finding(
    calls: str, code: int | None, found: list[str], tmp_path: Path
) -> None:
    made = report(tmp_path, calls, code)
    assert [one.id for one in made.diagnoses] == found
    if code == 0 and not found:
        assert made.verdict == report(tmp_path, "", 0).verdict
