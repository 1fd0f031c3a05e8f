"""Which of many words stand in a text: one native pass, however many they are."""

from collections.abc import Collection, Sequence

_SHORT = 64
"""Characters up to which asking word by word is faster than making the table for a pass."""


def words_in(words: Sequence[str], text: str) -> Collection[int]:
    """Return which words stand in a text, by their numbers."""
    if len(text) < _SHORT:
        return [number for number, word in enumerate(words) if word in text]
    from postmortem import _native

    # a list: a tuple takes seven times as long, 0.2 ms for 300 words
    return _native.texts_in([*words], text.encode("utf-8", "surrogatepass"))
