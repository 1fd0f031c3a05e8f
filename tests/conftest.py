"""Fixtures and options that all tests share."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="rewrite golden files with what the tests got, and show the difference",
    )


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Return a function that compares text with the file `golden/NAME` beside the test."""
    update: bool = request.config.getoption("--update-golden")
    folder = Path(request.path).parent / "golden"

    def compare(name: str, text: str) -> None:
        path = folder / name
        expected = path.read_text(encoding="utf-8") if path.exists() else ""
        if text == expected:
            return
        difference = "\n".join(
            difflib.unified_diff(
                expected.splitlines(), text.splitlines(), f"golden/{name}", "got", lineterm=""
            )
        )
        if not update:
            pytest.fail(f"{difference}\n\nif this is right: pytest --update-golden", pytrace=False)
        folder.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(difference)  # noqa: T201  pytest -rP shows it

    return compare
