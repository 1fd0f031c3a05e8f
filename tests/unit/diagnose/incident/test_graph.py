"""Roots, chains and shares of incidents."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from builders.prose import Prose
from postmortem.diagnose.incident.events import EFFECTS, Event, EventType
from postmortem.diagnose.incident.explains import TABLE
from postmortem.diagnose.incident.graph import solve
from postmortem.present.headline.incident import headline as verdict
from postmortem.present.triage.words import chain
from postmortem.report.model import Confidence

KILL = Event(
    EventType.KILLED_FOR_MEMORY, "killed for memory", "logs", pid=71, role="child", host="n1"
)
RAISED = Event(
    EventType.RAISED, "RuntimeError: DataLoader worker", "logs", ranks=(1,), children=(71,)
)
LOST = Event(EventType.LOST_PEER, "connection closed", "logs", ranks=(0, 2), order=1)


def test_a_chain_runs_from_the_root_to_the_victims_in_any_order_of_the_events() -> None:
    for events in itertools.permutations([KILL, RAISED, LOST]):
        incident = solve(events, TABLE)
        assert [events[i] for i in incident.roots] == [KILL]
        steps = [events[i] for i in chain(incident, incident.roots[0])]
        assert steps == [KILL, RAISED, LOST]


def test_two_culprits_are_two_roots_the_one_with_more_victims_first(prose: Prose) -> None:
    other = Event(EventType.CRASHED, "SIGSEGV", "core", ranks=(3,), pid=9)
    incident = solve([other, RAISED, KILL, LOST], TABLE)
    assert [incident.events[i] for i in incident.roots] == [KILL, other]
    documents = [{"kind": "logs", "verdict": "a"}, {"kind": "core", "verdict": "b"}]
    prose(verdict(incident, documents))


def test_one_report_alone_is_told_in_its_own_words() -> None:
    assert (
        verdict(solve([RAISED], TABLE), [{"kind": "logs", "verdict": "as it says"}]) == "as it says"
    )


def test_a_possible_link_makes_nobody_a_victim() -> None:
    core = Event(EventType.CRASHED, "SIGSEGV", "core", ranks=(1,), role="DataLoader worker", pid=5)
    plain = Event(EventType.RAISED, "ValueError", "logs", ranks=(1,), pid=4)
    incident = solve([core, plain], TABLE)
    assert [one.confidence for one in incident.links] == [Confidence.POSSIBLE]
    assert len(incident.roots) == 2


def _events() -> st.SearchStrategy[list[Event]]:
    one = st.builds(
        Event,
        st.sampled_from(EventType),
        st.just("x"),
        st.sampled_from(("core", "logs", "strace", "hang", "scan")),
        ranks=st.sampled_from(((), (0,), (1,), (0, 1))),
        pid=st.sampled_from((None, 5, 6)),
        children=st.sampled_from(((), (5,))),
        role=st.sampled_from((None, "DataLoader worker")),
        signal=st.sampled_from((None, "SIGKILL", "SIGSEGV")),
        errnos=st.sampled_from(((), ("ENOSPC",))),
        order=st.integers(0, 2),
    )
    return st.lists(one, max_size=8)


@given(_events())
def test_any_events_have_a_graph_without_circles_and_every_event_is_told(
    events: list[Event],
) -> None:
    incident = solve(events, TABLE)
    assert incident == solve(events, TABLE)
    for index in range(len(events)):
        assert index not in incident.explained_by(index)
    told = {*incident.roots, *(i for i, one in enumerate(events) if one.type in EFFECTS)}
    told |= {link.effect for link in incident.links if link.confidence != "possible"}
    assert told == set(range(len(events)))
    assert not {events[i].type for i in incident.roots} & EFFECTS
