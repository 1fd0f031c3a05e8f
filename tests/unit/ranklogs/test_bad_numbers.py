"""What the reader of last lines looks for before it takes the numbers out of all of them."""

import json
import math
from pathlib import Path

import pytest

from postmortem.analyses.ranklogs import RankLogOptions, analyse
from postmortem.readers.ranklogs.bad_numbers import NUMBERS, may_be_bad
from postmortem.readers.ranklogs.read import read_rank_logs
from postmortem.readers.ranklogs.sources import find_rank_logs
from postmortem.readers.signatures import Signatures


@pytest.mark.parametrize("name", ["train_loss", "Loss", "grad_norm", "gradient norm"])
@pytest.mark.parametrize("sign", [": ", "=", " is ", " = (", "': "])
@pytest.mark.parametrize("value", ["nan", "NaN", "NAN", "inf", "Inf", "-inf", "Infinity"])
def test_no_number_that_is_none_is_passed_by(name: str, sign: str, value: str) -> None:
    text = f"step 7 {name}{sign}{value} lr 0.1"
    (row,) = Signatures.load("last line").matches([text])
    assert any(match["value"] == value for match in row if match.id in NUMBERS)
    assert may_be_bad(text)


@pytest.mark.parametrize("text", ["grad_norm nan_count=0", "loss info: 3", "mse: nanmean"])
def test_a_word_that_begins_like_no_number_is_none(text: str) -> None:
    (row,) = Signatures.load("last line").matches([text])
    assert not any(match.id in NUMBERS for match in row)


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


@pytest.mark.parametrize("name", ["mse", "val/ppl", "MAE"])
@pytest.mark.parametrize("sign", [": ", "=", " ", "': "])
def test_a_loss_may_have_the_name_of_a_measure(name: str, sign: str) -> None:
    (row,) = Signatures.load("last line").matches([f"step 7 {name}{sign}nan lr 0.1"])
    assert [match["value"] for match in row if match.id in NUMBERS] == ["nan"]


@pytest.mark.parametrize(("first", "ranks"), [((5, 6), [0]), ((6, 6), None)])
def test_whose_loss_was_bad_first_where_nobody_raised(
    tmp_path: Path, first: tuple[int, int], ranks: list[int] | None
) -> None:
    for rank, since in enumerate(first):
        steps = (f"step {n} mse {'nan' if n >= since else 0.5}\n" for n in range(12))
        (tmp_path / f"rank{rank}.log").write_text("".join(steps))
    body = analyse([str(tmp_path)], RankLogOptions()).body
    found = body["first_failure"]  # type: ignore[attr-defined]
    assert (found and found["ranks"]) == ranks


def _json_rows(end: str, tail: int) -> str:
    rows = [f'{{"phase": "train", "step": {n}, "loss": 0.{n}, "lr": 0.1}}' for n in range(1, 20)]
    return "\n".join([*rows, *(end.format(n) for n in range(20, 20 + tail))])


def _state(norms: list[float]) -> str:
    """Return what the Trainer keeps, which tells a loss that is none as 0."""
    rows = [
        {"epoch": n / 9, "grad_norm": norm, "loss": 0.0 if math.isnan(norm) else 0.5, "step": n}
        for n, norm in enumerate(norms, 1)
    ]
    return json.dumps({"best_metric": None, "log_history": rows, "max_steps": 30}, indent=2)


_EXPORTED = "Wall time,Step,Value\n" + "".join(
    f"{1_700_000_000 + n}.5,{n}0,0.{9 - n}\n" for n in range(9)
)
_HEAD = "step,train_loss,val_loss\n"
_FINITE = "".join(f"{n},0.{n},{'nan' if n % 4 else 0.5}\n" for n in range(1, 20))


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("a.csv", f"{_HEAD}{_FINITE}20,nan,\n21,nan,0.5\n22,nan,\n", 21),
        ("a.csv", f"{_HEAD}{_FINITE}20,0.1,nan\n21,0.1,nan\n22,0.1,nan\n", None),
        ("a.csv", f"{_HEAD}{''.join(f'{n},0.1,nan' + chr(10) for n in range(20))}", None),
        ("a.csv", "step,supplier\n1,2.0\n2,nan\n3,nan\n4,nan\n", None),
        ("a.csv", "step,norm\n1,2.0\n2,nan\n3,nan\n4,nan\n", None),
        ("a.log", _json_rows('{{"phase": "train", "step": {}, "loss": null, "lr": 0.1}}', 9), 20),
        ("a.log", _json_rows('{{"phase": "test", "step": {}, "loss": null, "lr": 0.1}}', 9), None),
        ("a.log", _json_rows('{{"phase": "train", "step": {}, "loss": null, "lr": 1}}', 2), None),
        ("a.csv", f"{_HEAD}{_FINITE}20,nan,\n", 21),
        ("a.csv", f"{_HEAD}{_FINITE}20,nan,0.4\n", None),  # a last row of the test alone
        ("a.csv", "step,loss\n1,0.4\n2,nan\n", None),
        ("a.csv", "step,val_loss\n" + "".join(f"{n},0.5\n" for n in range(9)) + "9,nan\n", None),
        ("trainer_state.json", _state([1.0] * 20 + [math.nan] * 10), 126),
        ("trainer_state.json", _state([math.nan] * 2 + [1.0] * 28), None),
        ("run-a-tag-train_loss.csv", f"{_EXPORTED}1700000009.5,90,NaN\n", 11),
        ("run-a-tag-lr.csv", f"{_EXPORTED}1700000009.5,90,NaN\n", None),
        ("state.json", _state([1.0] * 20 + [math.nan] * 10), None),
    ],
)
def test_a_loss_in_a_table_that_is_none_to_the_end(
    tmp_path: Path, name: str, text: str, line: int | None
) -> None:
    (tmp_path / "calm.log").write_text("step 19 lr 0.1\ntraining finished\n")
    (tmp_path / name).write_text(text)
    ends = read_rank_logs(find_rank_logs([str(tmp_path)])).logs.last_lines
    assert [e.not_a_number.line for e in ends if e.not_a_number] == ([line] if line else [])
    report = analyse([str(tmp_path)], RankLogOptions())
    assert [one.id for one in report.diagnoses] == (["never_a_number"] if line else [])


@pytest.mark.parametrize(
    ("form", "step"),
    [
        ("step={0} loss={1} tok/s=381", "step 7"),
        ("Epoch 3, step {0}: loss {1}", "step 7"),
        ("Epoch {0}/20 - loss: {1}", "epoch 7"),
        (" iteration      {0}/  100000 | lm loss: {1} | grad norm: 0.4 |", "iteration 7"),
        ("{{'loss': {1}, 'lr': 1e-05, 'epoch': 0.{0}}}", "epoch 0.7"),
        ("12:0{0}:33 loss {1} after 7 ms", ""),
    ],
)
def test_from_which_step_on_a_number_is_none(form: str, step: str, tmp_path: Path) -> None:
    values = ("0.5", "nan", "nan")
    text = "".join(f"{form.format(n, value)}\n" for n, value in enumerate(values, 6))
    (tmp_path / "train.log").write_text(text)
    (found,) = read_rank_logs(find_rank_logs([str(tmp_path)])).logs.last_lines
    assert (found.quantity.rpartition(" ")[2], found.step) == ("loss", step)
    title = analyse([str(tmp_path)], RankLogOptions()).diagnoses[0].title
    assert f"{step} (line 2)" in title if step else " line 2 " in title
