"""Calls of the model within each other and in several threads: how many batches they are."""

import threading
from typing import Any

import pytest

import postmortem

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

nn = torch.nn


class Tree(nn.Module):
    """Calls itself; at the leaf it may raise, which the root catches."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x: Any, depth: int, fails: bool = False) -> Any:
        if depth:
            try:
                x = self(x, depth - 1, fails)
            except RuntimeError:
                x = x + 1
        elif fails:
            raise RuntimeError
        return self.layer(x)


class Meets(nn.Module):
    """Waits in its call until all others are in theirs."""

    def forward(self, x: Any, barrier: threading.Barrier) -> Any:
        barrier.wait()
        return x + 1


def test_a_model_that_calls_itself_is_called_once_a_batch() -> None:
    model = Tree()
    with postmortem.NumericsMonitor(model) as monitor:
        for batch in range(3):
            assert monitor.batch == batch
            model(torch.ones(2), 2)
        model(torch.ones(2), 2, True)
        model(torch.ones(2), 0)
        assert monitor.batch == 5


def test_batches_that_are_told_count_where_nobody_looks() -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    with postmortem.NumericsMonitor(model, every=4) as monitor:
        for batch in range(9):
            monitor.begin_batch()
            assert monitor.batch == batch
            model[0](torch.ones(2))
        assert monitor._records.made == 3


def test_a_call_that_raised_is_a_batch() -> None:
    model = Tree()
    with postmortem.NumericsMonitor(model) as monitor:
        with pytest.raises(RuntimeError):
            model(torch.ones(2), 0, True)
        model(torch.ones(2), 1)
        assert monitor.batch == 2


def test_calls_in_several_threads_are_a_batch_each() -> None:
    model, barrier = Meets(), threading.Barrier(3)
    threads = [threading.Thread(target=model, args=(torch.ones(2), barrier)) for _ in range(3)]
    with postmortem.NumericsMonitor(model) as monitor:
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        model(torch.ones(2), threading.Barrier(1))
        assert monitor.batch == 4
