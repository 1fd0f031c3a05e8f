"""Known lines in the few words of one process, at a price that a report of a core can pay.

All signatures take 20 ms of CPU to read and compile. Here a table of their texts says first whether
any can match at all (`literals.txt`, a millisecond); only those that can are read and compiled.
``python -m postmortem.readers.known_text`` makes the tables of the messages anew.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar, cast

from postmortem.facts.core import CoreFacts
from postmortem.facts.crash import FatalPythonError
from postmortem.facts.last_words import KnownWord, KnownWords
from postmortem.facts.signature import Known, Signature
from postmortem.facts.threads import Thread
from postmortem.patterns import Pattern
from postmortem.records import replace

TABLE = Path(__file__).parent.parent / "knowledge" / "messages" / "literals.txt"
_LONGEST = 64 << 10
_MOST = 8
_OF_FATAL_ERROR = Pattern(r'"([^"]{4,})"(\.\.\.)?')
_INNERMOST = 16
_TEXT_FIELDS = ("text", "message", "what")
K = TypeVar("K", bound=Known)


def with_matches(fact: K) -> K:
    """Return what a process said, with the messages that its words hold."""
    from postmortem.readers.signatures import Signatures

    text = next(filter(None, map(vars(fact).get, _TEXT_FIELDS)), None)
    if text is None:
        return fact
    (found,) = Signatures.load("process text").matches([str(text)])
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
    given = [(where, text[:_LONGEST], tid) for where, text, tid in texts if text]
    if not given:
        return None
    every = "\n".join(text for _, text, _ in given)
    may = {names for names, literal in _literals() if literal in every}
    if not may:
        return None
    return _looked_up(given, may)


def _looked_up(
    given: list[tuple[str, str, int | None]], may: set[tuple[str, str]]
) -> KnownWords | None:
    from postmortem.knowledge.messages import family
    from postmortem.readers.signatures import Signatures

    ids = {name for _, name in may}
    wanted = [s for name in sorted({f for f, _ in may}) for s in family(name) if s.id in ids]
    engine = Signatures(wanted)
    items: dict[str, KnownWord] = {}
    for where, text, tid in given:
        for hit in engine.find(text.encode("utf-8", "surrogateescape"), each=1):
            items.setdefault(hit.id, KnownWord(hit.id, hit.text.strip(), where, tid))
    return KnownWords(tuple(items.values())[:_MOST]) if items else None


def _literals() -> list[tuple[tuple[str, str], str]]:
    rows: list[tuple[tuple[str, str], str]] = []
    with TABLE.open(encoding="utf-8") as lines:
        for line in lines:
            if not line.startswith("#"):
                name, identity, literal = line.rstrip("\n").split("\t")
                rows.append(((name, identity), literal))
    return rows


def is_asked_for(signature: Signature) -> bool:
    """Return whether a signature is one that a process's own words may show, and no rule has."""
    return (
        "log" in signature.where
        and signature.pattern is not None
        and signature.rule is None
        and signature.role in ("root", "contributing")
    )


def table() -> str:
    """Return what stands in `literals.txt`; a test compares the two."""
    from postmortem.knowledge.messages import signatures
    from postmortem.readers.signatures import Signatures

    asked = [signature for signature in signatures() if is_asked_for(signature)]
    engine = Signatures(asked)
    rows = [
        f"{signature.family}\t{signature.id}\t{literal}"
        for signature, literals in zip(asked, engine.literals(), strict=True)
        for literal in sorted(literals)
    ]
    head = "# Family, id, a text of each match; made of the TOML files by readers/known_text.py"
    return "\n".join([head, *rows]) + "\n"


if __name__ == "__main__":
    from postmortem.knowledge import messages

    messages.TABLE.write_text(messages.table(), encoding="utf-8")
    TABLE.write_text(table(), encoding="utf-8")
