"""Source lines around a place: bounded, and of source files alone."""

import os
from pathlib import Path

import pytest

from postmortem.analyses.places import with_source
from postmortem.readers.source_lines import find_source, read_lines
from postmortem.report.card import Highlights, Place


@pytest.fixture
def train(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text("".join(f"line {n}\n" for n in range(1, 8)))
    return path


def placed(place: Place, **options: object) -> Place:
    return with_source(Highlights(places=(place,)), **options).places[0]  # type: ignore[arg-type]


def test_lines_around(train: Path) -> None:
    found = read_lines(str(train), 4)
    assert found is not None
    assert found[0] == tuple((n, f"line {n}") for n in range(2, 7))


@pytest.mark.parametrize(("line", "shown"), [(1, (1, 2, 3)), (7, (5, 6, 7))])
def test_lines_at_the_ends(train: Path, line: int, shown: tuple[int, ...]) -> None:
    found = read_lines(str(train), line)
    assert found is not None
    assert tuple(n for n, _ in found[0]) == shown


def test_no_such_line(train: Path) -> None:
    assert read_lines(str(train), 100) is None
    assert read_lines(str(train), 0) is None


@pytest.mark.parametrize("name", ["/etc/passwd", "/proc/self/environ", "/dev/zero", "a\0.py"])
def test_only_source_is_opened(name: str) -> None:
    assert find_source(name, ["/"]) is None


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "train.py")
    assert find_source(str(tmp_path / "train.py")) is None
    assert read_lines(str(tmp_path / "train.py"), 1) is None


def test_a_relative_name_is_looked_for_in_folders(train: Path) -> None:
    assert find_source("train.py", ["relative", str(train.parent)]) == str(train)
    assert find_source("train.py") is None


def test_a_file_changed_since_is_marked(train: Path) -> None:
    place = Place("f", str(train), 4)
    os.utime(train, (1000, 1000))
    assert placed(place, ran=2000.0).doubt is None
    assert placed(place, ran=500.0).doubt == "changed since"


def test_the_line_of_the_evidence_decides(train: Path) -> None:
    same = Place("f", str(train), 4, source=((4, "line 4"),))
    other = Place("f", str(train), 4, source=((4, "line four"),))
    assert len(placed(same).source) == 5
    assert placed(other).source == other.source


def test_a_link_that_is_only_called_like_source_is_not_followed(train: Path) -> None:
    secret = train.with_name("shadow")
    secret.write_text("root:x\n" * 9)
    (train.parent / "link.py").symlink_to(secret)
    (train.parent / "good.py").symlink_to(train)
    assert read_lines(str(train.parent / "link.py"), 4) is None
    assert read_lines(str(train.parent / "good.py"), 4) is not None
