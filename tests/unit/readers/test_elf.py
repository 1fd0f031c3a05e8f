"""What lief tells about binaries, on binaries built on the spot and on the system's own."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from builders.prose import Prose
from postmortem.errors import EvidenceError
from postmortem.readers.elf import debug_info_of, read_binary, version_key, versions_provided

COMPILER = shutil.which("cc") or shutil.which("gcc")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="needs a C compiler")


def build(tmp_path: Path, name: str, source: str, *options: str) -> Path:
    assert COMPILER is not None
    code, out = tmp_path / f"{name}.c", tmp_path / name
    code.write_text(source)
    subprocess.run([COMPILER, "-o", out, code, *options], check=True)
    return out


@pytest.mark.cxx
@needs_compiler
def test_library_with_everything(tmp_path: Path) -> None:
    source = "#include <math.h>\n__thread int t; int *f(void) {return &t;}"
    source += "\ndouble g(double x) {return pow(x, x);}"
    options = ["-shared", "-fPIC", "-ftls-model=initial-exec", "-Wl,--no-as-needed", "-lm"]
    paths = "-Wl,-rpath,/opt/a:$ORIGIN/../lib,--enable-new-dtags"
    facts = read_binary(str(build(tmp_path, "libx.so", source, *options, paths)))
    assert facts.needed == ("libm.so.6", "libc.so.6")
    assert facts.runpath == ("/opt/a", "$ORIGIN/../lib")
    assert facts.rpath == ()
    assert facts.static_tls
    assert any(version.startswith("GLIBC_2.") for version in dict(facts.versions)["libm.so.6"])


@pytest.mark.cxx
@needs_compiler
def test_old_rpath_and_no_static_tls(tmp_path: Path) -> None:
    options = ["-shared", "-fPIC", "-Wl,-rpath,/opt/b,--disable-new-dtags"]
    facts = read_binary(str(build(tmp_path, "liby.so", "int f(void) {return 1;}", *options)))
    assert (facts.rpath, facts.runpath, facts.static_tls) == (("/opt/b",), (), False)


@pytest.mark.cxx
@needs_compiler
def test_versions_that_a_library_defines(tmp_path: Path) -> None:
    script = tmp_path / "versions"
    script.write_text("V_1.9 { global: f; }; V_1.10 { global: g; local: *; } V_1.9;")
    source = "int f(void) {return 1;} int g(void) {return 2;}"
    option = f"-Wl,--version-script={script}"
    library = build(tmp_path, "libz.so", source, "-shared", "-fPIC", option)
    assert versions_provided(str(library)) == ("V_1.9", "V_1.10")


def test_this_python() -> None:
    facts = read_binary(str(Path(sys.executable).resolve()))
    assert any(name.startswith(("libc.", "libpython")) for name in facts.needed)


@pytest.mark.cxx
@needs_compiler
def test_debug_info_in_the_binary_beside_it_or_nowhere(tmp_path: Path) -> None:
    objcopy = shutil.which("objcopy")
    if objcopy is None:
        pytest.skip("needs objcopy")
    source = "int main(void) {return 0;}"
    whole = build(tmp_path, "whole", source, "-g")
    assert debug_info_of(str(whole)) == str(whole)
    separate, stripped = tmp_path / ".debug" / "whole.debug", tmp_path / "stripped"
    separate.parent.mkdir()
    subprocess.run([objcopy, "--only-keep-debug", whole, separate], check=True)
    option = f"--add-gnu-debuglink={separate}"
    subprocess.run([objcopy, "--strip-debug", option, whole, stripped], check=True)
    assert debug_info_of(str(stripped)) == str(separate)
    separate.unlink()
    assert debug_info_of(str(stripped)) is None


def test_version_key() -> None:
    names = ["GLIBC_2.36", "GLIBC_2.9", "GLIBC_PRIVATE", "CXXABI_1.3.13", "CXXABI_1.3.2"]
    assert sorted(names, key=version_key)[:2] == ["CXXABI_1.3.2", "CXXABI_1.3.13"]
    assert sorted(names, key=version_key).index("GLIBC_2.9") < 4


def test_refusals(tmp_path: Path, capfd: pytest.CaptureFixture[str], prose: Prose) -> None:
    text = tmp_path / "text"
    text.write_text("x" * 100)
    with pytest.raises(EvidenceError) as refused:
        read_binary(str(text))
    prose(refused.value)
    with pytest.raises(EvidenceError) as refused:
        read_binary(str(tmp_path / "none"))
    prose(refused.value)
    with pytest.raises(EvidenceError) as refused:
        read_binary(str(Path(sys.executable).resolve()), limit_bytes=100)
    assert "0 MiB" in str(refused.value)
    executable = Path(sys.executable).resolve().read_bytes()
    for size in (20, 64, 70, 500, 4096):
        (tmp_path / "cut").write_bytes(executable[:size])
        try:
            read_binary(str(tmp_path / "cut"))
        except EvidenceError as error:
            assert "cut" in str(error)  # noqa: PT017  # lief 1.0 reads some cuts, 0.16 fewer
    assert capfd.readouterr() == ("", "")
