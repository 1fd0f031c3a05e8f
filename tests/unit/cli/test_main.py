"""The command line from outside: help, exit codes, streams that are closed, narrow or gone."""

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import postmortem
from builders.commands import execute, run_here
from builders.prose import Prose

TESTS = Path(__file__).parents[2]
SAMPLE = [sys.executable, str(TESTS / "programs" / "sample_command.py")]
POSTMORTEM = [sys.executable, "-m", "postmortem"]


def environment(**more: str) -> dict[str, str]:
    """Return an environment of known width and locale in which the tests' modules are found."""
    kept = {
        k: v for k, v in os.environ.items() if not k.startswith(("LC_", "PYTHON", "POSTMORTEM"))
    }
    for name in ("NO_COLOR", "FORCE_COLOR", "LANG"):
        kept.pop(name, None)
    path = os.pathsep.join([str(TESTS), str(Path(postmortem.__file__).parents[1])])
    return {**kept, "LC_ALL": "C.UTF-8", "COLUMNS": "80", "PYTHONPATH": path, **more}


def call(
    command: list[str], *words: str, env: dict[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*command, *words],
        env=env or environment(),
        cwd=cwd,
        capture_output=True,
        encoding="utf-8",
        errors="surrogateescape",
        timeout=60,
        check=False,
    )


def test_help(golden: Callable[[str, str], None]) -> None:
    done = call(POSTMORTEM, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    golden("help.txt", done.stdout)


def test_help_of_rules(golden: Callable[[str, str], None]) -> None:
    golden("help-rules.txt", call(POSTMORTEM, "rules", "--help").stdout)


def test_help_of_a_command_with_a_report(golden: Callable[[str, str], None]) -> None:
    golden("help-report.txt", call(SAMPLE, "sample", "--help").stdout)


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from postmortem.cli.main import main; main(['--help']); "
        "print(*sorted(sys.modules), file=sys.stderr)"
    )
    loaded = set(call([sys.executable, "-c", code]).stderr.split())
    heavy = {
        "rich",
        "json",
        "lief",
        "pygdbmi",
        "numpy",
        "tomllib",
        "dataclasses",
        "typing_extensions",
    }
    assert "postmortem.cli.main" in loaded
    assert not loaded & (heavy | {"postmortem._native", "postmortem.diagnose", "postmortem.render"})


def test_a_report_on_logs_imports_nothing_heavy(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("[rank0]: RuntimeError: broken\n")
    code = (
        "import sys; from postmortem.cli.main import main; main(sys.argv[1:]); "
        "print(*sorted(sys.modules), file=sys.stderr)"
    )
    done = call([sys.executable, "-c", code], "logs", str(log), "--json")
    loaded = set(done.stderr.split())
    assert "postmortem.analyses.ranklogs" in loaded
    assert not loaded & {"rich", "dataclasses", "inspect", "tempfile", "pickle", "html"}


def test_a_run_that_is_well_explains_nothing() -> None:
    done = call([sys.executable, "-X", "importtime", "-m", "postmortem"], "run", "--", "true")
    loaded = set(done.stderr.split())
    assert "postmortem.run.supervise" in loaded
    assert not loaded & {"postmortem.run.explain", "postmortem.run.facts", "dataclasses", "tarfile"}


def test_a_command_imports_no_other_command() -> None:
    code = (
        "import sys; from postmortem.cli import main; main.COMMANDS = ('rules', 'missing'); "
        "sys.exit(main.main(['rules', '--help']))"
    )
    assert call([sys.executable, "-c", code]).returncode == 0


def test_a_command_that_cannot_be_imported_is_an_error() -> None:
    code = (
        "import sys; from postmortem.cli import main; main.COMMANDS = ('rules', 'missing'); "
        "sys.exit(main.main(['--help']))"
    )
    done = call([sys.executable, "-c", code])
    assert done.returncode == 3
    assert "No module named 'postmortem.cli.missing'" in done.stderr


@pytest.mark.parametrize("option", ["-V", "--version"])
def test_version(option: str) -> None:
    done = run_here(option)
    assert (done.returncode, done.stderr) == (0, "")
    told = done.stdout.splitlines()
    assert told[0] == f"postmortem {postmortem.__version__}"
    assert any(line.startswith("extensions") and "_native" in line for line in told)


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["rulse"],
        ["zzz"],
        ["no_such.log"],
        ["/no/such/folder"],
        ["--nonsense"],
        ["rules", "--nonsense"],
        ["rules", "no_such_rule"],
    ],
)
def test_usage_errors(words: list[str], prose: Prose) -> None:
    done = run_here(*words)
    assert (done.returncode, done.stdout) == (2, "")
    prose(done.stderr.splitlines()[0])


@pytest.mark.parametrize("what", ["evidence", "debugger", "file", "bug"])
def test_what_cannot_be_analysed(what: str, prose: Prose) -> None:
    done = call(SAMPLE, "sample", what)
    assert (done.returncode, done.stdout) == (3, "")
    prose(done.stderr.removeprefix("ready\n"))
    assert "Traceback" not in done.stderr
    assert "Traceback" in call(SAMPLE, "sample", what, env=environment(POSTMORTEM_DEBUG="1")).stderr


def test_a_path_without_a_command_is_triage(tmp_path: Path) -> None:
    empty = tmp_path / "core.4711"
    empty.touch()
    done = run_here(empty)
    assert done.returncode == 3
    assert done.stderr.startswith(f"postmortem: {empty}: is empty\n")


def test_exit_codes_of_a_failure() -> None:
    assert call(SAMPLE, "sample", "report").returncode == 1
    assert call(SAMPLE, "sample", "report", "--exit-zero").returncode == 0


