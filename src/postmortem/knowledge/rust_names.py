"""Rust's paths as one would say them: ``Loader::draw`` for ``<Loader<f32> as Sampler>::draw``."""

from postmortem.patterns import Pattern

_DEEPEST = 8
_IMPL = Pattern(r"::\{impl(?:#\d+|\})\}?(?=::)")
_POINTER = Pattern(r"^(?:&|\*const |\*mut |mut |dyn |'\w+ )+")
_CLOSES = {">": "<", ")": "(", "]": "[", "}": "{"}


def flattened(name: str) -> str:
    """Return a Rust path without the brackets of the type that it starts with.

    A name of another language is returned as it is: only in Rust a bracket comes first.
    """
    if "{impl" in name:  # as debug information names methods
        name = _IMPL.sub("", name)
    for _ in range(_DEEPEST):
        if not name.startswith("<") or name.startswith("<lambda"):
            return name
        end = _closing(name)
        if end is None or not name.startswith("::", end + 1):
            return name
        name = _type_name(name[1:end]) + name[end + 1 :]
    return name


def _closing(name: str) -> int | None:
    """Return where the bracket that the name starts with is closed."""
    depth = 0
    for index, character in enumerate(name):
        if character == "<":
            depth += 1
        elif character == ">" and name[index - 1] not in "-=":
            depth -= 1
            if depth == 0:
                return index
    return None


def _type_name(text: str) -> str:
    """Return the type of ``Type as Trait``, without references; its path alone."""
    end = _top_level_as(text)
    own = flattened(_POINTER.sub("", text[:end].strip()))
    for start, word in (("[", "slice"), ("(", "tuple"), ("fn(", "fn"), ("{", "type")):
        if own.startswith(start):
            return word
    return own.partition(" + ")[0] or "type"


def _top_level_as(text: str) -> int:
    depth = 0
    for index, character in enumerate(text):
        if character in "<([{":
            depth += 1
        elif character in _CLOSES and not (character == ">" and text[index - 1] in "-="):
            depth -= 1
        elif depth == 0 and character == " " and text.startswith(" as ", index):
            return index
    return len(text)
