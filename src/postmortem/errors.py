"""What can go wrong with evidence, each with the hint that helps.

An exception means that the input could not be analysed at all (exit code 3). A part that could
not be read is a `Problem` in the report instead, and never an exception.
"""


class EvidenceError(Exception):
    """The evidence cannot be analysed: where, what was seen, and what to do about it."""

    def __init__(
        self, where: str, what: str, *, offset: int | None = None, hint: str | None = None
    ) -> None:
        place = where if offset is None else f"{where}:+{offset:#x}"
        super().__init__(f"{place}: {what}")
        self.where = where
        self.what = what
        self.offset = offset
        self.hint = hint


class DebuggerError(Exception):
    """gdb could not do what was asked; the report goes on without it."""

    def __init__(self, what: str, *, hint: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint


class Refusal(Exception):
    """What was asked for cannot be done here, as one line; the command ends with `status`."""

    status = 3

    def __init__(self, what: str, *, hint: str | None = None) -> None:
        super().__init__(what)
        self.hint = hint
