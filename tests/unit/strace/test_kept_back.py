"""Calls that strace -z and --status keep back until they end: their rest has no leader."""

from typing import Any

import pytest

from builders.recordings import read

OPEN = '7 openat(AT_FDCWD, "/m/a", O_WRONLY <unfinished ...>\n)              = 3\n'
FULL = '9 write(3, "x", 1 <unfinished ...>\n) = -1 ENOSPC (No space left on device)\n'
THREAD = "7 clone(child_stack=0x7f00, flags=CLONE_VM|CLONE_FILES|CLONE_THREAD) = 9\n"


@pytest.mark.parametrize("statistics", [False, True])
@pytest.mark.parametrize("leader", ["", "12:00:01.000000 "], ids=["plain", "-tt"])
def test_a_call_and_its_rest_are_one(leader: str, statistics: bool) -> None:
    lines = (THREAD + OPEN + FULL).splitlines()
    log = "".join(
        f"{line[:2]}{leader}{line[2:]}\n" if line[0].isdigit() else f"{line}\n" for line in lines
    )
    got = read(log, errors=["ENOSPC"], statistics=statistics)
    assert got["counts"]["unparsed"] == 0
    (match,) = got["matches"]
    assert (match["target"]["path"], match["pid"], match["line"]) == ("/m/a", 9, 4)
    assert match["text"].endswith(" = -1 ENOSPC (No space left on device)")


RESTS = {
    "arguments that end with the call": '7 read(3,  <unfinished ...>\n"abc", 9) = 3 <0.000004>\n',
    "all of them": '7 uname( <unfinished ...>\n{sysname="Linux", ...}) = 0\n',
    "an array": "7 wait4(-1,  <unfinished ...>\n[{WIFEXITED(s)}], 0, NULL) = 9\n",
    "more behind a comma": "7 futex(0x5, FUTEX_WAIT <unfinished ...>\n, 0, NULL) = 0\n",
    "an end": "7 exit(0 <unfinished ...>\n)      = ?\n",
}


@pytest.mark.parametrize("log", RESTS.values(), ids=RESTS)
@pytest.mark.parametrize("statistics", [False, True])
def test_a_rest_may_have_arguments(log: str, statistics: bool) -> None:
    got: dict[str, Any] = read(log, errors=["ENOSPC"], statistics=statistics)
    assert got["counts"]["unparsed"] == 0, got["first_unparsed"]
    if statistics:
        assert sum(row["calls"] for row in got["syscalls"]) == 1


def test_output_between_the_halves_is_no_rest() -> None:
    log = (
        "[pid     7] read(3,  <unfinished ...>\n{step, 5) = -1 ENOSPC (of the program)\n"
        '[pid     7] <... read resumed>"abc", 9) = 3\n'
    )
    got = read(log, errors=["ENOSPC"])
    assert got["match_count"] == 0
