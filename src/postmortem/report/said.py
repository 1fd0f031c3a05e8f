"""Whether something is said already: a card says nothing twice."""

from functools import lru_cache

from postmortem.patterns import Pattern

_WORD = Pattern(r"[\w./-]+")
_FEWEST_TOLD = 12
"""Characters that are no accident."""
_MOST_BEFORE = 12
"""Words of a logger that may stand before what it says."""
_FILLERS = frozenset(
    "a an and are has is it its of raised says that the them they this was were".split()
)


def says_nothing_new(text: str, said: str) -> bool:
    """Return whether all words of a text stand in what is said already."""
    known = {part for word in words_of(said) for part in (word, word.rpartition("/")[2])}
    words = words_of(text)[: -1 if text.endswith("…") else None]
    return all(word in known or word in _FILLERS for word in words)


def mostly_said(text: str, said: str, share: float = 0.75) -> bool:
    """Return whether so many words of a text stand in what is said already."""
    known, words = set(words_of(said)), words_of(text)
    return sum(word in known for word in words) >= share * len(words)


@lru_cache(256)  # a card tries several layouts
def unsaid(text: str, said: str) -> str:
    """Return what is left of a text that is said up to a cut; nothing where it is said as a whole.

    Ends of lines may stand anywhere in what is said.
    """
    if says_nothing_new(text, said):
        return ""
    words, flat = text.split(), "".join(said.split())
    for begin in range(min(len(words), _MOST_BEFORE)):
        end = begin
        while end < len(words) and "".join(words[begin : end + 1]) in flat:
            end += 1
        run = "".join(words[begin:end])
        if len(run) >= _FEWEST_TOLD and end < len(words):
            rest, cut, _ = flat.partition(run)[2].partition("…")
            if cut and words[end].startswith(rest):
                return f"… {' '.join(words[end:])}"
    return text


@lru_cache(256)  # of a card's parts, each with each other
def words_of(text: str) -> tuple[str, ...]:
    """Return the words of a text as they are compared."""
    return tuple(word.casefold().strip("….") for word in _WORD.findall(text))


def last_part(where: str) -> str:
    """Return a place without the folders of its file: ``job.log:11``."""
    return where.rsplit("/", 1)[-1] if where.startswith("/") else where
