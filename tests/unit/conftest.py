"""What all tests of this folder do on the side."""

from collections.abc import Iterator

import pytest

from builders import border, cards


@pytest.fixture(scope="session", autouse=True)
def border_holds() -> Iterator[None]:
    """Compare every row that the native extension makes for a test with its stub."""
    module = pytest.importorskip("postmortem._native", reason="the extension is not built")
    yield from border.check_calls(module)


_MOST_CARDS = 8


@pytest.fixture(autouse=True)
def cards_hold() -> Iterator[None]:
    """Hold the first screen of what a test concludes to the rules of all cards."""
    with cards.made() as reports:
        yield
    for report in reports[-_MOST_CARDS:]:
        found = list(cards.faults(report))
        assert found == [], report.verdict
