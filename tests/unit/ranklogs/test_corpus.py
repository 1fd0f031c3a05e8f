"""Every recorded run: the rank that failed first, and nobody where it cannot be known."""

import json
from pathlib import Path
from typing import Any

import pytest
from corpus.score import unpack

from builders.ranklogs import FORMS, mixed
from postmortem.analyses.ranklogs import RankLogOptions, analyse

RANKS = Path(__file__).resolve().parents[3] / "corpus" / "ranks"
TRUTH: dict[str, dict[str, Any]] = json.loads((RANKS / "truth.json").read_text())


@pytest.mark.parametrize("name", sorted(TRUTH))
def test_with_the_world_size_every_run_is_decided_rightly(name: str, tmp_path: Path) -> None:
    truth = TRUTH[name]
    report = analyse([str(unpack(name, tmp_path))], RankLogOptions(world_size=truth["world_size"]))
    body: Any = report.body
    first = body["first_failure"]
    assert report.problems == ()
    assert report.failed == (truth["fault"] not in ("none", "well"))
    assert truth.get("says", "") in report.verdict, report.verdict
    if truth.get("label"):
        assert first["label"] == truth["label"]
    elif truth.get("undecidable"):
        assert first is None
        assert set(truth["ranks"]) <= {party["rank"] for party in body["candidates"]}
        assert body["decided_by"] == "undecided"
    elif truth["ranks"]:
        assert first["ranks"] == truth["ranks"]
        assert not {party["rank"] for party in body["victims"]} & set(truth["ranks"])
    else:
        assert first is None


@pytest.mark.parametrize("name", sorted(TRUTH))
def test_without_it_no_answer_is_wrong(name: str, tmp_path: Path) -> None:
    truth = TRUTH[name]
    body: Any = analyse([str(unpack(name, tmp_path))], RankLogOptions()).body
    first = body["first_failure"]
    left = truth["fault"] == "leaves" and body["decided_by"] == "left early"  # nothing numbers it
    ranks = ([], truth["ranks"]) if left else (truth["ranks"],)
    assert first is None or first["ranks"] in ranks, first["label"]


VICTIM = [
    "Traceback (most recent call last):",
    '  File "/job/train.py", line 31, in step',
    "    dist.all_reduce(t)",
    "RuntimeError: [/gloo/pair.cc:553] Connection closed by peer [10.0.0.2]:2434.",
]
CULPRIT = [
    "Traceback (most recent call last):",
    '  File "/job/data.py", line 7, in load',
    "    raise ValueError(path)",
    "ValueError: shard-00007",
]


@pytest.mark.parametrize("form", sorted(FORMS))
@pytest.mark.parametrize("culprit", [0, 3])
def test_every_form_tells_the_same(form: str, culprit: int, tmp_path: Path) -> None:
    steps = [f"step {i}" for i in range(5)]
    texts = [[*steps, *(CULPRIT if rank == culprit else VICTIM)] for rank in range(4)]
    log = tmp_path / "job.out"
    log.write_text(mixed(texts, form, per_host=2, seed=culprit))
    report = analyse([str(log)], RankLogOptions())
    body: Any = report.body
    if "tee" in form and "torch" not in form.replace("torchrun", ""):
        # Local ranks of two hosts: which host has which ranks, only its launcher knows.
        label = body["first_failure"]["label"]
        assert label.endswith(f":{culprit % 2}")
        assert str(culprit // 2) in label.partition(":")[0]
    else:
        assert body["first_failure"]["rank"] == culprit, report.verdict
        assert sorted(p["rank"] for p in body["victims"]) == [r for r in range(4) if r != culprit]
    assert body["first_failure"]["confidence"] == "certain"
    assert len(body["victims"]) == 3
    assert {t["count"] for t in body["tracebacks"]} == {1, 3}
