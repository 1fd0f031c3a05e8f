"""What a rule is, how rules are found, and how they are run.

A rule is a function from facts to findings. Its parameters name the facts that it needs by type:
a required one (``threads: Threads``) makes the rule skip when the evidence does not have it, an
optional one (``exception: CppException | None``) is None then. Rules know nothing of each other
and may run in any order; one that raises becomes a problem of the report, and the others go on.
"""

import functools
import importlib
import os
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping

from postmortem import underway
from postmortem.diagnose.names import clip
from postmortem.facts.source import Problem
from postmortem.records import record, replace
from postmortem.report.model import (
    Confidence,
    Diagnosis,
    Evidence,
    Role,
    Skipped,
    Subject,
    Topic,
    ordered,
)

TITLE_LETTERS = 100


@record
class Finding:
    """What a rule concludes; the engine adds the rule's id, role and references."""

    title: str
    """Cut where it is longer than `title_letters`."""
    cause: str
    confidence: Confidence
    next_steps: tuple[str, ...]
    evidence: tuple[Evidence, ...]
    role: Role | None = None
    """Overrides the rule's own role where this case has another."""
    elsewhere: bool = False
    """It tells of a consequence and points at another process, whose end a fallback may tell."""
    lead: str = ""
    """What the title begins with, where that is who it is about: ``"rank 2 on node1"``."""
    verdict: str | None = None
    """The whole verdict, where this is the best and its title cannot be put into a sentence."""
    about: Subject | None = None
    """Whom and what it is about, where the evidence names them."""
    stands: bool = False
    """It is told as it is, whatever its rule yields to."""
    survived: bool = False
    """The process went on after it and exited with 0."""
    references: tuple[str, ...] = ()
    """Of this case, in place of those of the rule."""
    explains: tuple[str, ...] = ()
    """Ids of rules whose findings this case explains: they yield to it as `yields_as` says."""
    title_letters: int = TITLE_LETTERS


ANY_REASON = ("*",)
"""What a rule yields to that only says how the process ended, not why."""

Findings = Iterator[Finding]

RuleFunction = Callable[..., Iterable[Finding]]


@record
class Rule:
    """A registered rule."""

    id: str
    family: str
    role: Role
    references: tuple[str, ...]
    function: RuleFunction
    yields_to: tuple[str, ...] = ()
    """Ids of rules that say more of the same failure; `ANY_REASON`: whoever says why it failed."""
    yields_as: Role | None = None
    """The role of its findings where it yields; None: they are not told."""
    topic: Topic = Topic.FAILURE

    @property
    def documentation(self) -> str:
        """What it means, how to be sure, what to do: the docstring of it, or of its file."""
        import inspect
        import sys

        module = sys.modules[self.function.__module__]
        text = inspect.cleandoc(self.function.__doc__ or module.__doc__ or "")
        for heading in ("How to be sure", "What to do"):
            text = text.replace(f"\n{heading}\n", f"\n\n{heading}\n")
        return text

    def needs(self) -> Mapping[str, tuple[type, bool]]:
        """Return the facts that it takes: parameter name to (type, required)."""
        return _taken(self.function)


def rule(
    *references: str,
    role: Role = Role.ROOT,
    yields_to: tuple[str, ...] = (),
    yields_as: Role | None = None,
    topic: Topic = Topic.FAILURE,
) -> Callable[[RuleFunction], Rule]:
    """Make a rule of a function; its name is the rule's id, its package the rule's family."""

    def register(function: RuleFunction) -> Rule:
        family = function.__module__.rsplit(".", 2)[-2]
        name = function.__name__
        return Rule(name, family, role, references, function, yields_to, yields_as, topic)

    return register


KINDS = "core tensors strace ranks hang watch net gpu gpu_memory fleet importing".split()
"""Kinds of evidence that have rules, each with a folder of its own here."""


@functools.cache
def load(evidence: str = "core") -> tuple[Rule, ...]:
    """Import the rules over one kind of evidence and return them, in order of their ids.

    Each of `KINDS` has a folder of its own, so that none pays for the others. A rule is a
    function of a module, or one of its `RULES`, which it makes of the rows of a table.
    """
    name = f"postmortem.diagnose.{evidence}"
    package = importlib.import_module(name)
    found: dict[str, Rule] = {}
    for module_name in _modules_below(package.__path__[0], name):
        module = importlib.import_module(module_name)
        for value in (*vars(module).values(), *getattr(module, "RULES", ())):
            if isinstance(value, Rule) and value.function.__module__ == module_name:
                if value.id in found:
                    raise RuntimeError(f"two rules have the id {value.id!r}")
                found[value.id] = value
    return tuple(found[name] for name in sorted(found))


