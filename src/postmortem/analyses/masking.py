"""Secrets out of facts before rules see them, and out of the report that is made of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from postmortem.readers.present import words_in
from postmortem.records import replace
from postmortem.report.model import Report
from postmortem.report.redact import Redactor

if TYPE_CHECKING:
    from postmortem.facts.core import CoreFacts
    from postmortem.facts.process import Process

T = TypeVar("T")


class Masking:
    """Masks the facts and the report of one analysis; without `redact`, gives back what it gets."""

    def __init__(
        self, *, redact: bool, process: Process | None = None, argv: Iterable[Sequence[str]] = ()
    ) -> None:
        """Learn the secrets in the environment of a process, and in its and other command lines."""
        self.redactor: Redactor | None = None
        if redact:
            of = (process.env, process.initial_env, process.argv) if process else ((), (), ())
            self.redactor = Redactor.from_process(*of, words_in)
            for words in argv:
                self.redactor.learn_argv(words)

    def facts(self, facts: T) -> T:
        """Return facts as rules and reports may see them."""
        return facts if self.redactor is None else self.redactor.facts(facts)

    def core(self, facts: CoreFacts) -> CoreFacts:
        """Return the facts of a core with the words of its process masked.

        What is shown beside its name is masked by that: a short secret has no other mark.
        """
        if self.redactor is None:
            return facts
        env, initial_env = map(self.redactor.env, (facts.process.env, facts.process.initial_env))
        process, abort, fatal, panic, flying = self.facts(
            (
                replace(facts.process, env=env, initial_env=initial_env),
                facts.abort_message,
                facts.fatal_python_error,
                facts.panic,
                facts.cpp_exceptions,
            )
        )
        return replace(
            facts,
            process=process,
            abort_message=abort,
            fatal_python_error=fatal,
            panic=panic,
            cpp_exceptions=flying,
        )

    def report(self, report: Report) -> Report:
        """Return a report as it may be shown."""
        return report if self.redactor is None else self.redactor.report(report)

    def text(self, text: str) -> str:
        """Return a path or call as it may be shown."""
        return text if self.redactor is None else self.redactor.text(text)

    def words(self, argv: list[str]) -> list[str]:
        """Return a command line as it may be shown."""
        return argv if self.redactor is None else [*self.redactor.argv(argv)]

    @property
    def count(self) -> int:
        """How many distinct secrets were masked so far."""
        return 0 if self.redactor is None else self.redactor.count
