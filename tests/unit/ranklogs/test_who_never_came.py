"""Who did not come to the start of a job, or left it, where its own lines say why."""

from pathlib import Path
from typing import Any

import pytest

from postmortem.analyses.ranklogs import RankLogOptions, analyse

_MISSED = (
    "Traceback (most recent call last):\n"
    '  File "train.py", line 9, in <module>\n'
    "    dist.init_process_group()\n"
    "torch.distributed.{}\n"
)
_JOINED = _MISSED.format(
    "DistStoreError: Timed out after 17 seconds waiting for clients. 2/3 clients joined."
)
_NO_STORE = _MISSED.format(
    "DistNetworkError: The client socket has timed out after 16000ms while trying to connect to "
    "(127.0.0.1, 29500)."
)
_LOST = _MISSED.format("DistBackendError: [pair.cc:537] Connection closed by peer [10.0.0.7]:5143")
_REFUSED = "Warning  Failed  9m (x4 over 21m)  kubelet  Error: ErrImagePull\n"
_LEFT = "FATAL: the licence server refused the token\n"


def body(folder: Path, *texts: str) -> Any:
    for rank, text in enumerate(texts):
        (folder / f"rank{rank}.log").write_text(f"starting\n{text}")
    return analyse([str(folder)], RankLogOptions()).body


@pytest.mark.parametrize(
    ("texts", "ranks"),
    [
        ((_JOINED, _JOINED, _NO_STORE), [2]),
        ((_JOINED, _NO_STORE, _NO_STORE), None),
        ((_JOINED, _JOINED, _REFUSED), [2]),
        ((_JOINED, _REFUSED, _REFUSED), None),
        ((_LOST, _LEFT, _LOST), [1]),
    ],
    ids=["late", "two late of one missed", "its image", "two without", "left with a word"],
)
def test_who_was_waited_for(
    tmp_path: Path, texts: tuple[str, ...], ranks: list[int] | None
) -> None:
    first = body(tmp_path, *texts)["first_failure"]
    assert (first and first["ranks"]) == ranks


@pytest.mark.parametrize(("order", "decided"), [((0, 1), "undecided"), ((1, 0), "startup")])
def test_an_end_above_what_others_missed_is_told_for_it(
    tmp_path: Path, order: tuple[int, int], decided: str
) -> None:
    lines = (
        "n2: Host key verification failed.\npdsh@n1: n2: ssh exited with exit code 255\n",
        "".join(f"n1: {line}\n" for line in _JOINED.splitlines()),
    )
    text = "".join(lines[one] for one in order)
    assert body(tmp_path, text)["decided_by"] == decided
