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


def test_what_a_shell_may_not_look_at_along_path_is_no_reason(tmp_path: Path) -> None:
    looked = '7 newfstatat(AT_FDCWD, "/root/bin/x", 0x7f, 0) = -1 EACCES (Permission denied)\n'
    for said, ids in (("Cannot allocate memory", False), ("Permission denied", True)):
        log = tmp_path / "strace.txt"
        log.write_text(
            f'{looked}7 write(2, "x: {said}\\n", {len(said) + 4}) = {len(said) + 4}\n'
            "7 exit_group(4) = ?\n7 +++ exited with 4 +++\n"
        )
        found = [row.id for row in analyse([str(log)], StraceOptions()).diagnoses]
        assert ("permission_denied" in found) is ids