def _modules_below(folder: str, package: str) -> Iterator[str]:
    """Yield the names of all modules, as pkgutil.walk_packages does, which imports inspect."""
    with os.scandir(folder) as found:  # pathlib takes as long as importing ten rules
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        stem, dot, suffix = entry.name.rpartition(".")
        if dot and suffix == "py" and stem != "__init__":
            yield f"{package}.{stem}"
        elif not dot and _is_package(entry):
            yield from _modules_below(entry.path, f"{package}.{entry.name}")


def _is_package(entry: os.DirEntry[str]) -> bool:
    return entry.is_dir() and "__init__.py" in os.listdir(entry.path)  # noqa: PTH208


@record
class Outcome:
    """What running the rules gave."""

    diagnoses: tuple[Diagnosis, ...]
    skipped: tuple[Skipped, ...]
    problems: tuple[Problem, ...]


def run(
    rules: Iterable[Rule],
    facts: Mapping[type, object],
    *,
    remedies: Mapping[type, str] | None = None,
) -> Outcome:
    """Run rules over facts; `remedies` says per fact type what would supply it."""
    underway.thinking()
    found: list[_Found] = []
    skipped: list[Skipped] = []
    problems: list[Problem] = []
    for item in rules:
        arguments: dict[str, object] = {}
        missing: type | None = None
        for name, (fact_type, required) in item.needs().items():
            value = facts.get(fact_type)
            if value is None and required:
                missing = fact_type
                break
            arguments[name] = value
        if missing is not None:
            remedy = (remedies or {}).get(missing)
            skipped.append(Skipped(item.id, missing.__name__, remedy))
            continue
        try:
            found += _diagnoses(item, arguments)
        except Exception as error:  # a broken rule must not take the report with it
            what = f"the rule failed: {type(error).__name__}: {error}"
            problems.append(Problem(f"rule {item.id}", what, "please report this with --json"))
    return Outcome(ordered(_by_precedence(found)), tuple(skipped), tuple(problems))


@record
class _Found:
    rule: Rule
    diagnosis: Diagnosis
    answers: bool
    """It says why something failed."""
    finding: Finding


def _by_precedence(found: list[_Found]) -> Iterator[Diagnosis]:
    """Yield what is told: those whose rule yields to another that found something, if at all."""
    ids = {one.rule.id for one in found}
    explained = {name for one in found for name in one.finding.explains}
    if any(one.answers and one.rule.yields_to != ANY_REASON for one in found):
        ids |= set(ANY_REASON)
    for one in sorted(found, key=lambda one: one.rule.yields_to == ANY_REASON):
        yields = one.rule.id in explained or ids.intersection(one.rule.yields_to)
        if one.finding.stands or not yields:
            yield one.diagnosis
        elif one.rule.yields_as is not None:
            yield replace(one.diagnosis, role=one.rule.yields_as)


def _diagnoses(item: Rule, arguments: dict[str, object]) -> Iterator[_Found]:
    """Yield what a rule found."""
    for finding in item.function(**arguments):
        role = finding.role or item.role
        diagnosis = Diagnosis(
            id=item.id,
            title=clip(finding.title, finding.title_letters),
            role=role,
            confidence=finding.confidence,
            cause=finding.cause,
            next_steps=finding.next_steps,
            evidence=finding.evidence,
            references=finding.references or item.references,
            lead=finding.lead,
            verdict=finding.verdict,
            about=finding.about,
            topic=item.topic,
            survived=finding.survived,
        )
        answers = role in (Role.ROOT, Role.CASCADE) and not finding.elsewhere
        yield _Found(item, diagnosis, answers, finding)


@functools.cache
def _taken(function: RuleFunction) -> Mapping[str, tuple[type, bool]]:
    hints = function.__annotations__  # types, as no file with rules imports them to check alone
    return {name: _optional(hint) for name, hint in hints.items() if name != "return"}


def _optional(hint: object) -> tuple[type, bool]:
    """Return the type of a parameter, and whether a value is required."""
    kinds = [kind for kind in typing.get_args(hint) if kind is not types.NoneType]
    if isinstance(hint, types.UnionType) and len(kinds) == 1:
        return typing.cast(type, kinds[0]), False
    return typing.cast(type, hint), True


__all__ = [
    "KINDS", "Confidence", "Evidence", "Finding", "Findings", "Outcome", "Role", "Rule", "Subject",
    "Topic", "load", "rule", "run",
]  # fmt: skip
