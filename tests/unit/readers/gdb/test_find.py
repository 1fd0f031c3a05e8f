"""Which gdb is taken, and what is said when none works."""

import shutil
from pathlib import Path

import pytest

from builders.prose import Prose
from postmortem.errors import DebuggerError
from postmortem.readers.gdb import find
from postmortem.readers.gdb.find import find_gdb, version_of

from .conftest import FakeGdb

GDB = shutil.which("gdb")


@pytest.fixture(autouse=True)
def _no_gdb_around(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.setenv("PATH", str(empty))
    monkeypatch.delenv("POSTMORTEM_GDB", raising=False)


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("GNU gdb (Debian 13.1-3) 13.1", (13, 1)),
        ("GNU gdb (GDB) 18.1", (18, 1)),
        ("GNU gdb (GDB) Red Hat Enterprise Linux 8.2-20.el8", (8, 2)),
        ("GNU gdb (Ubuntu 12.1-0ubuntu1~22.04.2) 12.1", (12, 1)),
        ("GNU gdb (GDB) Fedora Linux 15.2-1.fc41", (15, 2)),
        ("GNU gdb (GDB) 16.0.50.20250101-git", (16, 0)),
        ("GNU gdb", None),
    ],
)
def test_version_is_that_of_gdb_and_not_of_the_package(
    line: str, version: tuple[int, int] | None
) -> None:
    assert version_of(line) == version


def test_asked_for_comes_before_the_environment(
    fake_gdb: FakeGdb, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, other = fake_gdb("", "asked"), fake_gdb("", "other")
    monkeypatch.setenv("POSTMORTEM_GDB", other)
    assert find_gdb(asked).path == asked
    assert find_gdb().path == other


def test_environment_comes_before_path(
    fake_gdb: FakeGdb, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    on_path, other = fake_gdb("", "gdb"), fake_gdb("", "other")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_gdb().path == on_path
    monkeypatch.setenv("POSTMORTEM_GDB", other)
    assert find_gdb().path == other


def test_name_is_looked_up_on_path(
    fake_gdb: FakeGdb, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = fake_gdb("", "gdb-multiarch")
    monkeypatch.setenv("PATH", str(tmp_path))
    found = find_gdb("gdb-multiarch")
    assert (found.path, found.version) == (path, (12, 3))
    assert found.version_text == "GNU gdb (Fake 0.1-2) 12.3"


def test_a_path_that_begins_with_a_dot_is_no_name(
    fake_gdb: FakeGdb, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = fake_gdb("", "my-gdb")
    monkeypatch.chdir(tmp_path)
    assert find_gdb("./my-gdb").path == path


def test_asked_for_and_broken_is_an_error_though_another_works(
    fake_gdb: FakeGdb, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, prose: Prose
) -> None:
    fake_gdb("", "gdb")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DebuggerError) as refused:
        find_gdb("/nowhere/gdb")
    prose(refused.value)
    plain = tmp_path / "plain"
    plain.write_text("text")
    with pytest.raises(DebuggerError) as refused:
        find_gdb(str(plain))
    prose(refused.value)
    monkeypatch.setenv("POSTMORTEM_GDB", "/nowhere/gdb")
    with pytest.raises(DebuggerError, match="POSTMORTEM_GDB names"):
        find_gdb()


def test_other_program_is_no_gdb(tmp_path: Path, prose: Prose) -> None:
    script = tmp_path / "lldb"
    script.write_text("#!/bin/sh\necho lldb version 19\n")
    script.chmod(0o755)
    with pytest.raises(DebuggerError, match="said 'lldb version 19'") as caught:
        find_gdb(str(script))
    assert caught.value.hint is not None
    prose(caught.value.hint)
    assert "torch-postmortem[gdb]" in caught.value.hint


def test_gdb_that_cannot_start_says_why(tmp_path: Path) -> None:
    script = tmp_path / "gdb"
    script.write_text(
        "#!/bin/sh\necho 'libpython3.9.so: cannot open shared object' >&2; exit 127\n"
    )
    script.chmod(0o755)
    with pytest.raises(DebuggerError, match=r"libpython3.9.so: cannot open.*exit status 127"):
        find_gdb(str(script))


@pytest.mark.parametrize("body", ["sleep 1000", "while :; do echo gdb; done"])
def test_probe_of_a_program_that_never_ends_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, prose: Prose
) -> None:
    import time

    monkeypatch.setattr(find, "_PROBE_SECONDS", 0.5)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    script = tmp_path / "gdb"
    script.write_text(f"#!/bin/sh\n{body}\n")
    script.chmod(0o755)
    began = time.monotonic()
    if "sleep" in body:
        with pytest.raises(DebuggerError) as refused:
            find_gdb(str(script))
        prose(refused.value)
    else:
        assert find_gdb(str(script)).version is None
    assert time.monotonic() - began < 20


def test_without_any_gdb_the_hint_names_two_ways(
    monkeypatch: pytest.MonkeyPatch, prose: Prose
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(DebuggerError) as caught:
        find_gdb()
    prose(caught.value)
    assert caught.value.hint == find.HINT


def test_broken_gdb_on_path_is_named_when_nothing_else_works(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, prose: Prose
) -> None:
    script = tmp_path / "gdb"
    script.write_text("#!/bin/sh\nexit 1\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(DebuggerError) as refused:
        find_gdb()
    prose(refused.value)


def test_the_version_is_asked_without_init_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if GDB is None:
        pytest.skip("no gdb")
    early = tmp_path / ".config" / "gdb" / "gdbearlyinit"
    early.parent.mkdir(parents=True)
    for path in (early, tmp_path / ".gdbearlyinit", tmp_path / ".gdbinit"):
        path.write_text(f"shell touch {tmp_path}/ran\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / ".config"))
    assert find_gdb(GDB).version is not None
    assert not (tmp_path / "ran").exists()


def test_unseen_gdb_is_not_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "gdb"
    script.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    found = find_gdb(probe=False)
    assert (found.path, found.version_text) == (str(script), "")
    assert not (tmp_path / "started").exists()
