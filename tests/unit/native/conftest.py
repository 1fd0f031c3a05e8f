"""The native extension, and files for it to read."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from builders.elf import CoreBuilder

native = pytest.importorskip("postmortem._native", reason="the extension is not built")

Read = Callable[..., dict[str, Any]]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Return a reader of cores given as bytes or as a builder."""

    def run(core: bytes | CoreBuilder, **options: str) -> dict[str, Any]:
        path = tmp_path / "core.under-test"
        path.unlink(missing_ok=True)  # what is written over goes to the disk at once
        path.write_bytes(core if isinstance(core, bytes) else core.build())
        return native.read_core(str(path), **options)

    return run


def said(report: dict[str, Any]) -> str:
    """Return all problems of a report as one text."""
    return "\n".join(f"{row['where']}: {row['what']}" for row in report["problems"])


@pytest.fixture
def problems() -> Callable[[dict[str, Any]], str]:
    """Return `said`."""
    return said


@pytest.fixture
def damage() -> Callable[[dict[str, Any]], list[str]]:
    """Return what a report says of damage to the file.

    Cores made by hand have no libc and no arguments; that these cannot be read is no damage.
    """

    def told(report: dict[str, Any]) -> list[str]:
        absent = ("command line", "environ")
        return [row["what"] for row in report["problems"] if row["where"] not in absent]

    return told
