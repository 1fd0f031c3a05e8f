"""Calls that a process was not allowed: those without a file name none."""

from pathlib import Path

from postmortem.analyses.strace import StraceOptions, analyse


def test_a_signal_that_may_not_be_sent_is_of_no_file(tmp_path: Path) -> None:
    log = tmp_path / "strace.txt"
    log.write_text(
        "7 kill(1, SIGKILL) = -1 EPERM (Operation not permitted)\n"
        "7 exit_group(1) = ?\n7 +++ exited with 1 +++\n"
    )
    (found,) = analyse([str(log)], StraceOptions()).diagnoses
    assert (found.id, found.about.path, found.about.errno) == ("permission_denied", None, "EPERM")
