"""What all tests of this folder do on the side."""

from collections.abc import Iterator

import pytest

from builders import border


@pytest.fixture(scope="session", autouse=True)
def border_holds() -> Iterator[None]:
    """Compare every row that the native extension makes for a test with its stub."""
    module = pytest.importorskip("postmortem._native", reason="the extension is not built")
    yield from border.check_calls(module)
