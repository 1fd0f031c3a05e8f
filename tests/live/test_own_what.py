"""What exceptions of a program's own say, whatever the compiler made of their what()."""

import os
import platform
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from builders.facts import read_core

SOURCE = Path(__file__).parents[1] / "programs" / "own_what.cpp"
SAID = {
    "constant": "always the same",
    "member": "loss is NaN at step 1200",
    "inner": "kept inside, as json libraries do",
    "second": "behind a virtual base, which takes a thunk",
    # It writes, or decides by data: better nothing than half.
    "lazy": None,
    "choosing": None,
}
FLAGS = {
    "unoptimised": ["-O0"],
    "optimised": ["-O2"],
    "guarded": ["-O1", "-fstack-protector-all"],
    "guarded and unoptimised": ["-O0", "-fstack-protector-all", "-fcf-protection=full"],
    "static and stripped": ["-O2", "-static", "-s"],
}

pytestmark = [
    pytest.mark.cores,
    pytest.mark.cxx,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="instructions of x86-64"),
]


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function that compiles the program once for each set of flags."""
    folder = tmp_path_factory.mktemp("own_what")
    done: dict[str, Path] = {}

    def build(kind: str) -> Path:
        compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++")
        if compiler is None:
            pytest.skip("no C++ compiler found (g++, c++ or $CXX)")
        if kind not in done:
            target = folder / kind.replace(" ", "_")
            command = [compiler, "-std=c++17", *FLAGS[kind], "-o", str(target), str(SOURCE)]
            made = subprocess.run(command, capture_output=True, text=True)
            if made.returncode != 0 and "-static" in command:
                pytest.skip("no static C++ library")
            assert made.returncode == 0, made.stderr
            done[kind] = target
        return done[kind]

    return build


@pytest.mark.parametrize("kind", FLAGS)
@pytest.mark.parametrize("case", SAID)
def test_what_is_followed(
    case: str, kind: str, program: Callable[[str], Path], crash: Callable[..., Any]
) -> None:
    core = crash([str(program(kind)), case]).core
    found = read_core(str(core)).cpp_exceptions
    core.unlink()
    assert [exception.what for exception in found] == [SAID[case]]


def test_an_exception_whose_library_is_gone_is_told_without_its_type(
    tmp_path: Path, crash: Callable[..., Any]
) -> None:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no g++")
    library, program = tmp_path / "libstore.so", tmp_path / "load"
    declared = "struct Lost { virtual ~Lost(); int shard; }; void store(int);"
    defined = "Lost::~Lost() {} void store(int n) { Lost lost; lost.shard = n; throw lost; }"
    library.with_suffix(".cpp").write_text(declared + defined)
    program.with_suffix(".cpp").write_text(declared + "int main() { store(7); }")
    for command in (
        ["-shared", "-fPIC", "-o", library, library.with_suffix(".cpp")],
        ["-o", program, program.with_suffix(".cpp"), library, f"-Wl,-rpath,{tmp_path}"],
    ):
        subprocess.run([compiler, *command], check=True, timeout=60)
    core = crash([str(program)]).core
    whole = read_core(str(core)).cpp_exceptions
    library.unlink()
    cut = read_core(str(core)).cpp_exceptions
    assert [one.type for one in whole] == ["Lost"]
    assert [(one.type, one.what, one.state) for one in cut] == [
        ("(unknown type)", None, "uncaught")
    ]


@pytest.mark.parametrize(
    ("thrown", "what"),
    [
        ("std::out_of_range(std::string(3, 'x') + \" of shard 7\")", "xxx of shard 7"),
        ('std::system_error(28, std::generic_category(), "ckpt")', "ckpt: No space left on device"),
        ("std::bad_alloc()", None),
    ],
)
def test_the_message_of_a_standard_exception_needs_no_library(
    tmp_path: Path, crash: Callable[..., Any], thrown: str, what: str | None
) -> None:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no g++")
    source, program, elsewhere = tmp_path / "load.cpp", tmp_path / "load", tmp_path / "elsewhere"
    headers = "".join(f"#include <{name}>\n" for name in ("new", "stdexcept", "system_error"))
    source.write_text(f"{headers}int main() {{ throw {thrown}; }}")
    subprocess.run([compiler, "-o", program, source], check=True, timeout=60)
    elsewhere.mkdir()
    core = crash([str(program)]).core
    (found,) = read_core(str(core), sysroot=str(elsewhere)).cpp_exceptions
    assert (found.type, found.what) == ("(unknown type)", what)
