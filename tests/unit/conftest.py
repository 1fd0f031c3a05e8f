"""What all tests of this folder do on the side."""

from collections.abc import Iterator

import pytest

from builders import border, cards
from builders.commands import read_here


@pytest.fixture(scope="session", autouse=True)
def border_holds() -> Iterator[None]:
    """Compare every row that the native extension makes for a test with its stub."""
    module = pytest.importorskip("postmortem._native", reason="the extension is not built")
    yield from border.check_calls(module)


@pytest.fixture(scope="session", autouse=True)
def readers_answer_here() -> Iterator[None]:
    """Have the readers of `triage` answer in this process; a triage in its own starts them."""
    side_by_side = pytest.importorskip("postmortem.readers.side_by_side")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(side_by_side, "_read", read_here)
        patch.setattr(side_by_side, "_AT_ONCE", 1)
        yield


_MOST_CARDS = 8


@pytest.fixture(autouse=True)
def cards_hold() -> Iterator[None]:
    """Hold the first screen of what a test concludes to the rules of all cards."""
    with cards.made() as reports:
        yield
    for report in reports[-_MOST_CARDS:]:
        found = list(cards.faults(report))
        assert found == [], report.verdict
