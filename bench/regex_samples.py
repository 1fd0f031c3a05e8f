"""Random texts that a regular expression matches; for the rule tables of secret scanners."""

import random
import re
import string
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_ANY = string.ascii_letters + string.digits
_CLASSES = {
    "CATEGORY_WORD": _ANY,
    "CATEGORY_DIGIT": string.digits,
    "CATEGORY_SPACE": " ",
    "CATEGORY_NOT_SPACE": _ANY,
}


class Sampler:
    """Makes texts of expressions; `groups` are the captures of the last one."""

    def __init__(self, chance: random.Random) -> None:
        """Take where chance comes from."""
        self._chance = chance
        self.groups: dict[int, str] = {}

    def text(self, pattern: str) -> str:
        """Return a text that a pattern of Go's or Python's syntax matches."""
        self.groups = {}
        # Go allows flags anywhere; for making texts the case does not matter.
        plain = re.sub(r"\(\?[is]+\)", "", pattern)
        plain = re.sub(r"\(\?-?[is]+(?:-[is]+)?:", "(?:", plain).replace(r"\z", r"\Z")
        plain = plain.replace("[[:alnum:]]", "[A-Za-z0-9]")
        return self._of(re._parser.parse(plain))  # type: ignore[attr-defined]

    def _of(self, nodes: Any) -> str:
        return "".join(self._one(str(kind), value) for kind, value in nodes)

    def _one(self, kind: str, value: Any) -> str:
        if kind == "LITERAL":
            return chr(value)
        if kind in ("NOT_LITERAL", "ANY"):
            return "." if kind == "ANY" else "x"
        if kind == "IN":
            return self._chance.choice(self._set(value))
        if kind == "BRANCH":
            return self._of(self._chance.choice(value[1]))
        if kind in ("MAX_REPEAT", "MIN_REPEAT"):
            least, most, inner = value
            count = self._chance.randint(least, min(int(most), max(least, 8)))
            return "".join(self._of(inner) for _ in range(count))
        if kind == "SUBPATTERN":
            made = self._of(value[3])
            if value[0] is not None:
                self.groups[value[0]] = made
            return made
        return ""  # a place: \b, ^, $

    def _set(self, items: Any) -> str:
        signs = ""
        for kind, value in items:
            name = str(kind)
            if name == "NEGATE":
                return _ANY
            if name == "LITERAL":
                signs += chr(value)
            elif name == "RANGE":
                signs += "".join(map(chr, range(value[0], value[1] + 1)))
            else:
                signs += _CLASSES.get(str(value), _ANY)
        printable = "".join(c for c in signs if c.isprintable())
        return printable or " "


def of_rules(path: Path, seed: int) -> Iterator[tuple[str, str, str]]:
    """Yield (rule, text, its secret part) for each rule of a gitleaks configuration.

    A rule that needs a word before the value is given the name that the rule has: a variable.
    """
    sampler = Sampler(random.Random(seed))
    for rule in tomllib.loads(path.read_text())["rules"]:
        pattern = rule.get("regex")
        if not pattern:
            continue  # by the name of a file
        needs_name = r"[\w.-]{0,50}?" in pattern
        for _ in range(50):
            text = sampler.text(pattern)
            whole = text.strip()[len(text.strip()) // 2 :]  # of an address the end is secret
            secret = next((g for g in sampler.groups.values() if len(g) >= 6), whole)
            if any(map(str.isdigit, secret)) or len(secret) < 12:
                break
        secret = secret.strip(" '\"`;=")
        if needs_name:
            text = f"{rule['id'].upper().replace('-', '_')}={secret}"
        yield rule["id"], text.strip(), secret
