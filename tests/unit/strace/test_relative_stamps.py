"""Stamps of -r alone are added up; no other log is touched."""

import pytest

from builders.recordings import read

LOG = (
    '7      0.000000 execve("/bin/x", ["x"], 0x7f /* 9 vars */) = 0\n'
    "7      1.500000 clone(child_stack=NULL, flags=SIGCHLD) = 8\n"
    "7      0.250000 wait4(-1,  <unfinished ...>\n"
    "8      0.250000 fsync(3)                = -1 EIO (Input/output error)\n"
    "8      2.000001 +++ exited with 1 +++\n"
    "7      0.000999 <... wait4 resumed>[{WIFEXITED(s)}], 0, NULL) = 8\n"
    "7   7200.000000 exit_group(1)           = ?\n"
    "7      0.000000 +++ exited with 1 +++\n"
)


def ends(log: dict[str, object]) -> dict[int, float]:
    rows = log["processes"]
    assert isinstance(rows, list)
    return {row["pid"]: row["ending"]["time"] for row in rows}


def test_the_clock_is_the_sum() -> None:
    got = read(LOG, statistics=True, errors=["EIO"])
    assert got["summed"]
    assert got["counts"]["relative"]
    assert got["counts"]["unparsed"] == 0
    assert got["bytes"] == [len(LOG)]  # of the log as it is
    (match,) = got["matches"]
    assert (match["line"], match["time"]) == (4, pytest.approx(2.0))
    assert ends(got) == {8: pytest.approx(4.000001), 7: pytest.approx(7204.001)}
    (wait,) = (row for row in got["syscalls"] if row["name"] == "wait4")
    assert wait["seconds"] == pytest.approx(2.251, abs=1e-6)


def test_a_line_longer_than_a_piece_and_a_cut_end() -> None:
    name = "x" * 700_000
    log = (
        LOG.replace('"/bin/x"', f'"{name}"')
        + "9      1.000000 getpid( <unfinished ...>\n9      3.0"
    )
    got = read(log, statistics=True, errors=["EIO"])
    assert got["matches"][0]["time"] == pytest.approx(2.0)
    assert got["counts"]["lines"] == 10
    assert got["bytes"] == [len(log)]


@pytest.mark.parametrize(
    "log",
    [
        LOG.replace("      ", " "),  # of any width
        "".join(f"[pid {line[0]}]{line[1:]}\n" for line in LOG.splitlines()),
        "".join(line[2:].lstrip() + "\n" for line in LOG.splitlines() if line.startswith("7")),
    ],
)
def test_in_every_form_of_the_leader(log: str) -> None:
    got = read(log, statistics=True)
    assert got["summed"]
    assert got["counts"]["unparsed"] == 0
    assert got["last_time"] is not None


@pytest.mark.parametrize(
    "stamp", ["10:00:00.000001 (+     0.000001)", "1700000000.000001", "10:00:00", ""]
)
def test_other_logs_pass_as_they_are(stamp: str) -> None:
    log = f"7 {stamp} fsync(3) = -1 EIO (Input/output error)\n".replace("  ", " ")
    got = read(log, errors=["EIO"])
    assert not got["summed"]
    assert len(got["matches"]) == 1


def test_stamps_that_say_nonsense_do_not_move_the_clock() -> None:
    log = (
        "7      0.000000 getpid() = 7\n7 99999999999.000000 getpid() = 7\n"
        "7      1.000000 fsync(3) = -1 EIO (Input/output error)\n"
    )
    got = read(log, errors=["EIO"])
    assert got["matches"][0]["time"] == pytest.approx(1.0)


def test_an_empty_log() -> None:
    assert not read("")["summed"]
