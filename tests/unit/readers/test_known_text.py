"""Known lines in the words of one process: the same as the whole knowledge base finds."""

import pytest

from postmortem.facts.crash import AbortMessage
from postmortem.facts.signature import Signature
from postmortem.knowledge.messages import messages, signatures
from postmortem.readers import known_text

ASKED = [signature for signature in signatures() if known_text.is_asked_for(signature)]


def test_the_table_of_texts_is_that_of_the_signatures() -> None:
    assert known_text.TABLE.read_text(encoding="utf-8") == known_text.table()


@pytest.mark.parametrize("signature", ASKED, ids=lambda signature: signature.id)
def test_every_sample_is_found(signature: Signature) -> None:
    for sample in signature.samples:
        found = known_text.known_in([("abort message", f"before\n{sample}\nbehind", 7)])
        assert found is not None
        assert signature.id in {item.signature for item in found.items}


@pytest.mark.parametrize(
    "message", [m for m in messages() if "process text" in m.where], ids=lambda message: message.id
)
def test_a_fact_has_the_messages_that_its_text_holds(message: Signature) -> None:
    for sample in message.samples:
        assert known_text.with_matches(AbortMessage(sample)).match(message.id) is not None


def test_other_words_are_not_known() -> None:
    assert known_text.known_in([]) is None
    assert known_text.known_in([("abort message", "", None)]) is None
    assert known_text.known_in([("abort message", "all is well", None)]) is None
    damaged = "\udcff" * 70_000 + "CUDA out of memory. Tried to allocate"
    assert known_text.known_in([("C++ exception", damaged, 1)]) is None  # beyond what is read
