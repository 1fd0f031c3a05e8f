"""Another C++ exception came before what ended the process.

What it means
    An error had been thrown already. On its way to a handler the destructors of local objects
    run; one of them crashed, or threw another exception, which no C++ program survives. Or a
    handler had it and threw the next one (std::throw_with_nested, or a new error in a catch
    block). What happened first is often what to mend; what came last ended the process.
How to be sure
    The runtime library counts exceptions on their way and lists those that handlers have.
    One on its way is on no list: it was found by a pointer on the stack of the thread.
What to do
    Read the first message. Destructors must neither throw nor rely on what the failed step
    was about to set up.
"""

from postmortem.diagnose.core.citing import cite_exception
from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.names import clip, short_type
from postmortem.diagnose.rule import Confidence, Finding, Findings, Role, rule
from postmortem.facts.crash import CppException, EarlierExceptions


@rule(
    "https://en.cppreference.com/w/cpp/error/nested_exception",
    "https://isocpp.org/wiki/faq/exceptions#dtors-shouldnt-throw",
    role=Role.CONTRIBUTING,
)
def earlier_exception(
    kind: FaultKind, exceptions: EarlierExceptions, last: CppException | None
) -> Findings:
    others = [
        e for e in exceptions.items if last is None or (e.type, e.what) != (last.type, last.what)
    ]
    if not others:
        return  # the same one, thrown again by std::rethrow_exception
    first = others[0]
    text = first.type + (f": {clip(first.what, 400)}" if first.what else "")
    name = short_type(first.type, 36)
    said = f": {first.what.removeprefix(first.type + ': ')}" if first.what else ""
    if first.state == "unwinding":
        title = f"{name} was on its way to a handler already{said}"
        cause = f"{text}: thrown before; destructors were running on its way to a handler when "
        cause += "the next exception was thrown" if last is not None else "this happened"
        step = "then in the destructor on the crashed stack: what does it expect to be there?"
        confidence = Confidence.LIKELY
    elif last is not None and kind is FaultKind.ABORT:
        title = f"{name} was being handled when the last one was thrown{said}"
        cause = f"{text}: came first; the code that handled it threw {last.type}"
        step = "then see why the handler threw again"
        confidence = Confidence.CERTAIN if first.found_by == "tls" else Confidence.LIKELY
    else:
        return
    yield Finding(
        title=title,
        cause=cause,
        confidence=confidence,
        next_steps=("read that message first: it is the earlier error", step),
        evidence=tuple(cite_exception(exception) for exception in others[:3]),
    )
