"""Masks the text of a log as it comes, in pieces of whole lines."""

from postmortem.report.forms import Present, forms_in, words_in
from postmortem.report.leaks import is_telling, plain_forms
from postmortem.report.private_keys import key_parts, open_key
from postmortem.report.redact import Redactor


class LogMasker:
    """Masks what one writer wrote; a private key may go on from one piece to the next."""

    def __init__(self, present: Present = words_in) -> None:
        """Take what tells which words stand in a text."""
        self._present = present
        self._open: tuple[str, int] | None = None  # the line a key begins on, and how many ago

    def mask(self, text: str) -> str:
        """Return some whole lines with what is secret in them masked."""
        lines = text.split("\n")
        active = forms_in("\n".join(plain_forms(lines)), self._present)
        redactor = Redactor()
        before = [self._open[0]] if self._open is not None else []
        parts = [*key_parts([*before, *lines])]
        for part in parts:
            redactor.know(part)
        self._open = open_key(self._open, lines)
        if not active and not parts and not is_telling(text):
            return text
        return "\n".join(redactor.line(line, active) for line in lines)
