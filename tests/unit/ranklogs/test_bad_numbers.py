"""What the reader of last lines looks for before it takes the numbers out of all of them."""

from pathlib import Path

import pytest

from postmortem.analyses.ranklogs import RankLogOptions, analyse
from postmortem.readers.ranklogs.bad_numbers import NUMBERS, may_be_bad
from postmortem.readers.ranklogs.read import read_rank_logs
from postmortem.readers.ranklogs.sources import find_rank_logs
from postmortem.readers.signatures import Signatures


@pytest.mark.parametrize("name", ["train_loss", "Loss", "grad_norm", "gradient norm"])
@pytest.mark.parametrize("sign", [": ", "=", " is ", " = (", "': "])
@pytest.mark.parametrize("value", ["nan", "NaN", "NAN", "inf", "Inf", "-inf", "-nan"])
def test_no_number_that_is_none_is_passed_by(name: str, sign: str, value: str) -> None:
    text = f"step 7 {name}{sign}{value} lr 0.1"
    (row,) = Signatures.load("last line").matches([text])
    assert any(match["value"] == value for match in row if match.id in NUMBERS)
    assert may_be_bad(text)


def test_most_lines_are_passed_by() -> None:
    assert not may_be_bad("[rank3]: INFO step 7 loss 0.25 grad_norm 1.5 in finance")


@pytest.mark.parametrize(("bad", "ranks"), [({1}, [1]), ({0, 1, 2}, [0, 1, 2])])
def test_whose_own_number_was_bad_where_the_mean_was(
    tmp_path: Path, bad: set[int], ranks: list[int]
) -> None:
    steps = [
        f"INFO - [rank{rank}] step {step} loss={mean} (own {own}) norm={mean}\n"
        for step, mean in enumerate(("0.9", "0.8", "0.7", "nan"))
        for rank in range(3)
        for own in ["nan" if step == 3 and rank in bad else f"0.{rank + 1}"]
    ]
    frame = '  File "/job/train.py", line 31, in <module>\n'
    raised = f"Traceback (most recent call last):\n{frame}FloatingPointError: loss is nan\n"
    errors = [f"[rank{rank}]: {line}\n" for rank in range(3) for line in raised.splitlines()]
    (tmp_path / "train.log").write_text("".join((*steps, *errors)))
    found = analyse([str(tmp_path)], RankLogOptions()).body["first_failure"]  # type: ignore[attr-defined]
    assert found["ranks"] == ranks


@pytest.mark.parametrize(
    ("loss", "scale", "nan", "bad"),
    [
        ("", "1.0", 0, "left out"),
        ("", "8.0", 1, "NaN"),
        ("", "8.0", 0, None),
        ("lm loss: 2.1E+00 | ", "1.0", 0, None),
    ],
)
def test_a_loss_that_megatron_does_not_print_is_none(
    tmp_path: Path, loss: str, scale: str, nan: int, bad: str | None
) -> None:
    form = (
        " iteration {:8d}/ 900 | global batch size:    16 | {}loss scale: {} | grad norm: 1.2"
        " | number of skipped iterations:   {} | number of nan iterations:   {} |\n"
    )
    rows = [("lm loss: 2.2E+00 | ", "8.0", 0, 0), *[(loss, scale, 1, nan)] * 300]
    path = tmp_path / "a.log"
    path.write_text("".join(form.format(n, *row) for n, row in enumerate(rows, 1)))
    (one,) = read_rank_logs(find_rank_logs([str(path)])).logs.last_lines
    told = one.not_a_number
    assert (told and (one.value, told.line)) == (bad and (bad, 2))


@pytest.mark.parametrize(
    ("form", "bad"),
    [
        ("step {0} loss {1}", True),
        ("step {0} best_loss {1}", False),
        ("step {0} loss 0.5 grad_norm {1}", False),
        ("step {0} loss {2}", False),
    ],
)
def test_a_loss_that_stays_infinite_is_no_number(tmp_path: Path, form: str, bad: bool) -> None:
    rows = [(n, "inf" if n > 20 else f"0.{n}", "inf" if n == 23 else f"0.{n}") for n in range(24)]
    (tmp_path / "a.log").write_text("".join(form.format(*row) + "\n" for row in rows))
    report = analyse([str(tmp_path / "a.log")], RankLogOptions())
    assert [one.id for one in report.diagnoses] == (["never_a_number"] if bad else [])
