"""The process said something before it ended that the knowledge base knows.

What it means
    The text of its exception or of the message that it aborted with has one known cause; how
    the process ended is told by other diagnoses.
How to be sure
    The text is in the core: of the exception in flight, or of the C library's last message.
What to do
    What the signature says: postmortem rules ID shows it with its reference.
"""

from postmortem.diagnose.core.special_exceptions import EXCEPTION_RULES
from postmortem.diagnose.names import clip
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, Role, rule
from postmortem.facts.last_words import KnownWords
from postmortem.text import first_sentence


@rule(
    "https://en.cppreference.com/w/cpp/error/terminate",
    role=Role.CONTRIBUTING,
    # They read the same exception, and say more of this process.
    yields_to=EXCEPTION_RULES,
    yields_as=Role.CONTEXT,
)
def known_error_text(words: KnownWords) -> Findings:
    from postmortem.knowledge.messages import by_id  # only where there is something known

    known = by_id()
    # A root before what only belongs to it; of equals the first that was said.
    items = sorted(words.items, key=lambda item: known[item.signature].role != "root")
    for item in items[:2]:
        signature = known[item.signature]
        thread = f", thread {item.tid}" if item.tid is not None else ""
        first = first_sentence(signature.cause)
        yield Finding(
            title=f"known error: {first}",
            cause=f"{signature.cause} Reference: {signature.reference} "
            f"(postmortem rules {signature.id}).",
            confidence=Confidence.LIKELY,
            next_steps=signature.next_steps,
            evidence=(Evidence(f"{item.where}{thread}", clip(item.text, 300)),),
            stands=item.where != "C++ exception",
        )
