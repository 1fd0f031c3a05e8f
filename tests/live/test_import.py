"""`postmortem import` on modules that fail for real, each in its own way."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from builders.schema import validate

needs_compiler = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")


def imported(name: str, *words: str, code: int = 1) -> dict[str, Any]:
    command = [sys.executable, "-m", "postmortem", "import", name, "--json", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    if code == 3:
        return {"stderr": done.stderr}
    report: dict[str, Any] = json.loads(done.stdout)
    validate(report)
    return report


def best(report: dict[str, Any]) -> tuple[str, str]:
    return report["diagnoses"][0]["id"], report["diagnoses"][0]["title"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def put(name: str, text: str) -> None:
    Path(name).write_text(text)


def gcc(*words: str) -> None:
    subprocess.run(["gcc", "-shared", "-fPIC", *words], check=True)


def test_it_is_well() -> None:
    put("fine.py", "import wave\n__version__ = '2.1'\n")
    report = imported("fine", code=0)
    assert (report["outcome"], report["diagnoses"]) == ("healthy", [])
    assert (report["version"], Path(report["file"]).name) == ("2.1", "fine.py")
    assert "fine" in {row["name"] for row in report["costs"]}


def test_a_folder_without_init_is_told() -> None:
    Path("plain").mkdir()
    verdict = imported("plain", code=0)["verdict"]
    assert str(Path.cwd() / "plain") in verdict


def test_the_slow_part_is_named() -> None:
    put("late.py", "import time\ntime.sleep(0.4)\n")
    put("user.py", "import late\n")
    first = imported("user", code=0)["costs"][0]
    assert first["name"] == "late"
    assert first["own"] >= 0.4


def test_a_module_that_is_missing() -> None:
    put("user.py", "import no_such_module_here\n")
    report = imported("user")
    id_, title = best(report)
    assert id_ == "import_raised"
    assert "no_such_module_here" in title
    assert "user" in title
    put("numeric.py", "")
    assert "numeric" in json.dumps(imported("numerik")["diagnoses"][0]["next_steps"])


@pytest.mark.parametrize("program", ["import json\njson.dumps({})\n", "from json import dumps\n"])
def test_a_file_of_ours_hides_a_module(program: str) -> None:
    put("json.py", "def loads(text): pass\n")
    put("user.py", program)
    report = imported("user")
    assert best(report)[0] == "import_shadowed"
    (shadow,) = report["shadows"]
    assert (shadow["name"], Path(shadow["file"]).name) == ("json", "json.py")


def test_a_file_on_the_path_hides_a_module_from_others_but_not_from_us(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "mine").mkdir()
    put("mine/random.py", "")
    monkeypatch.setenv("PYTHONPATH", "mine")
    report = imported("tempfile")
    assert best(report)[0] == "import_shadowed"
    (shadow,) = report["shadows"]
    assert (shadow["name"], shadow["file"]) == ("random", str(here / "mine/random.py"))


@pytest.mark.parametrize("asks", ["from first import value", "import first; first.value"])
def test_modules_that_import_each_other(asks: str) -> None:
    put("first.py", "import os\nimport second\nvalue = 1\n")
    put("second.py", f"{asks}\n")
    id_, title = best(imported("first"))
    assert id_ == "import_circular"
    assert {"first.py", "second.py"} <= set(title.split())


def test_a_package_that_is_there_without_the_module() -> None:
    Path("parts").mkdir()
    put("parts/__init__.py", "__version__ = '3.1'\n")
    put("parts/numeric.py", "")
    report = imported("parts.numerik")
    id_, title = best(report)
    assert (id_, "3.1" in title) == ("import_raised", True)
    assert "numeric" in report["diagnoses"][0]["next_steps"][0]


def test_a_file_of_that_name_is_not_blamed_for_another_fault() -> None:
    put("wave.py", "")
    put("user.py", "import wave\nraise ValueError('seven')\n")
    report = imported("user")
    assert best(report) == ("import_raised", "import user raises ValueError: seven")
    (shadow,) = report["shadows"]
    assert shadow["name"] == "wave"


@needs_compiler
def test_a_missing_symbol() -> None:
    put("ext.c", "int not_there(void); void *PyInit_ext(void) { not_there(); return 0; }\n")
    gcc("ext.c", "-o", "ext.so")
    report = imported("ext")
    id_, title = best(report)
    assert id_ == "import_library_broken"
    assert "ext.so" in title
    assert "not_there" in title
    assert report["diagnoses"][0]["confidence"] == "certain"


@needs_compiler
def test_a_library_that_is_too_old_and_one_that_is_gone(here: Path) -> None:
    put("v.map", "NEW_2.0 { global: helper; };\n")
    put("lib.c", "int helper(void) { return 1; }\n")
    put("ext.c", "int helper(void); void *PyInit_ext(void) { helper(); return 0; }\n")
    gcc("lib.c", "-Wl,--version-script=v.map", "-o", "libhelp.so.1", "-Wl,-soname,libhelp.so.1")
    gcc("ext.c", "-o", "ext.so", "-l:libhelp.so.1", f"-L{here}", f"-Wl,-rpath,{here}")
    put("old.map", "OLD_1.0 { global: helper; };\n")
    gcc("lib.c", "-Wl,--version-script=old.map", "-o", "libhelp.so.1", "-Wl,-soname,libhelp.so.1")
    identity, title = best(imported("ext"))
    assert identity == "import_library_broken"
    assert "NEW_2.0" in title
    elsewhere = here / "nvidia" / "help" / "lib"
    elsewhere.mkdir(parents=True)
    Path("libhelp.so.1").rename(elsewhere / "libhelp.so.1")
    report = imported("ext")
    identity, title = best(report)
    assert identity == "import_library_broken"
    assert "libhelp.so.1" in title
    assert str(elsewhere) in report["diagnoses"][0]["next_steps"][0]
    (elsewhere / "libhelp.so.1").unlink()
    steps = imported("ext")["diagnoses"][0]["next_steps"]
    assert all("libhelp.so.1" in step for step in steps)


@needs_compiler
def test_a_crash_names_what_was_being_loaded() -> None:
    put("ext.c", "__attribute__((constructor)) void go(void) { __builtin_trap(); }\n")
    gcc("ext.c", "-o", "ext.so")
    put("user.py", "import ext\n")
    report = imported("user")
    assert report["signal"] in ("SIGILL", "SIGTRAP")
    id_, title = best(report)
    assert id_ == "import_crashed"
    assert report["signal"] in title
    assert "ext.so" in title
    assert "user.py:1" in report["stack"][-1] or any("user.py:1" in row for row in report["stack"])


def test_a_crash_of_a_call_names_the_line_and_not_what_was_loaded_before() -> None:
    put("user.py", "import ctypes\nctypes.string_at(8)\n")
    report = imported("user")
    id_, title = best(report)
    assert id_ == "import_crashed"
    assert "user.py:2" in title


def test_an_import_that_hangs() -> None:
    put("stuck.py", "import threading\nlock = threading.Lock()\nlock.acquire()\nlock.acquire()\n")
    report = imported("stuck", "--timeout", "4")
    assert best(report)[0] == "import_never_ends"
    assert any("stuck.py:4" in row for row in report["stack"])


def test_one_that_exits_is_no_success() -> None:
    put("gone.py", "import os\nos._exit(0)\n")
    report = imported("gone")
    assert report["outcome"] == "failed"
    put("leaves.py", "raise SystemExit(0)\n")
    assert imported("leaves")["raised"]["type"] == "SystemExit"


def test_what_it_writes_does_not_mislead() -> None:
    """It may write to all descriptors that it has, ours too."""
    put(
        "loud.py",
        """
