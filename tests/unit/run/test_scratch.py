"""The folder of a run that was killed is cleared by the next one; nobody else's is."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from postmortem.run.scratch import make_scratch

_HOLD = """
import os, sys, time
from postmortem.run.scratch import make_scratch
scratch, _ = make_scratch()
if os.fork() == 0:  # as a sentinel does
    time.sleep(60)
print(scratch.path, flush=True)
time.sleep(60)
"""


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = Path(tmp_path_factory.mktemp("t"))
    monkeypatch.setenv("TMPDIR", str(path))
    return path


def left(place: Path) -> set[str]:
    """Make a folder as the next run does, and return the names of all others."""
    scratch, why = make_scratch()
    assert scratch is not None, why
    scratch.remove()
    return {one.name for one in place.iterdir()}


def test_a_folder_goes_when_the_last_process_of_its_run_has_ended(place: Path) -> None:
    run = subprocess.Popen([sys.executable, "-c", _HOLD], stdout=subprocess.PIPE, text=True,
                           start_new_session=True)  # fmt: skip
    assert run.stdout is not None
    name = Path(run.stdout.readline().strip()).name
    with run.stdout:
        assert left(place) == {name}
        run.kill()
        run.wait()
        assert left(place) == {name}, "another process of it lives"
        os.killpg(run.pid, signal.SIGKILL)
        run.stdout.read()  # until that one has ended, too
    assert left(place) == set()


def test_a_folder_stays_that_a_process_of_the_run_may_write_to(place: Path) -> None:
    run = subprocess.run([sys.executable, "-c", _HOLD.replace("60", "0")], stdout=subprocess.PIPE,
                         text=True, check=True)  # fmt: skip
    path = Path(run.stdout.strip())
    with subprocess.Popen(["sh", "-c", "echo; read line"], env={"WHERE": f"{path}/raises"},
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as job:  # fmt: skip
        assert job.stdout is not None
        job.stdout.readline()  # the kernel shows no environment in the middle of an exec
        assert left(place) == {path.name}
    assert left(place) == set()


def test_what_is_no_folder_of_a_run_stays(place: Path) -> None:
    (place / "postmortem-report").mkdir()
    (place / "elsewhere").mkdir()
    (place / "elsewhere" / "held").touch()
    (place / "postmortem-of-another-host").mkdir()
    (place / "postmortem-of-another-host" / "held").write_text("71b2\n")
    (place / "postmortem-link").symlink_to(place / "elsewhere")
    here = {one.name for one in place.iterdir()}
    assert left(place) == here
