"""Tests that need an NVIDIA GPU: `pytest tests/gpu` runs them; without one they say why not."""

from functools import cache

import pytest


@cache
def trouble() -> str | None:
    """Return why nothing here can run, None if it can."""
    try:
        import torch
    except ImportError:
        return "PyTorch is not installed"
    from postmortem.scan import cuda

    if not torch.cuda.is_available():
        return f"PyTorch sees no GPU; our module: {cuda.usable().state}"
    return cuda.why_not(0)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = trouble()
    for item in items:
        if reason is not None and "tests/gpu" in str(item.path):
            item.add_marker(pytest.mark.skip(reason=f"needs an NVIDIA GPU: {reason}"))
