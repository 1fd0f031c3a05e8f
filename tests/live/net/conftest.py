"""Real hosts in network namespaces, where this machine allows them."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pytest

from builders.networks import Network, network, why_not

_why_not = cache(why_not)
Hosts = Callable[..., Network]


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    """Return `hosts(count, bridged=False)`: so many hosts that reach each other."""
    why = _why_not()
    if why is not None:
        pytest.skip(why)
    with ExitStack() as stack:

        def make(count: int, *, bridged: bool = False) -> Network:
            return stack.enter_context(network(tmp_path, count, bridged=bridged))

        yield make
