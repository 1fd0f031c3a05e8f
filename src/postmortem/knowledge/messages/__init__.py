"""Everything that other programs print and that this one knows: a TOML file for each family.

A ``[[signature]]`` is explained to users; a ``[[wording]]`` is only looked for. What stands in them
is in docs/writing-a-signature.md; of TOML only what `load_table` reads.
"""

from functools import lru_cache
from pathlib import Path
from typing import Any

from postmortem.facts.signature import Brief, Match, Signature
from postmortem.knowledge.lookup import lines_of, load_table
from postmortem.patterns import Pattern
from postmortem.records import replace
from postmortem.text import shell_word

MPI_ENDS = ("mpi-abort-invoked", "mpi-error", "mpich-abort-called", "mpich-abort", "mpich-fatal")
"""Messages with which MPI ends a rank, and with it the job."""
CODE_ENDS = (
    "fortran-error", "fortran-severe", "fortran-stop", "go-panic", "go-panic-said",
    "java-uncaught", "julia-error", "sanitizer",
)  # fmt: skip
"""Words with which a run-time ends a process by an exit code, which leaves no core."""
_NAME = Pattern(r"\b(?:ADDRESS|FILE|FOLDER|HOST|INTERFACE|LIBRARY|MODULE|PATH|PIDS?|PORT|SYMBOL)\b")


@lru_cache(maxsize=1)
def messages() -> tuple[Signature, ...]:
    """Return all signatures and wordings, in order of families and, in each, of its file.

    Raises ValueError for a file that is not as it should be.
    """
    names = sorted(path.stem for path in Path(__file__).parent.glob("*.toml"))
    return tuple(message for name in names for message in family(name))


@lru_cache(maxsize=1)
def signatures() -> tuple[Signature, ...]:
    """Return those that are explained, in the same order."""
    return tuple(message for message in messages() if not message.is_wording)


@lru_cache(maxsize=64)
def family(name: str) -> tuple[Signature, ...]:
    """Return the messages of one file."""
    tables = load_table(f"messages/{name}.toml")
    default = tables.get("default", [{}])[0]
    explained = (_signature(name, default | row) for row in tables.get("signature", ()))
    return (*explained, *(_wording(name, default | row) for row in tables.get("wording", ())))


@lru_cache(maxsize=1)
def by_id() -> dict[str, Signature]:
    """Return all messages by their ids."""
    return {message.id: message for message in messages()}


def explained(name: str) -> Signature:
    """Return a message by its id; of all files only its own is read."""
    brief = briefs().get(name)
    if brief is None:  # one without a pattern
        return by_id()[name]
    return next(message for message in family(brief.family) if message.id == name)


def about(match: Match) -> Signature:
    """Return what is known of words that were found, with what they name in its next steps.

    A step has the name of a group in capitals: ``ldd -r LIBRARY``.
    """
    told = {name.upper(): value for name, value in match.captures.items() if value}
    if told.get("FILE", "").startswith("/"):
        told.setdefault("FOLDER", told["FILE"].rpartition("/")[0] or "/")
    names = {name: value if name == "PIDS" else shell_word(value) for name, value in told.items()}
    known = explained(match.id)
    steps = (_NAME.sub(lambda m: names.get(m[0], m[0]), one) for one in known.next_steps)
    return replace(known, next_steps=tuple(steps))


class Wording(Pattern):
    """The expression of a message, by its id, for texts of a few lines; `.` ends at a line's."""

    __slots__ = ()

    def _source(self) -> str:
        return _lines()[self.pattern].rpartition("\t")[2]


def told(name: str, text: str) -> Signature | None:
    """Return `about` a message, if a text holds it."""
    found = Wording(name).search(text)
    if found is None:
        return None
    return about(Match(name, {key: value for key, value in found.groupdict().items() if value}))


def missing_library(text: str) -> Signature | None:
    """Return `about` the library that the dynamic loader did not find, the closest first."""
    ids = ("gpu-driver-missing", "cuda-library-missing", "opengl-missing", "library-missing")
    return next((known for name in ids if (known := told(name, text)) is not None), None)


TABLE = Path(__file__).parent / "patterns.txt"


@lru_cache(maxsize=1)
def briefs() -> dict[str, Brief]:
    """Return in brief, by their ids, the messages that have a pattern, in order of `messages`.

    They stand in a table that is made of the TOML files: it is read in a tenth of the time.
    """
    return {name: _brief(line.split("\t")) for name, line in _lines().items()}


@lru_cache(maxsize=1)
def _lines() -> dict[str, str]:
    """Return the rows of the table by their ids; the pattern is what stands last."""
    with TABLE.open(encoding="utf-8") as file:
        rows = file.read().splitlines()
    return {row.partition("\t")[0]: row for row in rows if not row.startswith("#")}


def _brief(row: list[str]) -> Brief:
    name, family, role, where, part, startup, keep, ending, exception, pattern = row
    return Brief(
        name,
        family,
        role,
        tuple(where.split(", ")),
        pattern,
        part or None,
        startup or None,
        tuple(keep.split()),
        ending or None,
        exception or None,
    )


def table() -> str:
    """Return what stands in `patterns.txt`; `readers.known_text` writes it, a test compares."""
    head = "# id, family, role, where, part, startup, keep, ending, exception, pattern: of the TOML"
    rows = [
        (
            m.id,
            m.family,
            m.role,
            ", ".join(m.where),
            m.part or "",
            m.startup or "",
            " ".join(m.keep),
            m.ending or "",
            m.exception or "",
            m.pattern,
        )
        for m in messages()
        if m.pattern is not None
    ]
    return "\n".join([head, *map("\t".join, rows)]) + "\n"


def _signature(family: str, row: dict[str, Any]) -> Signature:
    take = row.pop
    return _made(
        family,
        row,
        role=take("role"),
        where=tuple(take("where", "log").split(", ")),
        cause=" ".join(take("cause").split()),
        next_steps=_steps(take("next")),
    )


def _wording(family: str, row: dict[str, Any]) -> Signature:
    where = tuple(row.pop("where", "line").split(", "))
    what = row.pop("what")
    return _made(family, row, role="context", where=where, cause=what, next_steps=())


def _made(family: str, left: dict[str, Any], **explained: Any) -> Signature:
    take = left.pop
    made = Signature(
        id=take("id"),
        family=family,
        **explained,
        reference=take("reference"),
        versions=take("versions", None),
        pattern=_joined(take("pattern", None)),
        frames=lines_of(take("frames", "")),
        sign=take("sign", None),
        rule=take("rule", None),
        samples=lines_of(take("samples", "")),
        unlike=lines_of(take("unlike", "")),
        event=take("event", None),
        fault=take("fault", None),
        part=take("part", None),
        startup=take("startup", None),
        keep=tuple(take("keep", "").split()),
        ending=take("ending", None),
        exception=take("exception", None),
        refines=tuple(take("refines", "").split()),
    )
    if left:
        raise ValueError(f"{family}.toml: {made.id}: unknown keys {', '.join(left)}")
    return made


def _joined(pattern: str | None) -> str | None:
    """Return an expression; where it has several lines each is an alternative of it."""
    return pattern if pattern is None else "|".join(lines_of(pattern))


def _steps(text: str) -> tuple[str, ...]:
    """Return the steps of a list in which each begins with "- " and may go on in further lines."""
    steps: list[list[str]] = []
    for line in lines_of(text):
        if line.startswith("- "):
            steps.append([line[2:].strip()])
        elif steps:
            steps[-1].append(line.strip())
        else:
            raise ValueError(f"no step begins before: {line}")
    return tuple(map(" ".join, steps))
