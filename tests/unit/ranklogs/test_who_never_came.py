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


_UNPLACED = (
    "2m   Warning   FailedScheduling   pod/trainer-7   0/3 nodes are available: "
    "3 Insufficient nvidia.com/gpu. preemption: none\n"
)
_PLACED = "1m   Normal   Scheduled   pod/trainer-7   Successfully assigned ml/trainer-7 to gpu-3\n"


@pytest.mark.parametrize(
    ("events", "rule"),
    [
        (_UNPLACED, "process_ended"),
        (_UNPLACED + _PLACED, "rank_never_joined"),
        (_PLACED + _UNPLACED, "rank_never_joined"),  # of what is sorted by name
    ],
)
def test_who_never_came_is_a_pod_without_a_node(tmp_path: Path, events: str, rule: str) -> None:
    (tmp_path / "events.txt").write_text("LAST SEEN   TYPE   REASON   OBJECT   MESSAGE\n" + events)
    (tmp_path / "trainer-0.log").write_text(
        "INFO 7 of 8 workers joined\ntorch.distributed.DistStoreError: Timed out after 901 seconds "
        "waiting for clients. 7/8 clients joined.\n"
    )
    report = analyse([str(tmp_path)], RankLogOptions())
    assert [one.id for one in report.diagnoses] == [rule]


@pytest.mark.parametrize(("last", "failed"), [("Training finished in 8 s", False), ("step", True)])
def test_what_befell_others_is_no_end_of_a_job_that_is_done(
    tmp_path: Path, last: str, failed: bool
) -> None:
    row = "9m   {}   {}   {}   {}\n"
    rows = [("Normal", "Scheduled", "pod/trainer-0", "Successfully assigned ml/trainer-0 to gpu-3")]
    rows += [("Warning", "OOMKilling", "node/gpu-9", "Killed process 4411 (java)")]
    rows += [("Warning", "BackOff", "pod/lumen-2", "Back-off restarting failed container")]
    table = "LAST SEEN   TYPE   REASON   OBJECT   MESSAGE\n" + "".join(row.format(*r) for r in rows)
    (tmp_path / "events.txt").write_text(table)
    (tmp_path / "trainer-0.log").write_text(f"INFO epoch 1\nINFO epoch 2\nINFO {last}\n")
    report = analyse([str(tmp_path)], RankLogOptions())
    assert report.failed == failed
