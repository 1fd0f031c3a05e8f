"""Credentials that nobody ever had, made by chance of the forms in the knowledge base.

They are made when they are needed, so that no scanner of repositories takes a file for a leak.
"""

import random
import re
import string
from collections.abc import Iterator
from typing import NamedTuple

from postmortem.knowledge.lookup import load_table

_SIGNS = {
    "A": string.ascii_letters + string.digits,
    "x": string.digits + "abcdef",
    "U": string.ascii_uppercase + string.digits,
    "l": string.ascii_lowercase + string.digits,
    "w": string.ascii_letters + string.digits + "-_",
    "b": string.ascii_letters + string.digits + "+/",
    "d": string.digits,
}
_CLASSES = {
    "A-Za-z0-9": "A",
    "A-Fa-f0-9": "x",
    "A-Za-z0-9+/=_-": "w",
    "A-Za-z0-9_.=-": "w",
    "A-Z0-9": "U",
    "a-z0-9": "l",
    "A-Za-z0-9_-": "w",
    "A-Za-z0-9+/": "b",
}


class Fake(NamedTuple):
    """A made-up credential."""

    kind: str
    text: str
    """As a whole: with the command or header that makes it one."""
    secret: str
    """The part that nobody may see."""
    unlike: str
    """Something harmless that looks alike."""


def filled(template: str, chance: random.Random) -> str:
    """Return a template with random characters: ``<A36>`` is 36 letters and digits."""

    def some(match: re.Match[str]) -> str:
        signs, count = _SIGNS[match[1]], int(match[2])
        while True:
            text = "".join(chance.choices(signs, k=count))
            # One in some hundred has no digit; nobody could tell it from a word.
            if count < 12 or signs.isdigit() or (any(map(str.isdigit, text)) and text[0] != "-"):
                return text

    return re.sub(r"<([AxUlwbd])(\d+)>", some, template)


def fakes(seed: int = 1) -> Iterator[Fake]:
    """Yield one credential of each form that is known."""
    chance = random.Random(seed)
    table = load_table("secret_forms.toml")
    for row in table["prefix"]:
        for line in row["lines"].splitlines():
            begins, length, unlike, whose = line.split(" ", 3)
            text = begins + filled(f"<{_CLASSES[row['of']]}{length.lstrip('=~')}>", chance)
            yield Fake(f"{whose} ({begins})", text, text, unlike)
    for row in table["form"]:
        sample = filled(row["sample"].strip("\n"), chance)
        part = re.search(r"\{([^{}\"]*)\}", sample)
        text = sample if part is None else sample.replace(part[0], part[1])
        secret = text if part is None else part[1]
        yield Fake(row["id"], text, secret, row["unlike"].strip("\n"))


def leaked(secret: str, text: str, least: int = 8, other: str = "") -> bool:
    """Return whether a text tells so many characters of a secret, side by side.

    What an `other` secret of its kind has too is none.
    """
    least = min(least, len(secret))
    parts = (secret[at : at + least] for at in range(len(secret) - least + 1))
    return any(part in text and part not in other for part in parts)