import os
for number in range(3, 9):
    try:
        os.write(number, b"{'file': 1, 'raised': 'x'}\\n\\xff(")
    except OSError:
        pass
raise KeyError("x")
""",
    )
    assert best(imported("loud"))[0] == "import_raised"


def test_no_such_python() -> None:
    assert "/no/such/python" in imported("json", "--python", "/no/such/python", code=3)["stderr"]
    assert "/bin/false" in imported("json", "--python", "/bin/false", code=3)["stderr"]


NONSENSE = """
import os, stat
rows = b"\\n{'raised': {}}\\n{'shadow': 5}\\n{'seconds': 'x'}\\n{'path': 5}\\n"
rows += b"[" * 100_000 + b"\\n"
for number in range(3, 20):
    try:
        if stat.S_ISREG(os.fstat(number).st_mode):
            os.write(number, rows)
    except OSError:
        pass
os._exit(0)
"""


def test_a_module_may_tell_anything_of_its_import() -> None:
    put("liar.py", NONSENSE)
    assert sys.executable in imported("liar", code=3)["stderr"]


def test_a_message_of_any_length_is_told() -> None:
    put("wordy.py", "raise RuntimeError('a ' + 'word ' * 5_000_000)\n")
    id_, title = best(imported("wordy"))
    assert id_ == "import_raised"
    assert "RuntimeError: a word" in title


def test_a_message_that_cannot_be_had_is_none() -> None:
    put("mute.py", "class E(Exception):\n def __str__(self): raise SystemExit(3)\nraise E\n")
    assert best(imported("mute"))[1] == "import mute raises E"


def test_a_module_that_writes_without_end_is_late() -> None:
    put("flood.py", "import sys\nwhile True:\n    sys.stderr.write('x' * 100_000)\n")
    id_, title = best(imported("flood", "--timeout", "4"))
    assert id_ == "import_never_ends"
    assert "flood" in title
    assert "4 s" in title
