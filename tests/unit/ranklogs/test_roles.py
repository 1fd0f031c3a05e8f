"""What reads like a node at the head of a line, and is a rank."""

from pathlib import Path

import pytest

from postmortem.analyses.ranklogs import RankLogOptions, analyse

TEXT = [
    (0, "step 1 loss 2"),
    (1, "step 1 loss 2"),
    (0, "step 2 loss 1"),
    (1, "Traceback (most recent call last):"),
    (1, '  File "job.py", line 3, in <module>'),
    (1, "    x = row[7]"),
    (1, "IndexError: list index out of range"),
    (0, "RuntimeError: Connection closed by peer [10.0.0.1]:2000"),
]


@pytest.mark.parametrize("form", ["rank{}: ", "RANK{}: ", "rank-{}: ", "rank_{} | "])
def test_a_name_that_says_it_is_a_rank_is_one(form: str, tmp_path: Path) -> None:
    (tmp_path / "job.log").write_text("".join(f"{form.format(r)}{t}\n" for r, t in TEXT))
    body = analyse([str(tmp_path / "job.log")], RankLogOptions()).body
    assert [row["rank"] for row in body["ranks"]] == [0, 1]
    assert body["first_failure"]["rank"] == 1


def test_a_node_stays_a_node(tmp_path: Path) -> None:
    (tmp_path / "job.log").write_text("".join(f"ranker{r}: {t}\n" for r, t in TEXT))
    body = analyse([str(tmp_path / "job.log")], RankLogOptions()).body
    assert {(row["rank"], row["host"]) for row in body["ranks"]} == {
        (None, "ranker0"),
        (None, "ranker1"),
    }
