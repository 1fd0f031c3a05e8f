"""All pairs in O(log n) rounds, and the least that explains what failed."""

import math

from hypothesis import given
from hypothesis import strategies as st

from postmortem.diagnose.net.pairs import explain
from postmortem.net import rounds

COUNTS = st.integers(4, 40)


def every(count: int) -> list[tuple[int, int]]:
    return [(i, j) for i in range(count) for j in range(count) if i != j]


@given(st.integers(1, 300))
def test_each_pair_has_its_turn_once(count: int) -> None:
    turns = rounds.how_many(count)
    assert turns == (math.ceil(math.log2(count)) if count > 1 else 0)
    seen = [
        (number, other)
        for turn in range(turns)
        for number in range(count)
        for other in rounds.partners(number, count, turn)
    ]
    assert len(seen) == len(set(seen)) == count * (count - 1)
    assert all(number != other and 0 <= other < count for number, other in seen)


@given(st.integers(2, 300), st.data())
def test_who_tries_is_tried_in_the_same_round(count: int, data: st.DataObject) -> None:
    turn = data.draw(st.integers(0, rounds.how_many(count) - 1))
    number = data.draw(st.integers(0, count - 1))
    for other in rounds.partners(number, count, turn):
        assert number in rounds.partners(other, count, turn)
    other = rounds.partner(number, count, turn)
    assert other is None or rounds.partner(other, count, turn) == number


def test_who_never_does_well_is_given_up() -> None:
    assert rounds.given_up({0: (4, 0), 1: (3, 0), 2: (100, 1)}) == {0}


def test_a_thousand_nodes_take_ten_rounds() -> None:
    assert rounds.how_many(1000) == 10


@given(COUNTS, st.data())
def test_bad_nodes_are_named_and_nobody_else(count: int, data: st.DataObject) -> None:
    most = (count - 2) // 2
    bad = data.draw(st.sets(st.integers(0, count - 1), min_size=1, max_size=most))
    found = explain({pair: not bad.intersection(pair) for pair in every(count)})
    assert {one.number for one in found.nodes} == bad
    assert all(one.direction == "both" for one in found.nodes)
    assert (found.links, found.groups, found.everything) == ((), (), False)


@given(COUNTS, st.data())
def test_a_bad_link_is_named_and_nobody_else(count: int, data: st.DataObject) -> None:
    first, second = data.draw(st.sampled_from(every(count)))
    both = data.draw(st.booleans())
    bad = {(first, second), (second, first)} if both else {(first, second)}
    found = explain({pair: pair not in bad for pair in every(count)})
    assert found.nodes == ()
    assert [(one.first, one.second, one.both) for one in found.links] == [
        (min(first, second), max(first, second), True) if both else (first, second, False)
    ]


@given(COUNTS, st.data())
def test_one_direction_of_a_node(count: int, data: st.DataObject) -> None:
    number = data.draw(st.integers(0, count - 1))
    side = data.draw(st.sampled_from((0, 1)))
    found = explain({pair: pair[side] != number for pair in every(count)})
    assert [(one.number, one.direction) for one in found.nodes] == [(number, ("out", "in")[side])]


@given(st.integers(2, 20), st.integers(2, 20))
def test_two_halves(first: int, second: int) -> None:
    tried = {pair: (pair[0] < first) == (pair[1] < first) for pair in every(first + second)}
    found = explain(tried)
    assert found.groups == (tuple(range(first)), tuple(range(first, first + second)))
    assert (found.nodes, found.links) == ((), ())


@given(COUNTS, st.data())
def test_all_that_failed_is_explained(count: int, data: st.DataObject) -> None:
    pairs = every(count)
    failed = data.draw(st.sets(st.sampled_from(pairs), max_size=60))
    found = explain({pair: pair not in failed for pair in pairs})
    if found.everything or found.groups:
        return
    told = set()
    for node in found.nodes:
        for pair in pairs:
            into, out = pair[1] == node.number, pair[0] == node.number
            if (into and node.direction != "out") or (out and node.direction != "in"):
                told.add(pair)
    for link in found.links:
        told |= {(link.first, link.second)} | ({(link.second, link.first)} if link.both else set())
    assert failed <= told


def test_a_bad_node_and_a_bad_link_at_once() -> None:
    bad = {(2, 5), (5, 2)}
    found = explain({pair: 7 not in pair and pair not in bad for pair in every(16)})
    assert [one.number for one in found.nodes] == [7]
    assert [(one.first, one.second) for one in found.links] == [(2, 5)]


def test_with_two_nodes_nobody_is_singled_out() -> None:
    found = explain({(0, 1): False, (1, 0): False})
    assert found.nodes == ()
    assert [(one.first, one.second, one.both) for one in found.links] == [(0, 1, True)]


def test_nothing_works_at_all() -> None:
    assert explain(dict.fromkeys(every(5), False)).everything
    assert explain(dict.fromkeys(every(5), True)) == explain({})
