"""What `cards_hold` (tests/unit/conftest.py) finds in the first screen of any report."""

import math
from pathlib import Path

import pytest

from builders.cards import faults, made
from builders.checkpoints import floats, safetensors
from postmortem.analyses import ranklogs, scan
from postmortem.diagnose.rule import Outcome
from postmortem.present.card import card_of
from postmortem.present.doctor.report import doctor_blocks
from postmortem.records import replace
from postmortem.report.card import Highlights
from postmortem.report.model import Confidence, Diagnosis, Evidence, Report, Role

SAID = "rank 2 on node7 was killed by SIGKILL while it read shard 17"
CAUSE = Diagnosis(
    "killed", "killed by SIGKILL", Role.ROOT, Confidence.LIKELY, "The kernel ended it.", (), ()
)
GOOD = Report("logs", (), SAID, True, (CAUSE,), doctor_blocks(()), {})


def shown(**part: object) -> Report:
    return replace(GOOD, highlights=Highlights(**part))  # type: ignore[arg-type]


def test_a_good_card_has_none() -> None:
    assert list(faults(GOOD)) == []


@pytest.mark.parametrize(
    "bad",
    [
        shown(rows=(("job.log:3", f"{SAID} again"),)),
        shown(rows=(("job.log:3", "SIGKILL killed rank 2 on node7 while it read shard 17"),)),
        shown(rows=(("job.log:3", "its parent"),), steps=("postmortem strace FILE",)),
        shown(rest=f"{SAID}, and nobody else"),
    ],
)
def test_what_is_wrong_is_found(bad: Report) -> None:
    assert list(faults(bad)) != []


def test_every_report_of_an_analysis_is_seen(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text("Traceback (most recent call last):\nValueError: batch 7 is empty\n")
    with made() as reports:
        report = ranklogs.analyse([str(log)], ranklogs.RankLogOptions())
        Outcome((CAUSE,), (), ())
    assert [one.kind for one in reports] == ["logs", "rules"]  # with the outcome that it tells
    assert [one.verdict for one in reports] == [report.verdict, CAUSE.title]


def test_bad_tensors_are_counted_once(tmp_path: Path) -> None:
    path = tmp_path / "step-3.safetensors"
    rows = {f"layers.{n}.weight": ("F32", [2], floats(math.nan, 3)) for n in range(9)}
    path.write_bytes(safetensors(rows))
    card = card_of(scan.analyse([str(path)], verbose=False))
    assert (len(card.rows), card.rest) == (9, "")


def test_rows_that_several_ranks_share_are_one() -> None:
    rows = tuple(Evidence(f"job.log:{n}", f"rank {n}: Connection closed by peer") for n in range(4))
    card = replace(GOOD, diagnoses=(replace(CAUSE, evidence=rows),))
    assert list(faults(card)) == []
