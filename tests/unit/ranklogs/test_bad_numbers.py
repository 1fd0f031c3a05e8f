"""What the reader of last lines looks for before it takes the numbers out of all of them."""

import pytest

from postmortem.readers.ranklogs.bad_numbers import NUMBERS, may_be_bad
from postmortem.readers.signatures import Signatures


@pytest.mark.parametrize("name", ["train_loss", "Loss", "grad_norm", "gradient norm"])
@pytest.mark.parametrize("sign", [": ", "=", " is ", " = (", "': "])
@pytest.mark.parametrize("value", ["nan", "NaN", "NAN", "inf", "Inf", "-inf"])
def test_no_number_that_is_none_is_passed_by(name: str, sign: str, value: str) -> None:
    text = f"step 7 {name}{sign}{value} lr 0.1"
    (row,) = Signatures.load("last line").matches([text])
    assert any(match["value"] == value for match in row if match.id in NUMBERS)
    assert may_be_bad(text)


def test_most_lines_are_passed_by() -> None:
    assert not may_be_bad("[rank3]: INFO step 7 loss 0.25 grad_norm 1.5 in finance")
