"""What the events of a run say of who failed first."""

from pathlib import Path

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