def test_renderings_exclude_each_other() -> None:
    assert call(SAMPLE, "sample", "report", "--json", "--markdown").returncode == 2


@pytest.mark.parametrize(
    ("form", "first"),
    [
        ("--json", '{\n  "schema": "postmortem/1"'),
        ("--markdown", "### SIGABRT"),
        ("-v", "SIGABRT in"),
    ],
)
def test_forms(form: str, first: str) -> None:
    assert call(SAMPLE, "sample", "report", form).stdout.startswith(first)


def test_width_and_color_can_be_asked_for() -> None:
    narrow = call(SAMPLE, "sample", "report", "--width", "60", "--color=always").stdout
    assert "\x1b[1m" in narrow
    assert "\x1b[" not in call(SAMPLE, "sample", "report").stdout
    assert call(SAMPLE, "sample", "report", "--width", "7").returncode == 2


@pytest.mark.parametrize("form", ["--json", "--markdown", "--verbose"])
def test_the_reader_may_leave(form: str) -> None:
    command = f"set -o pipefail; '{sys.executable}' '{SAMPLE[1]}' sample report {form} | head -1"
    done = execute(["bash", "-c", command], env=environment(PYTHONUNBUFFERED="1"))
    assert done.stderr == "ready\n"
    assert done.stdout.count("\n") == 1


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [([*POSTMORTEM, "--help"], 0, b""), ([*SAMPLE, "sample", "report", "--json"], 1, b"ready\n")],
)
def test_a_reader_that_is_gone_does_not_change_the_finding(
    command: list[str], code: int, said: bytes
) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        command, env=environment(), stdout=write, stderr=subprocess.PIPE, timeout=60, check=False
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (code, said)


def test_interrupted(prose: Prose) -> None:
    with subprocess.Popen(
        [*SAMPLE, "sample", "wait"],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stderr is not None
        assert child.stderr.readline() == "ready\n"
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=60)
    assert (child.returncode, out) == (130, "")
    prose(err)


@pytest.mark.parametrize("form", ["--json", "--markdown", "--verbose"])
@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_any_encoding_of_standard_output(form: str, encoding: str) -> None:
    env = environment(
        LC_ALL="C", PYTHONCOERCECLOCALE="0", PYTHONUTF8="0", PYTHONIOENCODING=encoding
    )
    done = subprocess.run(
        [*SAMPLE, "sample", "report", form], env=env, capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (1, b"ready\n")
    text = done.stdout.decode("utf-8" if form == "--json" else encoding)
    if form == "--json":
        assert json.loads(text)["kind"] == "core"
    elif encoding == "ascii":
        assert "secrets masked (4)" in text


def test_the_c_locale() -> None:
    env = environment(LC_ALL="C", PYTHONCOERCECLOCALE="0", PYTHONUTF8="0")
    done = call(SAMPLE, "sample", "report", "-v", env=env)
    assert done.returncode == 1
    assert done.stdout.isascii()
    assert "<- the message" in done.stdout


def test_closed_standard_output(prose: Prose) -> None:
    for words, code in (("sample report", 3), ("--help", 0)):
        command = f"'{sys.executable}' '{SAMPLE[1]}' {words} >&-"
        done = execute(["bash", "-c", command], env=environment())
        assert done.returncode == code
        assert "Traceback" not in done.stderr
        if code == 3:
            prose(done.stderr)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize(
    "words", [["sample", "report"], ["sample", "report", "--json"], ["--help"]]
)
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_is_told_once(words: list[str], unbuffered: str) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*SAMPLE, *words],
            env={**environment(), "PYTHONUNBUFFERED": unbuffered},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 3
    assert done.stderr.count("No space left on device") == 1
    assert "Exception ignored" not in done.stderr


def test_output_to_a_file(tmp_path: Path) -> None:
    done = call(SAMPLE, "sample", "report", "--json", "-o", "r.json", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))["kind"] == "core"
    assert [p.name for p in tmp_path.iterdir()] == ["r.json"]


def test_output_replaces_a_file_whole_and_keeps_its_mode_and_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real.md", tmp_path / "link.md"
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to(real)
    assert call(SAMPLE, "sample", "report", "--markdown", "-o", str(link)).returncode == 1
    assert link.is_symlink()
    assert real.read_text(encoding="utf-8").startswith("### ")
    assert stat.S_IMODE(real.stat().st_mode) == 0o640


def test_output_never_replaces_the_evidence(tmp_path: Path, prose: Prose) -> None:
    core = tmp_path / "core-python-3097667-6.zst"
    core.write_bytes(b"evidence")
    done = call(SAMPLE, "sample", "report", "-o", core.name, cwd=tmp_path)
    assert done.returncode == 3
    prose(done.stderr)
    assert core.read_bytes() == b"evidence"


@pytest.mark.parametrize("target", ["missing/r.json", "."])
def test_an_output_that_cannot_be_is_told_before_the_work(target: str, tmp_path: Path) -> None:
    done = call(SAMPLE, "sample", "report", "-o", target, cwd=tmp_path)
    assert done.returncode == 2
    assert "ready" not in done.stderr


def test_output_to_what_is_no_file() -> None:
    assert call(SAMPLE, "sample", "report", "-o", "/dev/null").returncode == 1
    assert call(SAMPLE, "sample", "report", "-o", "-").stdout.startswith("SIGABRT")


@pytest.mark.parametrize("words", [["core", ""], ["strace", ""], ["logs", "", "x"], ["triage", ""]])
def test_an_empty_path_is_no_folder(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variable that is unset must not have the newest core of this folder explained."""
    monkeypatch.chdir(tmp_path)
    assert run_here(*words).returncode == 2
