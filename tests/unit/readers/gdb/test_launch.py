"""Under which settings and environment gdb is started."""

import ast
from pathlib import Path

from postmortem.readers.gdb import launch
from postmortem.readers.gdb.launch import arguments, environment

_CALLER = {
    "PATH": "/bin",
    "HOME": "/home/u",
    "LD_LIBRARY_PATH": "/opt/gcc/lib64",
    "LD_PRELOAD": "/opt/evil.so",
    "PYTHONPATH": "/work",
    "PYTHONHOME": "/opt/python",
    "PYTHONSTARTUP": "/home/u/.pythonrc",
    "GDBHISTFILE": "/home/u/.history",
    "DEBUGINFOD_URLS": "https://example.org",
    "LANGUAGE": "de",
    "LANG": "de_DE.UTF-8",
}


def test_environment_keeps_what_gdb_needs_and_drops_what_runs_code() -> None:
    kept = environment(_CALLER)
    assert {"PATH", "HOME", "LD_LIBRARY_PATH"} <= kept.keys()
    assert not kept.keys() & {
        "LD_PRELOAD",
        "PYTHONPATH",
        "PYTHONHOME",
        "PYTHONSTARTUP",
        "GDBHISTFILE",
        "DEBUGINFOD_URLS",
        "LANGUAGE",
    }
    assert kept["LC_ALL"] == "C.UTF-8"


def test_debuginfod_works_only_when_asked_for() -> None:
    assert environment(_CALLER, debuginfod=True)["DEBUGINFOD_URLS"] == "https://example.org"
    assert "set debuginfod enabled on" in arguments(debuginfod=True)
    assert "set debuginfod enabled off" in arguments()


def test_every_setting_comes_before_anything_is_loaded() -> None:
    line = arguments()
    assert line[:3] == ("-nx", "--quiet", "--interpreter=mi2")
    assert set(line[3::2]) == {"-iex"}
    for setting in (
        "set auto-load off",
        "set auto-load safe-path /dev/null",
        "set may-call-functions off",
        "set startup-with-shell off",
        "set index-cache enabled off",
    ):
        assert setting in line[4::2]


def test_script_inside_gdb_is_valid_for_the_oldest_embedded_python() -> None:
    # RHEL 8's gdb 8.2 embeds Python 3.6.
    script = Path(launch.__file__).with_name("inside.py").read_text(encoding="ascii")
    tree = ast.parse(script, feature_version=(3, 6))
    imported = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    modules = {n.names[0].name if isinstance(n, ast.Import) else n.module for n in imported}
    assert modules == {"gdb", "json", "time", "typing"}
