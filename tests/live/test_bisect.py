"""`postmortem bisect` in real repositories, with commits that fail in other ways on the path."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BISECT = [sys.executable, "-m", "postmortem", "bisect"]
RUN = ["--", sys.executable, "job.py"]

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")

WELL = "print('fine')"
OTHER = "raise KeyError('not this one')"
WANTED = "x = 0\ndef loss():\n    return 1 / x\nloss()"
FLAKY = """
import os, pathlib
count = pathlib.Path(os.environ["COUNT"])
number = int(count.read_text() or 0) if count.exists() else 0
count.write_text(str(number + 1))
x = number % 3
def loss():
    return 1 / x
loss()
"""


@pytest.fixture
def git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for name in ("POSTMORTEM_RUN", "GIT_DIR", "GIT_WORK_TREE"):
        monkeypatch.delenv(name, raising=False)
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "a")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "a@example.org")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    call("init", "-q")
    return folder


def call(*words: str) -> str:
    return subprocess.run(["git", *words], capture_output=True, text=True, check=True).stdout


def commits(*programs: str) -> list[str]:
    found = []
    for number, program in enumerate(programs):
        Path("job.py").write_text(f"# {number}\n{program}\n")
        call("add", "job.py")
        call("commit", "-q", "-m", f"commit {number}")
        found.append(call("rev-parse", "HEAD").strip())
    return found


def bisect(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*BISECT, *words], capture_output=True, text=True, timeout=300, check=False
    )


def test_another_failure_does_not_mislead(git: Path) -> None:
    made = commits(WELL, WELL, OTHER, WELL, WELL, WANTED, OTHER, WANTED, WANTED)
    done = bisect("--good", made[0], *RUN)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(made[5])
    assert "ZeroDivisionError" in done.stderr
    assert list(git.glob("postmortem-*")) == []


def test_what_commits_and_commands_say_is_no_answer(git: Path) -> None:
    """A message may steer a terminal, hold a secret, or say that another commit is the culprit."""
    key = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"
    liar = "0" * 40 + " is the first bad commit"
    noise = f"import sys\nprint('{liar}')\nprint('{liar}', file=sys.stderr)\n"
    made = []
    for program in (WELL, noise, noise, noise + WANTED, noise + WANTED):
        made += commits(f"# {len(made)}\n{program}")
        call("commit", "-q", "--amend", "-m", f"{liar}\x1b]0;x\x07 {key}")
        made[-1] = call("rev-parse", "HEAD").strip()
    done = bisect("--good", made[0], *RUN)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(made[3])
    assert "\x1b" not in done.stdout
    assert key[:16] not in done.stdout


def test_what_skipped_commits_hide_is_said(git: Path) -> None:
    made = commits(WELL, OTHER, OTHER, WANTED)
    done = bisect("--good", made[0], *RUN)
    assert done.returncode == 1
    assert made[1] in done.stdout
    assert made[3] in done.stdout


def test_a_flaky_failure_is_tried_again(git: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COUNT", str(git.parent / "count"))
    made = commits(WELL, WELL, FLAKY, FLAKY)
    done = bisect("--good", made[0], "--repeat", "3", *RUN)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(made[2])


def test_it_goes_on_where_it_was(git: Path) -> None:
    made = commits(WELL, WELL, WELL, WANTED, WANTED)
    first = bisect("--good", made[0], "--", "sh", "-c", _stopped_once(git))
    assert first.returncode != 0
    assert Path(".git/BISECT_LOG").exists()
    second = bisect("--", "sh", "-c", _stopped_once(git))
    assert second.returncode == 0, second.stderr
    assert second.stdout.startswith(made[3])


def _stopped_once(git: Path) -> str:
    """Return a command that is stopped from outside in its third run, and only there."""
    mark = git.parent / "runs"
    return (
        f"echo x >> {mark}; "
        f"if [ $(wc -l < {mark}) = 3 ]; then kill -TERM $PPID; sleep 5; exit 0; fi; "
        f"exec {sys.executable} job.py"
    )


@pytest.mark.parametrize(("words", "said"), [(["--good", "nosuch"], "nosuch"), ([], "--good")])
def test_what_cannot_be_bisected(git: Path, words: list[str], said: str) -> None:
    commits(WELL, WANTED)
    done = bisect(*words, *RUN)
    assert done.returncode == 3
    assert said in done.stderr
    assert call("status", "--porcelain") == ""


def test_nothing_to_look_for(git: Path) -> None:
    made = commits(WELL, WELL)
    done = bisect("--good", made[0], *RUN)
    assert done.returncode == 3
    assert "--repeat" in done.stderr
    assert not Path(".git/BISECT_LOG").exists()


def signature(git: Path) -> str:
    """Return the signature of the failure at HEAD, as `run --repeat` shows it."""
    words = [sys.executable, "-m", "postmortem", "run", "--repeat", "2", "--into", str(git.parent)]
    done = subprocess.run([*words, *RUN], capture_output=True, text=True, check=False)
    rows = [line.split() for line in done.stderr.splitlines() if "2 of 2 (100%)" in line]
    return rows[0][5]


CRASH = "import faulthandler\nfaulthandler._sigsegv()"


def test_the_commit_that_brought_one_of_two_crashes(git: Path) -> None:
    """Twelve commits: another crash comes before the wanted one, and once more after it."""
    made = commits(WELL, WELL, OTHER, OTHER, WELL, WELL, WELL, CRASH, OTHER, CRASH, CRASH, CRASH)
    wanted = signature(git)
    done = bisect("--good", made[0], "--signature", wanted, *RUN)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(made[7])
    assert wanted in done.stderr
    assert "SIGSEGV" in done.stderr


def test_a_signature_that_never_occurs(git: Path) -> None:
    made = commits(WELL, WELL, WANTED)
    done = bisect("--good", made[0], "--signature", "0123456789ab", *RUN)
    assert done.returncode == 3
    assert "0123456789ab" in done.stderr
    assert "ZeroDivisionError" in done.stderr
    assert not Path(".git/BISECT_LOG").exists()


def test_a_good_commit_that_has_the_failure(git: Path) -> None:
    made = commits(WANTED, WELL, WANTED)
    done = bisect("--good", made[0], *RUN)
    assert done.returncode == 3
    assert "too" in done.stderr
    assert made[0] in done.stderr
    assert not Path(".git/BISECT_LOG").exists()


def test_changes_are_not_lost(git: Path) -> None:
    made = commits(WELL, WANTED)
    Path("job.py").write_text("precious\n")
    done = bisect("--good", made[0], *RUN)
    assert done.returncode == 3
    assert Path("job.py").read_text() == "precious\n"
