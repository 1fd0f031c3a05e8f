"""Known bugs: their files, and versions in order."""

import re
from pathlib import Path

import pytest

import postmortem.knowledge.bugs as knowledge
from postmortem.facts.bug import KnownBug
from postmortem.knowledge.bugs import NEEDLES, bugs, families_for, needle_table
from postmortem.knowledge.messages import by_id
from postmortem.knowledge.version_ranges import bounds, is_in, version
from postmortem.report.model import Confidence, Role

BUGS = bugs()


def test_ids() -> None:
    ids = [bug.id for bug in BUGS]
    assert len(ids) == len(set(ids))
    assert not set(ids) & set(by_id())


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.id)
def test_record(bug: KnownBug) -> None:
    assert re.fullmatch(r"https://\S+", bug.reference)
    assert 0 < len(f"known bug: {bug.title}") <= 100
    assert not bug.title.endswith(".")
    assert 1 <= bug.cause.count(". ") + 1 <= 3
    assert bug.cause.endswith(".")
    assert bug.work_around
    assert bug.fixed_in
    assert bug.machine in ("any", "x86_64", "aarch64")
    assert Role(bug.role) in (Role.ROOT, Role.CONTRIBUTING)
    assert set(bug.messages) <= set(by_id())
    assert bug.messages or bug.text or bug.frames or bug.modules or bug.signals
    assert any((bug.messages, bug.text, bug.frames, bug.modules, bug.variables))
    open_start = any(all(sign[0] == "<" for sign, _ in bounds(one)) for one in bug.affected)
    assert not (open_start and Confidence(bug.confidence) is Confidence.CERTAIN)
    unknown = ("not known", "not stated")
    if bug.fixed_in.startswith(unknown) and not bug.telling:
        ends = all(any(sign[0] == "<" for sign, _ in bounds(one)) for one in bug.affected)
        assert ends or bug.confidence == Confidence.POSSIBLE


def test_needles_are_those_of_the_records() -> None:
    written = (Path(knowledge.__file__).parent / NEEDLES).read_text()
    assert written == needle_table(), "run python -m postmortem.knowledge.bugs"


def test_families_for() -> None:
    assert families_for("") == ()
    assert families_for("main\nstep") == ()
    assert "nccl" in families_for("ncclLocalOpAppend(ncclComm*)")


ORDER = (
    "1.13.0",
    "2.3.0rc1",
    "2.3.0",
    "2.9",
    "2.10.0.dev20250101+cu126",
    "2.10",
    "2.10.1+cu121",
    "2.29.2-1",
    "2.29.3",
    "v2.30.7-1",
    "535.54.03",
    "535.104.05",
)


def test_order() -> None:
    parsed = [version(text) for text in ORDER]
    keys = [one.key for one in parsed if one is not None]
    assert len(keys) == len(ORDER)
    assert keys == sorted(keys)
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize(
    ("first", "second"),
    [("2.9", "2.9.0"), ("2.1.0+cu121", "2.1"), ("v2.29.3", "2.29.3-1"), ("2.0.0.post1", "2.0")],
)
def test_same(first: str, second: str) -> None:
    assert version(first) == version(second)


@pytest.mark.parametrize("text", ["", "unknown", "+cu121", "x" * 9999, "v"])
def test_no_version(text: str) -> None:
    assert version(text) is None


def test_ranges() -> None:
    def holds(text: str, affected: str) -> bool:
        one = version(text)
        assert one is not None
        return is_in(one, affected)

    assert holds("2.28.9+cuda13.0", "<2.29.3")
    assert not holds("2.29.3+cuda13.0", "<2.29.3")
    assert holds("2.10.0", ">=2.9")
    assert not holds("2.10", "<2.9")
    assert not holds("2.3.0rc1", ">=2.3")
    assert not holds("2.3.0a0+git1234567", ">=2.3")
    assert holds("2.17.1", ">=2.17.1, <=2.17.1")
    with pytest.raises(ValueError, match="no range"):
        bounds("2.17 or so")
