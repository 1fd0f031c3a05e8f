"""Which known bugs of libraries the evidence shows: version, machine, and what must be seen.

A bug that a known version rules out is never named. One whose version nobody tells is named only
where what is seen is rare (`telling`), and is possible at most.
"""

from collections.abc import Iterable, Iterator, Mapping

from postmortem.diagnose.names import clip
from postmortem.diagnose.rule import Finding
from postmortem.facts.bug import KnownBug
from postmortem.facts.versions import LibraryVersion, Versions
from postmortem.knowledge.bugs import families_for, family
from postmortem.knowledge.symbols import symbol
from postmortem.knowledge.version_ranges import is_in, version
from postmortem.records import record
from postmortem.report.model import Confidence, Evidence, Role

_MOST = 3
_DEGREES = tuple(Confidence)
_OFF = ("", "0", "false", "off", "no")


@record
class SeenStack:
    """One stack, the innermost function first."""

    where: str
    functions: tuple[str, ...]
    """``"f(int)"``; of Python ``"/path/file.py function"``."""
    modules: tuple[str, ...] = ()
    """File names of the libraries."""
    crashed: bool = False


@record
class Sight:
    """All that bugs may ask for."""

    stacks: tuple[SeenStack, ...] = ()
    texts: tuple[tuple[str, str], ...] = ()
    """(where, what was written)."""
    messages: tuple[tuple[str, str, str], ...] = ()
    """(id of the known line, where, text)."""
    signals: tuple[str, ...] = ()
    variables: Mapping[str, str] = {}


def find_bugs(versions: Versions, sight: Sight, *, may_be_root: bool = False) -> Iterator[Finding]:
    """Yield what is known of what is seen, the surest first."""
    names = families_for(_everything(sight))
    if not names:
        return
    found = []
    bare = tuple((stack, frozenset(_names(stack))) for stack in sight.stacks)
    for bug in (bug for name in names for bug in family(name)):
        confidence, lines = _version_of(bug, versions)
        if confidence is None:
            continue
        seen = _seen(bug, sight, bare)
        if seen is None:
            continue
        degree = max(confidence, Confidence(bug.confidence), key=_DEGREES.index)
        found.append((_DEGREES.index(degree), bug, degree, (*seen, *lines)))
    for _, bug, degree, evidence in sorted(found, key=lambda row: row[0])[:_MOST]:
        yield _finding(bug, degree, evidence, may_be_root=may_be_root)


def _everything(sight: Sight) -> str:
    """Return all that was seen in one text, each name once."""
    parts = {function for stack in sight.stacks for function in stack.functions}
    parts |= {module for stack in sight.stacks for module in stack.modules}
    parts |= {text for _, text in sight.texts}
    parts |= {name for name, _, _ in sight.messages}
    return "\n".join((*parts, *sight.variables))


def _finding(
    bug: KnownBug, degree: Confidence, evidence: tuple[Evidence, ...], *, may_be_root: bool
) -> Finding:
    role = Role(bug.role)
    if role is Role.ROOT and (degree is not Confidence.CERTAIN or not may_be_root):
        role = Role.CONTRIBUTING
    fixed = f"Fixed in: {bug.fixed_in}." if bug.fixed_in else ""
    return Finding(
        title=f"known bug: {bug.title}",
        cause=f"{bug.cause} {fixed} (postmortem rules {bug.id})".replace("  ", " "),
        confidence=degree,
        next_steps=bug.work_around,
        evidence=evidence,
        role=role,
        references=(bug.reference,),
    )


def _version_of(
    bug: KnownBug, versions: Versions
) -> tuple[Confidence | None, tuple[Evidence, ...]]:
    """Return how sure version and machine make it, None if they rule it out, and what says so."""
    machine = None if bug.machine == "any" else versions.machine
    if machine is not None and machine != bug.machine:
        return None, ()
    known = [(one, parsed) for one in versions.of(bug.library) if (parsed := version(one.version))]
    inside = [(one, p) for one, p in known if any(is_in(p, spec) for spec in bug.affected)]
    if known and not inside:
        return None, ()
    if not known:
        return (Confidence.POSSIBLE if bug.telling else None), ()
    lines = tuple(_line(one) for one, _ in inside[:2])
    if bug.machine != "any" and machine is not None:
        lines += (Evidence("machine", machine),)
    if all(parsed.before for _, parsed in inside):  # a build between two releases may have the fix
        return Confidence.POSSIBLE, lines
    doubt = len(inside) < len(known) or not any(one.sure for one, _ in inside)
    doubt |= bug.machine != "any" and machine is None
    return (Confidence.LIKELY if doubt else Confidence.CERTAIN), lines


def _line(one: LibraryVersion) -> Evidence:
    return Evidence(one.where, f"{one.library} {one.version}")


def _seen(
    bug: KnownBug, sight: Sight, stacks: Iterable[tuple[SeenStack, frozenset[str]]]
) -> tuple[Evidence, ...] | None:
    """Return what of a bug is seen; None if anything that must be is not."""
    evidence: list[Evidence] = []
    if bug.signals:
        if not set(bug.signals) & set(sight.signals):
            return None
        evidence.append(Evidence("signal", next(s for s in sight.signals if s in bug.signals)))
    if bug.messages or bug.text:
        line = _written(bug, sight)
        if line is None:
            return None
        evidence.append(line)
    for wanted in bug.variables:
        name, _, value = wanted.partition("=")
        is_set = sight.variables.get(name)
        if is_set is None or (is_set != value if value else is_set.lower() in _OFF):
            return None
        evidence.append(Evidence("environment", f"{name}={is_set}"))
    if bug.frames or bug.modules:
        stack = next((stack for stack, names in stacks if _stands(bug, stack, names)), None)
        if stack is None:
            return None
        what = " ← ".join(bug.frames) or ", ".join(bug.modules)
        evidence.append(Evidence(stack.where, clip(what, 300)))
    return tuple(evidence) or None


def _written(bug: KnownBug, sight: Sight) -> Evidence | None:
    for name, where, text in sight.messages:
        if name in bug.messages:
            return Evidence(where, clip(text, 300))
    for where, text in sight.texts:
        for literal in bug.text:
            at = text.find(literal)
            if at >= 0:
                begin = text.rfind("\n", 0, at) + 1
                return Evidence(where, clip(text[begin:].split("\n", 1)[0], 300))
    return None


def _stands(bug: KnownBug, stack: SeenStack, names: frozenset[str]) -> bool:
    if bug.signals and not stack.crashed:
        return False
    if bug.modules and not any(m.startswith(bug.modules) for m in stack.modules):
        return False
    return all(
        any(name.endswith(wanted) for name in stack.functions) if " " in wanted else wanted in names
        for wanted in bug.frames
    )


def _names(stack: SeenStack) -> Iterator[str]:
    for function in stack.functions:
        yield function if ".py " in function else symbol(function).bare
