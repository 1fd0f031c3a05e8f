"""Diagnoses and the report that carries them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from postmortem.facts.confidence import Confidence as Confidence
from postmortem.facts.confidence import Outcome as Outcome
from postmortem.facts.confidence import Role as Role
from postmortem.facts.confidence import Topic as Topic
from postmortem.facts.source import Problem, Source
from postmortem.records import record
from postmortem.report.blocks import Block
from postmortem.report.card import Highlights


@record
class Evidence:
    """One thing seen, and where: ``("thread 4711 frame 5", "c10d::…::handleNCCLGuard")``."""

    where: str
    what: str
    frame: tuple[int, int] | None = None
    """The thread and the place of its frame, where it is one."""


@record
class Subject:
    """Whom and what a conclusion is about: what joins it with other evidence of the same job."""

    pid: int | None = None
    rank: int | None = None
    host: str | None = None
    path: str | None = None
    """The file, device or address."""
    errno: str | None = None
    signal: str | None = None


@record
class Diagnosis:
    """A conclusion with its evidence; the title would do as the subject of an e-mail."""

    id: str
    """For `postmortem rules ID`."""
    title: str
    role: Role
    """`cascade`: died because something else did."""
    confidence: Confidence
    """The evidence states it, one known cause fits, or it is one of several."""
    cause: str
    next_steps: tuple[str, ...]
    evidence: tuple[Evidence, ...]
    references: tuple[str, ...] = ()
    lead: str = ""
    """What the title begins with, where that is who it is about: ``"rank 2 on node1"``."""
    verdict: str | None = None
    """The whole verdict, where this is the best and its title cannot be put into a sentence."""
    about: Subject | None = None
    """Whom and what it is about, where the evidence names them."""
    topic: Topic = Topic.FAILURE
    survived: bool = False
    """The process went on after it and exited with 0."""


@record
class Skipped:
    """A rule that could not run, the fact that it lacked, and what would supply it."""

    rule: str
    missing: str
    remedy: str | None = None


@record
class Report:
    """Everything that a renderer shows. Same evidence and version give the same report."""

    kind: str
    inputs: tuple[Source, ...]
    verdict: str
    failed: bool
    """Whether a failure was found: exit code 1."""
    diagnoses: tuple[Diagnosis, ...]
    blocks: tuple[Block, ...]
    body: Mapping[str, object]
    """The fields of this kind in the JSON schema, as plain JSON values."""
    problems: tuple[Problem, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    footer: tuple[str, ...] = ()
    """What was read, how and how long it took, in parts that are shown in one line."""
    more: str = ""
    """The options that show more of it."""
    masked: bool = False
    """Whether secrets were masked; nothing is written of one that was not, unless asked to."""
    settled: Outcome | None = None
    """Where it is not what `failed` says: healthy, or unknown beside signs of a failure."""
    highlights: Highlights | None = None
    """What only this kind can say on the card."""

    @property
    def footer_line(self) -> str:
        """The footer with the options that show more."""
        return " · ".join(filter(None, (*self.footer, self.more)))

    @property
    def outcome(self) -> Outcome:
        """What became of it; nothing found and nothing that says it went well is unknown.

        Nothing is healthy beside a file that could not be read.
        """
        read = {source.path for source in self.inputs}
        lost = read and any(p.where not in read for p in self.problems)
        if self.settled is Outcome.HEALTHY and lost:
            return Outcome.UNKNOWN
        return self.settled or (Outcome.FAILED if self.failed else Outcome.UNKNOWN)


def ordered(diagnoses: Iterable[Diagnosis]) -> tuple[Diagnosis, ...]:
    """Return diagnoses the best first: by role, then by confidence; stable within equals.

    What the evidence lacks comes behind what it says.
    """
    roles, degrees = list(Role), list(Confidence)

    def rank(one: Diagnosis) -> tuple[int, bool, int]:
        return roles.index(one.role), one.topic is Topic.EVIDENCE, degrees.index(one.confidence)

    return tuple(sorted(diagnoses, key=rank))
