"""Rules over any subset and mixture of facts: they may say little, but never fail or shout."""

from hypothesis import given, settings
from hypothesis import strategies as st

from builders.facts import CODE, STACK, load_cases
from postmortem.diagnose.core.crash import Crash
from postmortem.diagnose.core.fault_kind import FaultKind, classify
from postmortem.diagnose.rule import load, run
from postmortem.facts.crash import AbortMessage, CppException, EarlierExceptions, Fault, Signal
from postmortem.facts.memory import Address, MappedFile
from postmortem.facts.process import CoreFile, Process
from postmortem.facts.threads import Frame, Thread, Threads
from postmortem.present.headline.core import headline as verdict
from postmortem.readers.known_text import with_matches
from postmortem.report.model import Confidence, Role

CASES = load_cases()
RULES = load()


TYPES = sorted({kind for case in CASES for kind in case.facts}, key=lambda kind: kind.__name__)
ANY = {
    kind: st.none() | st.sampled_from([case.facts[kind] for case in CASES if kind in case.facts])
    for kind in TYPES
}


@settings(deadline=None, max_examples=150)
@given(st.fixed_dictionaries(ANY))
def test_facts_of_different_crashes_mixed_and_missing(drawn: dict[type, object]) -> None:
    """Facts are drawn each from another case, or left out; the kind follows from them."""
    _check({kind: value for kind, value in drawn.items() if value is not None})


NAMES = st.one_of(
    st.sampled_from(
        ["??", "", "abort", "free", "std::terminate()", "operator()", "f<g(", ")(", "<"]
    ),
    st.text(max_size=60),
)
FRAMES = st.builds(
    Frame,
    NAMES,
    st.sampled_from(["native", "python"]),
    module=st.one_of(st.none(), st.text(max_size=40), st.just("/lib64/libc.so.6")),
    file=st.one_of(st.none(), st.text(max_size=20)),
    line=st.one_of(st.none(), st.integers(0, 9999)),
)
THREADS = st.builds(
    lambda frames, crashed: Threads((Thread(5, crashed=crashed, frames=tuple(frames)),), 5),
    st.lists(FRAMES, max_size=12),
    st.booleans(),
)
SIGNALS = st.builds(
    Signal,
    st.integers(0, 64),
    st.sampled_from(["SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL", "SIGFPE", "SIGXCPU", "SIG35"]),
    code=st.sampled_from([None, "SI_USER", "SI_TKILL", "SEGV_MAPERR", "BUS_ADRERR", "SI_KERNEL"]),
    address=st.one_of(st.none(), st.integers(0, (1 << 64) - 1)),
    sender_pid=st.one_of(st.none(), st.integers(0, 9)),
)


@settings(deadline=None, max_examples=200)
@given(SIGNALS, THREADS, st.text(max_size=300), st.text(max_size=60), st.text(max_size=300))
def test_hostile_text(
    signal: Signal, threads: Threads, message: str, type_name: str, what: str
) -> None:
    process = Process(5, "x86_64", executable=type_name)
    core = CoreFile("core", "kernel", 1, 2)
    file = MappedFile(message, 4096, exists=True, size=1)
    fault = Fault(CODE, STACK, Address(signal.address or 0, False), file=file)
    facts: dict[type, object] = {
        Signal: signal,
        Threads: threads,
        Process: process,
        CoreFile: core,
        Fault: fault,
        AbortMessage: with_matches(AbortMessage(message)),
        CppException: with_matches(CppException(5, type_name, what, "tls")),
        EarlierExceptions: EarlierExceptions(
            (with_matches(CppException(5, type_name, what, "stack", state="unwinding")),)
        ),
    }
    kind = facts[FaultKind] = classify(signal, fault, threads, core, process)
    facts[Crash] = Crash(kind, signal, fault, threads, process)
    if threads.crashed is not None:
        facts[Thread] = threads.crashed
    _check(facts)


def _check(facts: dict[type, object]) -> None:
    outcome = run(RULES, facts)
    assert outcome.problems == ()
    for diagnosis in outcome.diagnoses:
        assert 0 < len(diagnosis.title) <= 100
        assert "\n" not in diagnosis.title
        assert diagnosis.next_steps
        assert diagnosis.evidence
    process, signal = facts.get(Process), facts.get(Signal)
    text = verdict(signal, process, outcome.diagnoses, threads=facts.get(Threads))  # type: ignore[arg-type]
    assert text
    assert "\n" not in text
    roots = [d for d in outcome.diagnoses if d.role is Role.ROOT]
    if roots and all(d.confidence is Confidence.POSSIBLE for d in roots):
        assert "possibly" in text or "undecided" in text or "snapshot" in text
