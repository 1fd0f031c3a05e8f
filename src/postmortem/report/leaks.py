"""Finds where secrets stand in a text or on a command line."""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath

from postmortem.patterns import Pattern
from postmortem.records import record
from postmortem.report.escapes import unescaped, without_quotes
from postmortem.report.forms import Form, forms_in
from postmortem.report.secrets import (
    ASSIGNMENT,
    BARE,
    KEY_BEGINS,
    NEXT_NAME,
    PRIVATE_KEY,
    QUOTED,
    Suspicion,
    is_secret,
    looks_random,
    may_tell,
    suspicion,
)

_OPTION = Pattern(r"--?[A-Za-z][\w.-]*")
_WORD_ASSIGNMENT = Pattern(r"[-+~]*([A-Za-z_][\w.:/-]*)=(.*)", re.DOTALL)
_INNER_OPTION = Pattern(
    r"(?<!\S)--?(?P<name>[A-Za-z][\w-]+)[ =](?P<value>[^\s\"'`;|&<>\[-][^\s\"'`;|&<>]*)"
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


_ENOUGH = 512
"""Characters of a value that tell whether it is a secret."""


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


def find_values(text: str, among: tuple[Form, ...] | None = None) -> Iterator[Find]:
    """Find values that are secret by their form, as they are written or behind escapes.

    Only forms `among` those given can match, if any are.
    """
    for start, end in _spans(text, among):
        if end > start:
            yield Find(start, end, None)
    for plain in unescaped(text):
        for start, end in _spans(plain.text, among):
            start, end = plain.span(start, end)
            if end > start:
                yield Find(start, end, None)


def plain_forms(texts: Iterable[str]) -> Iterator[str]:
    """Yield texts, and what they mean where something escaped them."""
    for text in texts:
        yield text
        for plain in unescaped(text):
            yield plain.text


def _spans(text: str, among: tuple[Form, ...] | None) -> Iterator[tuple[int, int]]:
    if KEY_BEGINS in text:
        yield from (match.span() for match in PRIVATE_KEY.finditer(text))
    if among is None:
        found = forms_in(text)
    else:
        found = tuple(form for form in among if form.may_match(text))
    yield from _of_forms(found, text)
    if found and "," in text and ('"' in text or "'" in text):
        words = without_quotes(text)
        if words != text:
            yield from _of_forms(found, words)


def _of_forms(found: tuple[Form, ...], text: str) -> Iterator[tuple[int, int]]:
    for form in found:
        for start, end in form.find(text):
            if not text.startswith("[masked", start):
                yield start, end


def find_assignments(text: str) -> Iterator[Find]:
    """Find secrets by name in code, JSON and shell text."""
    if not _may_assign(text) or not may_tell(text):
        return
    position = run_end = 0
    while (head := ASSIGNMENT.search(text, position)) is not None:
        # What is no secret's name may have one behind it: "RuntimeError: AWS_SECRET_ACCESS_KEY: …".
        position = head.end()
        name = head["name"]
        if suspicion(name) is Suspicion.NONE:
            continue
        quoted = QUOTED.match(text, position)
        if quoted is not None and quoted.lastgroup is not None:
            start, end = quoted.span(quoted.lastgroup)
        else:
            if run_end <= position:  # of "token:token:token:" all values end in one place
                run = BARE.match(text, position)
                run_end = position if run is None else run.end()
            start, end = position, run_end
        value = text[start : min(end, start + _ENOUGH)]
        if not is_secret(name, value) or value.startswith("[masked"):
            continue
        if quoted is None and not _is_bare_secret(head, value, text[end : end + 1]):
            continue
        # login(token=my_token): a variable, not its value, though one cannot be sure
        learn = quoted is not None or not value.isidentifier() or any(map(str.isdigit, value))
        yield Find(start, end, name, learn)
        position = end if quoted is None else quoted.end()


def _is_bare_secret(head: re.Match[str], value: str, following: str) -> bool:
    """Whether a value without quotes is meant as one, and is no code or prose."""
    if len(value) < 4 or (following in ("(", "[", "{") and following):
        return False
    if NEXT_NAME.match(value) or _is_reference(head["name"], value):
        return False
    # An expression (token = read_token), or prose (token: invalid).
    return head["sign"] == "=" or _is_key_like(head["name"], value)


def _is_reference(name: str, value: str) -> bool:
    """Whether a value is a variable of the same name: ``api_key=self._api_key``."""
    return value.replace(".", "_").isidentifier() and name.casefold() in value.casefold()


def is_telling(text: str) -> bool:
    """Return False if no name in a text can tell of a secret, written plainly or escaped."""
    return may_tell(text) or "\\x" in text or "\\u" in text or "%" in text


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
    """Find what an arbitrary text, such as a message, tells by its names."""
    yield from _told(text)
    if "\\" in text or "%" in text or "&" in text:
        for plain in unescaped(text):
            for find in _told(plain.text):
                start, end = plain.span(find.start, find.end)
                yield Find(start, end, find.name, find.learn)


def _told(text: str) -> Iterator[Find]:
    for find in find_assignments(text):
        if _is_told(find.name or "", text[find.start : find.end]):
            yield find
    if "-" in text and may_tell(text):
        yield from _find_options(text)


def _is_told(name: str, value: str) -> bool:
    """Whether a value beside a name in prose is a secret.

    Parsers complain of an "unexpected token: …", so that word alone needs a random value.
    """
    if suspicion(name) is not Suspicion.STRONG:
        return looks_random(value)
    if "TOKEN" not in name.upper() or looks_random(value):
        return True
    return name.upper() not in ("TOKEN", "TOKENS") and _is_key_like(name, value)


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
