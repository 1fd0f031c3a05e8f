"""The rank that alone has another version of something than all others."""

import pytest

from postmortem.readers.ranklogs.odd_version import odd_version


def _heads(*versions: str) -> dict[int, tuple[str, bytes]]:
    return {
        rank: (f"rank{rank}.log", f"torch 2.4.1\ntokens {said}\n".encode())
        for rank, said in enumerate(versions)
    }


def test_the_one_that_differs_is_told_with_its_line() -> None:
    odd = odd_version(_heads("0.3.1", "0.4.0", "0.3.1"))
    assert odd is not None
    assert (odd.rank, odd.library, odd.version, odd.usual) == (1, "tokens", "0.4.0", "0.3.1")
    assert (odd.others, odd.where) == (2, "rank1.log:2")


@pytest.mark.parametrize(
    "versions",
    [
        ("0.3.1", "0.3.1", "0.3.1"),
        ("0.3.1", "0.4.0"),
        ("0.3.1", "0.4.0", "0.5.0"),
        ("0.3.1", "0.3.1", "0.4.0", "0.4.0"),
        ("10.0.0.3", "10.0.0.1", "10.0.0.3"),
        ("0.3.1", "0.4.0 and tokens 0.3.1", "0.3.1"),
    ],
    ids=["all alike", "two ranks", "three versions", "halves", "addresses", "one names both"],
)
def test_nobody_is_told_where_none_is_alone(versions: tuple[str, ...]) -> None:
    assert odd_version(_heads(*versions)) is None


def test_two_that_differ_in_two_things_are_not_told() -> None:
    heads = _heads("0.3.1", "0.4.0", "0.3.1")
    heads[2] = ("rank2.log", b"torch 2.3.0\ntokens 0.3.1\n")
    assert odd_version(heads) is None
