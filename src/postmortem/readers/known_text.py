"""The messages in the few words of one process, at a price that a report of a core can pay.

A table of their texts (`literals.txt`) says first which can match at all; only those are compiled.
``python -m postmortem.readers.known_text`` makes the tables of the messages anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from postmortem.facts.core import CoreFacts
from postmortem.facts.crash import FatalPythonError
from postmortem.facts.last_words import KnownWord, KnownWords
from postmortem.facts.signature import Known, Signature
from postmortem.facts.threads import Thread
from postmortem.knowledge.messages import briefs, explained
from postmortem.patterns import Pattern
from postmortem.records import replace

if TYPE_CHECKING:
    from postmortem.readers.signatures import Signatures

TABLE = Path(__file__).parent.parent / "knowledge" / "messages" / "literals.txt"
_LONGEST = 64 << 10
_MOST = 8
_CAUSES = ("root", "contributing")
_OF_FATAL_ERROR = Pattern(r'"([^"]{4,})"(\.\.\.)?')
_INNERMOST = 16
_TEXT_FIELDS = ("text", "message", "what")
K = TypeVar("K", bound=Known)


def with_matches(fact: K) -> K:
    """Return what a process said, with the messages that its words hold."""
    text = next(filter(None, map(vars(fact).get, _TEXT_FIELDS)), None)
    if text is None:
        return fact
    (found,) = _known(str(text)).matches([str(text)])
    made: K = cast(Any, replace)(fact, matches=found)
    return made


def core_with_matches(facts: CoreFacts, crashed: Thread | None) -> CoreFacts:
    """Return the facts of a core with the messages that its process said."""
    fatal = facts.fatal_python_error or fatal_error(crashed)
    return replace(
        facts,
        abort_message=facts.abort_message and with_matches(facts.abort_message),
        fatal_python_error=fatal and with_matches(fatal),
        panic=facts.panic and with_matches(facts.panic),
        cpp_exceptions=tuple(map(with_matches, facts.cpp_exceptions)),
    )


def fatal_error(crashed: Thread | None) -> FatalPythonError | None:
    """Return what Py_FatalError() was given, where gdb shows it: ``msg=0x55… "the function …"``."""
    frames = crashed.frames[:_INNERMOST] if crashed is not None else ()
    if not any("Py_Fatal" in frame.function for frame in frames):
        return None
    for frame in frames:
        for name, value in frame.arguments if "atal" in frame.function else ():
            found = _OF_FATAL_ERROR.search(value)
            if name in ("msg", "message") and found is not None:  # gdb cuts long strings
                return FatalPythonError("", found[1] + ("…" if found[2] else ""))
    return None


def known_in(texts: Iterable[tuple[str, str, int | None]]) -> KnownWords | None:
    """Return the known lines in texts of (where, text, thread); None without any."""
    items: dict[str, KnownWord] = {}
    for where, text, tid in (row for row in texts if row[1]):
        for hit in _known(text).find(text[:_LONGEST].encode("utf-8", "surrogateescape"), each=1):
            if hit.role in _CAUSES and is_asked_for(explained(hit.id)):
                items.setdefault(hit.id, KnownWord(hit.id, hit.text.strip(), where, tid))
    return KnownWords(tuple(items.values())[:_MOST]) if items else None


def _known(text: str) -> Signatures:
    """Return the messages that a text may hold."""
    from postmortem.readers.signatures import Signatures

    may = {name for name, literal in _literals() if literal in text}
    return Signatures(item for item in briefs().values() if item.id in may)


@lru_cache(maxsize=1)
def _literals() -> list[tuple[str, str]]:
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    rows = (line.partition("\t") for line in lines if not line.startswith("#"))
    return [(name, literal) for name, _, literal in rows]


def is_asked_for(signature: Signature) -> bool:
    """Return whether a signature is one that a process's own words may show, and no rule has."""
    return (
        "log" in signature.where
        and signature.pattern is not None
        and signature.rule is None
        and signature.role in _CAUSES
    )


def table() -> str:
    """Return what stands in `literals.txt`; a test compares the two."""
    from postmortem.knowledge.messages import messages
    from postmortem.readers.signatures import Signatures

    engine = Signatures(m for m in messages() if "process text" in m.where or is_asked_for(m))
    rows = [
        f"{message.id}\t{literal}"
        for message, literals in zip(engine.signatures, engine.literals(), strict=True)
        for literal in sorted(literals)
    ]
    head = "# id, a text of each match; made of the TOML files by readers/known_text.py"
    return "\n".join([head, *rows]) + "\n"


if __name__ == "__main__":
    from postmortem.knowledge import messages

    messages.TABLE.write_text(messages.table(), encoding="utf-8")
    TABLE.write_text(table(), encoding="utf-8")
