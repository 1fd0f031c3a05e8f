"""Finds where secrets stand in a text or on a command line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from postmortem.patterns import Pattern
from postmortem.records import record
from postmortem.report.secrets import (
    ASSIGNMENT,
    KEY_BEGINS,
    PRIVATE_KEY,
    VALUE,
    Suspicion,
    is_secret,
    looks_random,
    may_hold_value,
    may_tell,
    suspicion,
)

_OPTION = Pattern(r"--?[A-Za-z][\w.-]*", words=("-",))
_WORD_ASSIGNMENT = Pattern(r"[-+~]*([A-Za-z_][\w.:/-]*)=(.*)", re.DOTALL, words=("=",))
_INNER_OPTION = Pattern(
    r"(?<!\S)--?(?P<name>[A-Za-z][\w-]+)[ =](?P<value>[^\s\"'`;|&<>\[-][^\s\"'`;|&<>]*)",
    words=("-",),
)
_SWITCH = Pattern(r"-*(use|no|with|without|enable|disable|skip|ignore|show|allow|is|has)[-_]", re.I)

# Programs whose single-letter options take a password.
_PASSWORD_OPTIONS = {
    "sshpass": "-p",
    "mysql": "-p",
    "mysqldump": "-p",
    "mysqladmin": "-p",
    "mariadb": "-p",
    "login": "-p",  # docker login, podman login, az login
    "curl": "-u",
    "redis-cli": "-a",
    "ldapsearch": "-w",
    "rsync-ssl": "-p",
}


@record
class Find:
    """A secret inside a text."""

    start: int
    end: int
    name: str | None
    learn: bool = True
    """Whether to mask this value elsewhere too."""
    root: str | None = None
    """The whole secret, if the text shows a part of it."""


def find_values(text: str) -> Iterator[Find]:
    """Find values that are secret by their form."""
    if not may_hold_value(text):
        return
    keys = PRIVATE_KEY.finditer(text) if KEY_BEGINS in text else ()
    for match in (*keys, *VALUE.finditer(text)):
        name = match.lastgroup
        start, end = match.span(name) if name else match.span()
        if text[start:end].startswith("[masked"):
            continue
        yield Find(start, end, None)


def find_assignments(text: str) -> Iterator[Find]:
    """Find secrets by name in code, JSON and shell text."""
    if not _may_assign(text) or not may_tell(text):
        return
    for match in ASSIGNMENT.finditer(text):
        group = next(g for g in ("escaped", "double", "single", "bare") if match[g])
        value = match[group]
        if not is_secret(match["name"], value) or value.startswith("[masked"):
            continue
        if group == "bare" and match["sign"] != "=" and not _is_key_like(match["name"], value):
            continue  # an expression (token = read_token), or prose (token: invalid)
        # login(token=my_token): a variable, not its value, though one cannot be sure
        learn = group != "bare" or not value.isidentifier() or any(map(str.isdigit, value))
        yield Find(*match.span(group), match["name"], learn)


def _may_assign(text: str) -> bool:
    """Return False if nothing in this text can be the sign of an assignment.

    The colons of C++ names are none, nor are commas between words without quotes.
    """
    if "=" in text or ("," in text and ('"' in text or "'" in text)):
        return True
    return ":" in text and ":" in text.replace("::", "")


def _is_key_like(name: str, value: str) -> bool:
    """Whether a word after ``name: `` can be meant as a secret: X-Api-Key: abc123def."""
    if suspicion(name) is not Suspicion.STRONG:
        return looks_random(value)
    digits = sum(map(str.isdigit, value))
    return looks_random(value) or (len(value) >= 6 and 2 <= digits < len(value))


def find_told(text: str) -> Iterator[Find]:
    """Find what an arbitrary text, such as a message, tells by itself.

    Parsers complain of an "unexpected token: …", so that word needs a value that looks random.
    """
    for find in find_assignments(text):
        name = find.name or ""
        told = suspicion(name) is Suspicion.STRONG and "TOKEN" not in name.upper()
        if told or looks_random(text[find.start : find.end]):
            yield find
    if "-" in text and may_tell(text):
        yield from _find_options(text)


def find_in_argv(args: Sequence[str]) -> Iterator[tuple[int, Find]]:
    """Find secrets in a command line: index of the word, and where in it."""
    programs = {PurePosixPath(word).name for word in args[:4]}
    password_options = {_PASSWORD_OPTIONS[name] for name in programs & _PASSWORD_OPTIONS.keys()}
    for index, word in enumerate(args):
        before = args[index - 1] if index else ""
        find = _find_in_word(word, before, password_options)
        if find is not None:
            yield index, find
        elif '"' in word or "'" in word or "{" in word or word.split() != [word]:
            # code, JSON, a shell command
            yield from ((index, inner) for inner in find_assignments(word))
            yield from ((index, inner) for inner in _find_options(word))


def _find_options(text: str) -> Iterator[Find]:
    """Find ``--password X`` in a command that is one text."""
    for match in _INNER_OPTION.finditer(text):
        if is_secret(match["name"], match["value"]):
            yield Find(*match.span("value"), match["name"])


def _find_in_word(word: str, before: str, password_options: set[str]) -> Find | None:
    if before in password_options and not word.startswith("-"):
        start = word.find(":") + 1 if before == "-u" else 0
        return Find(start, len(word), None) if start or before != "-u" else None
    if "-p" in password_options and re.match(r"-p.", word):  # mysql -pSECRET
        return Find(2, len(word), None)
    if _OPTION.fullmatch(before) and is_secret(before, word):
        switch = word.startswith("-") or _SWITCH.match(before)
        if not switch or looks_random(word):
            return Find(0, len(word), before)
    assignment = _WORD_ASSIGNMENT.fullmatch(word)
    if assignment and is_secret(assignment[1], assignment[2]):
        return Find(*assignment.span(2), assignment[1])
    return None
