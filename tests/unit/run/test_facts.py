"""What the events of a run say of who failed first."""

from pathlib import Path

import pytest

from postmortem.run.facts import facts_of
from postmortem.run.family import Member
from postmortem.run.outcome import Event, Outcome


def launcher(pid: int) -> Member:
    one = Member(pid, 1)
    one.argv, one.is_python, one.raised = ("python", "launch.py"), True, True
    one.began, one.ended, one.status = 100.0, 131.0, 1 << 8
    return one


def ended(*events: Event, timed_out: bool) -> Outcome:
    return Outcome(7, 1, None, 100.0, 131.0, (launcher(7),), events, (), timed_out=timed_out)


def test_what_is_raised_after_the_time_was_over_did_not_fail_first(tmp_path: Path) -> None:
    raised = Event(130.0, "raised", 7, "SignalException: got signal: 15")
    over = Event(125.0, "timeout", 7, "ran for 25 s, as long as it may")
    facts = facts_of(ended(over, raised, timed_out=True), tmp_path)
    assert facts.first_failure is None
    assert facts.ending == "stopped after 25 s, as --timeout asks"
    early = Event(110.0, "raised", 7, "ValueError: no")
    before = facts_of(ended(early, over, timed_out=True), tmp_path).first_failure
    assert before is not None
    assert before.pid == 7
    alone = facts_of(ended(raised, timed_out=False), tmp_path).first_failure
    assert alone is not None
    assert alone.pid == 7


def rank(pid: int, number: int, status: int, at: float) -> Member:
    one = Member(pid, 7)
    one.argv, one.is_python, one.raised = ("python", "train.py"), True, status != 0
    one.rank, one.world_size = number, 2
    one.began, one.ended, one.status = 100.0, at, status
    return one


@pytest.mark.parametrize(
    ("at", "over"),
    [
        (109.0, True),
        (110.5, True),  # its peer may raise before anybody hears of its end
        (120.0, False),
    ],
)
def test_a_rank_that_ended_with_0_before_the_failure_is_among_the_endings(
    tmp_path: Path, at: float, over: bool
) -> None:
    raised = Event(110.0, "raised", 9, "RuntimeError: Connection closed by peer")
    members = (launcher(7), rank(8, 0, 0, at), rank(9, 1, 1 << 8, 113.0))
    outcome = Outcome(7, 1, None, 100.0, 131.0, members, (raised,), (), timed_out=False)
    facts = facts_of(outcome, tmp_path)
    assert facts.world_size == 2
    assert [(one.pid, one.code) for one in facts.endings] == [(8, 0)] * over + [(9, 1), (7, 1)]


def test_ranks_that_ended_with_0_are_no_endings_of_a_launcher_that_failed(tmp_path: Path) -> None:
    members = (launcher(7), rank(8, 0, 0, 109.0), rank(9, 1, 0, 113.0))
    outcome = Outcome(7, 1, None, 100.0, 131.0, members, (), (), timed_out=False)
    assert [one.pid for one in facts_of(outcome, tmp_path).endings] == [7]
