"""Modules of the package are found as Python finds them, where it would believe as much."""

import os
import py_compile
from importlib.machinery import PathFinder
from pathlib import Path

import pytest

from postmortem.own_modules import _Finder


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "one.py"
    path.write_text("X = 1\n")
    py_compile.compile(str(path))
    return path


@pytest.mark.parametrize("inside", ["", "one"])
def test_a_module_is_found_as_python_finds_it(source: Path, inside: str) -> None:
    if inside:  # a package
        source = source.rename(source.parent / "__init__.py")
        py_compile.compile(str(source))
    place = source.parent.parent if inside else source.parent
    name = f"postmortem.{source.parent.name if inside else 'one'}"
    ours, theirs = (f.find_spec(name, [str(place)]) for f in (_Finder, PathFinder))
    assert ours is not None
    assert theirs is not None
    for field in ("name", "origin", "cached", "has_location", "submodule_search_locations"):
        assert getattr(ours, field) == getattr(theirs, field)
    assert ours.loader is not None
    assert theirs.loader is not None
    code = [spec.loader.get_code(name) for spec in (ours, theirs)]  # type: ignore[attr-defined]
    assert code[0] == code[1]


def test_bytecode_that_python_would_not_believe_is_left_to_it(source: Path) -> None:
    def found() -> bool:
        return _Finder.find_spec("postmortem.one", [str(source.parent)]) is not None

    assert found()
    written = source.stat()
    source.write_text("X = 22\n")
    os.utime(source, ns=(written.st_atime_ns, written.st_mtime_ns))
    assert not found()
    source.write_text("X = 2\n")
    os.utime(source, (1, 1))
    assert not found()
    py_compile.compile(str(source))
    assert found()
    py_compile.compile(str(source), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    assert not found()
    source.write_text("X = 1\n" * 10_000 + f"Y = {'y' * 70_000!r}\n")
    py_compile.compile(str(source))
    assert not found()


def test_modules_of_others_are_left_to_python(source: Path) -> None:
    assert _Finder.find_spec("other.one", [str(source.parent)]) is None
    assert _Finder.find_spec("postmortem", None) is None
