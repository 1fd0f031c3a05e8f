"""The report on many cores: one row for each crash, then how each is told from the others."""

import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from postmortem.diagnose.stacks.fold import Fold, FoldedCore, diagnosis_of, first_of, rest_of
from postmortem.errors import EvidenceError
from postmortem.facts.rank_sets import rank_words
from postmortem.facts.source import Problem, Source
from postmortem.present.headline.cores import headline
from postmortem.report.blocks import Block, KeyValues, Note, Table, Tone
from postmortem.report.card import Highlights
from postmortem.report.contract import fill
from postmortem.report.contract.cores import Cores, Crash
from postmortem.report.model import Report, ordered
from postmortem.text import counted, more, some

_MOST_FOLDS = 12
_MOST_NAMED = 6
_ON_CARD = 6
_NO_HASH = "no signature"


def cores_report(
    crashes: Sequence[Fold],
    sources: Iterable[Source],
    problems: Sequence[Problem],
    unread: int,
    *,
    verbose: bool,
) -> Report:
    """Return the report; `unread` is how many cores gave no row."""
    cores = [core for fold in crashes for core in fold.cores]
    return Report(
        kind="cores",
        inputs=tuple(sources),
        verdict=headline(crashes),
        failed=any(core.failed for core in cores),
        diagnoses=ordered(diagnosis_of(fold) for fold in crashes if fold.example.diagnosis),
        blocks=fold_blocks(crashes, verbose=verbose),
        body=fold_body(crashes, unread),
        problems=_bounded(problems),
        footer=(f"{counted(len(cores), 'core')} read",),
        highlights=_highlights(crashes),
    )


def _highlights(found: Sequence[Fold]) -> Highlights:
    if len(found) < 2:
        return Highlights()
    rows = tuple((counted(len(f.cores), "core") + _ranks(f), f.summary) for f in found[:_ON_CARD])
    left = len(found) - len(rows)
    total = counted(sum(len(fold.cores) for fold in found), "core")
    return Highlights(
        rows=rows,
        headline=f"{total} of {len(found)} different crashes",
        rest=counted(left, "more crash", "more crashes") if left else None,
    )


def _ranks(fold: Fold) -> str:
    return f", ranks {rank_words(fold.ranks)}" if fold.ranks else ""


def fold_blocks(found: Sequence[Fold], *, verbose: bool) -> tuple[Block, ...]:
    """Return the blocks in the order in which they are read."""
    shown = found if verbose else found[:_MOST_FOLDS]
    rows = tuple(
        (str(len(f.cores)), rank_words(f.ranks) or "-", str(len(f.hosts) or "-"), f.summary)
        for f in shown
    )
    title = counted(len(found), "crash", "crashes")
    columns = ("cores", "ranks", "hosts", "crash")
    blocks: list[Block] = [Table(columns, rows, title, right_aligned=(0, 2))]
    if len(found) > 1:
        first = first_of(found)
        which = next(fold for fold in found if first in fold.cores)
        blocks.append(Note(f"first in time: {_who(first)}: {which.summary}"))
    blocks += [_details(fold, rest_of(fold, found), verbose) for fold in shown]
    if len(shown) < len(found):
        rest = sum(len(fold.cores) for fold in found[len(shown) :])
        words = counted(len(found) - len(shown), "more crash", "more crashes")
        text = f"{words} of {counted(rest, 'core')}: -v or --json shows them"
        blocks.append(Note(text, Tone.QUIET))
    return tuple(blocks)


def _details(fold: Fold, same_as: Fold | None, verbose: bool) -> KeyValues:
    example, most = fold.example, 1000 if verbose else _MOST_NAMED
    rows = [("verdict", example.verdict)]
    if same_as is not None:
        whole = f"what is left of these fits {same_as.hash or _NO_HASH}, and no other"
        rows.append(("cut cores", f"{whole}: likely the same crash"))
    if fold.ranks:
        sizes = {core.world_size for core in fold.cores} - {None}
        of = f" of {sizes.pop()}" if len(sizes) == 1 else ""
        rows.append(("ranks", rank_words(fold.ranks) + of))
    if fold.hosts:
        rows.append(("hosts", some(fold.hosts, most)))
    if fold.pids:
        rows.append(("pids", some(fold.pids, most)))
    if len(fold.cores) > 1:
        rows.append(("first", _who(fold.first)))
    rows.append(("newest" if len(fold.cores) > 1 else "core", _who(fold.newest)))
    if example is not fold.newest:
        rows.append(("verdict of", f"{example.path}: the newest one is cut"))
    return KeyValues(tuple(rows), title=f"{fold.hash or _NO_HASH} · {fold.summary}")


def _who(core: FoldedCore) -> str:
    when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(core.time))
    parts = [f"{core.path} ({when}"]
    if core.rank is not None:
        parts.append(f"rank {core.rank}")
    return ", ".join(parts) + (", cut)" if core.truncated else ")")


_MOST_PROBLEMS = 200


def _bounded(problems: Sequence[Problem]) -> tuple[Problem, ...]:
    """Return the first problems, and how many more there are."""
    if len(problems) <= _MOST_PROBLEMS:
        return tuple(problems)
    rest = len(problems) - _MOST_PROBLEMS
    return (*problems[:_MOST_PROBLEMS], Problem("cores", f"and {rest:,} more problems like these"))


def no_core(named: Sequence[Path], problems: Sequence[Problem]) -> EvidenceError:
    """Return what is wrong where no core could be read."""
    told = "; ".join(f"{problem.where}: {problem.what}" for problem in problems[:3])
    told += more(len(problems) - 3, "; and {} more")
    hint = next((problem.remedy for problem in problems if problem.remedy), None)
    what = f"no core could be read ({told})" if told else "there is no core"
    return EvidenceError(", ".join(map(str, named[:3])), what, hint=hint)


def fold_body(found: Sequence[Fold], unread: int) -> dict[str, object]:
    """Return the fields of the report on many cores as plain JSON values."""
    return fill(
        Cores,
        first=first_of(found).path,
        signatures=[_crash(fold, rest_of(fold, found)) for fold in found],
        cores_read=sum(len(fold.cores) for fold in found),
        cores_unread=unread,
    )


def _crash(fold: Fold, same_as: Fold | None) -> dict[str, object]:
    diagnosis = fold.example.diagnosis
    return fill(
        Crash,
        fold,
        count=len(fold.cores),
        likely_same_as=None if same_as is None else same_as.hash,
        verdict=fold.example.verdict,
        diagnosis=None if diagnosis is None else diagnosis.id,
        example=fold.example.path,
        first=fold.first.path,
        newest=fold.newest.path,
    )
